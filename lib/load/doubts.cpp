#include <mha/load/doubts.hpp>

#include <mha/files/text.hpp>
#include <mha/layer/names.hpp>
#include <mha/layer/stage.hpp>
#include <mha/load/layer_source.hpp>
#include <mha/naming/spelling.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <map>
#include <set>

namespace mha {

namespace {

/// An unknown name with a guess at its meaning; whether there is one.
std::pair<Message, bool> guess(const std::string& name, const std::optional<Misspelt>& meant) {
  static const auto names = [] {
    std::vector<std::string_view> list;
    for (const TensorInfo& info : tensor_names()) list.push_back(info.name);
    for (const StageInfo& info : stages()) list.push_back(info.name);
    return list;
  }();
  if (const std::vector<Stage> readings = readings_of(name); !readings.empty())
    return {message("{} ({}? bind it: <{}=FILE:{}>)", name, joined_names(readings, " or "),
                    name_of(readings[0]), name),
            true};
  if (meant) return {fmt::format("{} (is it {}?)", name, meant->meant), true};
  if (const std::string near = closest(name, names); !near.empty())
    return {fmt::format("{} (is it {}?)", name, near), true};
  return {name, false};
}

/// Whether the layer has the part that a name means in some form.
bool is_there(const std::string& meant, const NamedTensors& parts, const Identities& identities) {
  const auto has = [&](const std::string& name) {
    return parts.count(name) > 0 || identities.contains(name);
  };
  if (has(meant)) return true;
  const std::string role =
      meant.size() == 3 && (meant[0] == 'W' || meant[0] == 'b' || meant[0] == 'X') ? meant.substr(2)
      : meant == "X"                                                               ? "q"
                                                                                   : "";
  if (role == "q" || role == "k" || role == "v") {
    const std::string packed(1, ascii_upper(role[0]));
    if (meant[0] == 'X') return has("X") || has(role) || has(packed);
    return has(meant[0] == 'W' ? "W_qkv" : "b_qkv") || has(role) || has(packed);
  }
  return false;
}

/// The bindings of all tensors whose names clearly mean a missing part, one for each part.
std::string bindings_of(const std::vector<UnknownTensor>& unknown_tensors,
                        const NamedTensors& parts, const Identities& identities, Guesses& guesses) {
  std::string line;
  std::set<std::string> bound;
  for (const UnknownTensor& unknown : unknown_tensors)
    if (const std::optional<Misspelt>& meant = guesses.meant(unknown.name);
        meant && !is_there(meant->meant, parts, identities) && bound.insert(meant->meant).second)
      line += (line.empty() ? "" : " ") + binding(meant->meant, unknown, meant->axes);
  return line;
}

} // namespace

std::string binding(std::string_view name, const UnknownTensor& unknown, std::string_view axes) {
  const bool stream = unknown.file == "standard input";
  std::string tensor = unknown.name;
  const std::size_t number = ("." + tensor).find("." + unknown.layer + ".");
  if (!unknown.layer.empty() && number != std::string::npos)
    tensor.replace(number, unknown.layer.size(), "{layer}");
  return shell_word(fmt::format("{}={}:{}{}", name, stream ? "-" : unknown.file, tensor, axes));
}

const std::optional<Misspelt>& Guesses::meant(const std::string& name) {
  const auto known = meant_.find(name);
  if (known != meant_.end()) return known->second;
  return meant_.emplace(name, misspelt(name)).first->second;
}

const Guesses::Guess& Guesses::of(const std::string& name) {
  const auto known = known_.find(name);
  if (known != known_.end()) return known->second;
  auto [text, doubtful] = guess(name, meant(name));
  return known_.emplace(name, Guess{std::move(text), doubtful}).first->second;
}

void judge_unknown_tensors(const std::vector<UnknownTensor>& unknown_tensors,
                           const NamedTensors& parts, const Identities& identities, bool refuses,
                           Guesses& guesses, std::vector<Note>& notes) {
  std::map<std::string, std::vector<std::string>> skipped; // by file
  for (const UnknownTensor& unknown : unknown_tensors) {
    if (const SettingInfo* setting = find_setting(unknown.name); refuses && setting)
      fail("{}: {} is a setting, one value: {} are given ({})", io::shown(unknown.file),
           io::shown(unknown.name), counted(count_of(unknown.shape), "values"),
           to_string(unknown.shape));
    const std::optional<Misspelt>& meant = guesses.meant(unknown.name);
    if (refuses && meant && !is_there(meant->meant, parts, identities))
      fail("{}: {} is not a known name: {}: {}{}", io::shown(unknown.file), io::shown(unknown.name),
           meant->why, bindings_of(unknown_tensors, parts, identities, guesses), names_hint);
    skipped[unknown.file].push_back(unknown.name);
  }
  for (const auto& [file, names] : skipped) {
    constexpr std::size_t most = 64; // enough for a layer; a model's would fill a page
    Message text;
    bool doubtful = false;
    for (std::size_t i = 0; i < std::min(most, names.size()); ++i) {
      const Guesses::Guess& guess = guesses.of(names[i]);
      text += message("{}{}", i > 0 ? ", " : "", guess.text);
      doubtful = doubtful || guess.doubtful;
    }
    if (names.size() > most) text += fmt::format(" and {} more", names.size() - most);
    notes.emplace_back(message("{}: skipped, not a tensor of a layer: {}{}", file, text,
                               doubtful ? names_hint : Message()),
                       doubtful ? Severity::warning : Severity::note);
  }
}

void add_other_constants(
    const io::Contents& graph,
    const std::function<bool(const io::Contents& file, const io::Entry& entry)>& is_bound,
    std::vector<UnknownTensor>& unknown_tensors) {
  const auto own = [&](const io::Entry& entry) { return is_bound(graph, entry); };
  if (std::ranges::none_of(graph.tensors, own)) return;
  for (const io::Entry& entry : graph.tensors)
    if ((entry.shape.size() == 2 || entry.shape.size() == 3) && !own(entry))
      unknown_tensors.push_back({graph.name, entry.name, entry.shape, entry.dtype});
}

Message inputs_among(const std::vector<const io::Contents*>& files, const std::string& id,
                     std::size_t width) {
  constexpr std::size_t most = 3;
  std::vector<std::string> own, others;
  for (const io::Contents* file : files)
    for (const io::Entry& entry : file->tensors) {
      const Shape& shape = entry.shape;
      if (shape.size() < 2 || shape.size() > 3 || !is_floating(entry.dtype)) continue;
      if (shape.back() != width) continue;
      if (!canonical_name(entry.name, false).empty()) continue; // it is something else
      const std::optional<std::size_t> number = naming::layer_number(entry.name);
      (number && std::to_string(*number) == id ? own : others)
          .push_back(fmt::format("X={}:{} {}", io::shown(file->name), io::shown(entry.name),
                                 to_string(shape)));
    }
  if (own.empty()) own.swap(others);
  const std::string what = fmt::format("; X, (T, {}), is the input", width);
  if (own.empty()) return message("{}: give <X=FILE:TENSOR>", what);
  std::string text;
  for (std::size_t i = 0; i < std::min(most, own.size()); ++i)
    text += fmt::format("{}{}", text.empty() ? "" : " or ", own[i]);
  if (own.size() > most) text += " or …";
  return fmt::format("{}: {} could be it", what, text);
}

} // namespace mha
