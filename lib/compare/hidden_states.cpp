#include <mha/compare/hidden_states.hpp>

#include <mha/files/text.hpp>
#include <mha/formats/formats.hpp>
#include <mha/layer/graph.hpp>
#include <mha/load/families/family.hpp>
#include <mha/observe/trace.hpp>
#include <mha/system/parse.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace mha {

namespace {

/// A name that ends with hidden_states or attentions, and perhaps a number: `rest` is "" or ".3".
struct StatesName {
  bool attentions = false;
  std::string_view rest;
};

std::optional<StatesName> states_name(std::string_view name) {
  for (const auto& [word, attentions] :
       {std::pair<std::string_view, bool>("hidden_states", false), {"attentions", true}}) {
    const std::size_t at = name.rfind(word);
    if (at == std::string_view::npos) continue;
    const std::string_view before = name.substr(0, at);
    const bool whole = before.empty() || before.ends_with("all_") || before.ends_with("decoder_") ||
                       before.ends_with('.');
    if (whole && !naming::layer_number(before))
      return StatesName{attentions, name.substr(at + word.size())};
  }
  return std::nullopt;
}

/// 3 of ".3", "_3", "/3", "[3]".
std::optional<std::size_t> state_number(std::string_view rest) {
  if (rest.empty()) return std::nullopt;
  if (rest.ends_with(']')) rest.remove_suffix(1);
  rest.remove_prefix(1);
  return parse_number<std::size_t>(rest);
}

/// State `i` of a stack.
io::Entry state_of(const io::Entry& stack, std::size_t i) {
  io::Entry state = stack;
  state.name = fmt::format("{}[{}]", stack.name, i);
  state.shape.erase(state.shape.begin());
  state.read = [read = stack.read, i] { return read().at(i); };
  return state;
}

} // namespace

bool holds_states(const std::string& name) {
  const std::optional<StatesName> word = states_name(name);
  return word && (word->rest.empty() || state_number(word->rest));
}

namespace {

/// The states and maps of a file by their numbers.
struct States {
  std::map<std::size_t, io::Entry> states, maps;
  bool stacked = false; ///< the states are one tensor
};

States states_in(const io::Contents& contents, std::size_t layers) {
  States found;
  for (const io::Entry& entry : contents.tensors) {
    if (!holds_states(entry.name)) continue;
    const StatesName word = *states_name(entry.name);
    auto& list = word.attentions ? found.maps : found.states;
    const std::optional<std::size_t> number = state_number(word.rest);
    const std::size_t n = entry.shape.empty() ? 0 : entry.shape[0];
    if (word.attentions && (number ? *number >= layers : entry.shape.size() < 4 || n != layers))
      fail("{}: {} is {}: {} maps are expected, one of each layer", io::shown(contents.name),
           io::shown(entry.name), to_string(entry.shape), layers);
    if (!word.attentions &&
        (number ? *number > layers : entry.shape.size() < 3 || (n != layers && n != layers + 1)))
      fail("{}: {} is {}: {} states are expected, the input of each of the {} layers and the "
           "output of the last",
           io::shown(contents.name), io::shown(entry.name), to_string(entry.shape), layers + 1,
           layers);
    if (number) {
      list.emplace(*number, entry);
      continue;
    }
    found.stacked = found.stacked || !word.attentions;
    for (std::size_t i = 0; i < n; ++i) list.emplace(i, state_of(entry, i));
  }
  return found;
}

/// The states as stages of a layer, if the first one in the file is state `first` of the model.
/// `normed`: the last state has passed the model's last norm.
std::vector<HiddenState> read_from(const States& saved, std::size_t first, bool normed,
                                   const WholeModelOfLayer& model, const std::string& id) {
  std::vector<HiddenState> found;
  const auto take = [&](Stage stage, std::size_t number) {
    if (number < first) return;
    if (const auto state = saved.states.find(number - first); state != saved.states.end())
      found.push_back({stage, state->second});
  };
  if (id.empty()) {
    if (normed) take(Stage::final, model.layers);
    return found;
  }
  const std::size_t number = naming::layer_number(id).value_or(0);
  take(Stage::resid_pre, number);
  if (number + 1 < model.layers || !normed) take(Stage::resid_post, number + 1);
  return found;
}

/// Sums of squares of two tensors' difference, and of the first tensor.
struct Apart {
  double apart = 0, size = 0;
  /// Both tensors have the same count.
  void add(const Tensor& ours, const Tensor& theirs) {
    for (std::size_t i = 0; i < ours.count(); ++i) {
      const double here = value_at(ours, i), difference = here - value_at(theirs, i);
      apart += difference * difference, size += here * here;
    }
  }
  /// ‖ours − theirs‖ / ‖ours‖; nothing if the first is zero.
  std::optional<double> relative() const {
    if (!(size > 0) || !std::isfinite(apart)) return std::nullopt;
    return std::sqrt(apart / size);
  }
};

/// How far all states are from the layer's own.
std::optional<double> distance_from_layer(const Layer& layer,
                                          const std::vector<HiddenState>& states) {
  Apart sums;
  const StageSet available = available_stages(layer);
  for (const HiddenState& state : states) {
    if (!contains(available, state.stage)) continue;
    const Tensor ours = trace(layer, {state.stage}).value(state.stage), theirs = state.entry.read();
    if (ours.count() != theirs.count()) return std::nullopt;
    sums.add(ours, theirs);
  }
  return sums.relative();
}

/// Whether the last state of an unnamed list is the last layer's output before the last norm, as
/// hooks save it. Asked for the last layer and for the model's ends.
bool ends_before_norm(const States& saved, const Layer& layer, const WholeModelOfLayer& model,
                      const std::string& id) {
  constexpr double alike = 0.05; // a norm changes more, rounding less
  const io::Entry& last = saved.states.rbegin()->second;
  const bool bare = !last.own_name.empty();
  const bool at_end = id.empty() || naming::layer_number(id) == model.layers - 1;
  if (!model.last_norm || !bare || !at_end) return false;
  Apart sums;
  const Tensor ours = layer.ends ? layer.ends->stream
                                 : trace(layer, {Stage::resid_post}).value(Stage::resid_post),
               theirs = last.read();
  if (ours.count() != theirs.count()) return false;
  sums.add(ours, theirs);
  const std::optional<double> apart = sums.relative();
  return apart && *apart < alike;
}

/// Decides which state is missing where there are only L.
std::vector<HiddenState> read_by_numbers(const States& saved, const Layer& layer,
                                         const WholeModelOfLayer& model, const std::string& id) {
  const bool open =
      saved.states.size() == model.layers && saved.states.rbegin()->first + 1 == model.layers;
  std::vector<HiddenState> whole = read_from(saved, 0, model.last_norm, model, id);
  if (!open) return whole;
  const bool normed = model.last_norm && !ends_before_norm(saved, layer, model, id);
  std::vector<HiddenState> later = read_from(saved, 1, normed, model, id), evidence = whole;
  if (id.empty()) evidence = {{Stage::embed, saved.states.at(0)}};
  const std::optional<double> with = distance_from_layer(layer, evidence),
                              without = distance_from_layer(layer, later);
  const bool first_missing = with && without ? *without < *with : saved.stacked;
  return first_missing ? later : whole;
}

} // namespace

std::vector<HiddenState> hidden_states_of(const io::Contents& contents, const Layer& layer,
                                          const WholeModelOfLayer& model, const std::string& id) {
  const States saved = states_in(contents, model.layers);
  std::vector<HiddenState> found;
  if (!saved.states.empty()) found = read_by_numbers(saved, layer, model, id);
  if (id.empty()) return found;
  if (const auto map = saved.maps.find(naming::layer_number(id).value_or(0));
      map != saved.maps.end())
    found.push_back({Stage::weights, map->second});
  return found;
}

namespace {

/// {3, 1} of "3.1"; empty if a part of the name is not a number.
std::vector<std::size_t> numbers_in_name(std::string_view name) {
  std::vector<std::size_t> numbers;
  for (std::string_view word : split_at(name, '.')) {
    const auto number = parse_number<std::size_t>(word);
    if (!number) return {};
    numbers.push_back(*number);
  }
  return numbers;
}

/// How deep the lists of a file are nested; 0 if its arrays are not all alike and named by numbers.
std::size_t depth_of(const io::Contents& contents) {
  if (contents.tensors.size() < 2) return 0;
  const io::Entry& first = contents.tensors[0];
  const std::size_t depth = numbers_in_name(first.name).size();
  const bool alike = std::ranges::all_of(contents.tensors, [&](const io::Entry& entry) {
    return numbers_in_name(entry.name).size() == depth && is_floating(entry.dtype) &&
           entry.shape.size() == first.shape.size();
  });
  return alike ? depth : 0;
}

/// Whether every list within the list is a pair.
bool are_pairs(const io::Contents& contents) {
  return std::ranges::all_of(
      contents.tensors, [](const io::Entry& entry) { return numbers_in_name(entry.name)[1] < 2; });
}

bool is_attentions(std::string_view name) {
  return name.find("attentions") != std::string_view::npos;
}

} // namespace

void name_bare_list(io::Contents& contents) {
  const std::size_t depth = depth_of(contents);
  if (depth == 0 || depth > 2) return;
  const std::size_t axes = contents.tensors[0].shape.size();
  const bool pairs = depth == 2 && axes == 4 && are_pairs(contents);
  if (depth == 2 && !pairs && axes > 2)
    fail("{}: a list of lists of arrays, as generate() returns them, a list for each new token: "
         "save those of one pass, model(ids, output_hidden_states=True)",
         io::shown(contents.name));
  if (axes < 2 || axes > 4 || (depth == 2 && !pairs)) return;
  const Shape& shape = contents.tensors[0].shape;
  const bool same = std::ranges::all_of(
      contents.tensors, [&](const io::Entry& entry) { return entry.shape == shape; });
  if (!pairs && !same) return; // a module's return value: its output, weights …
  const char* word = pairs ? "past_key_values" : axes == 4 ? "attentions" : "hidden_states";
  for (io::Entry& entry : contents.tensors) {
    entry.own_name = entry.name;
    entry.name = fmt::format("{}.{}", word, entry.name);
  }
}

io::Contents states_named(const io::Source& source) {
  io::Contents contents = io::open(source.path);
  const auto only = [&](io::Entry entry) {
    entry.name = source.name;
    contents.tensors = {std::move(entry)};
    return contents;
  };
  if (!source.tensor.empty()) return only(io::bound_entry(source));
  const bool bare = depth_of(contents) == 1;
  std::vector<io::Entry> kept;
  for (io::Entry entry : contents.tensors) {
    if (bare)
      entry.name = fmt::format("{}.{}", source.name, entry.name);
    else if (!holds_states(entry.name) || is_attentions(entry.name) != is_attentions(source.name))
      continue;
    kept.push_back(std::move(entry));
  }
  if (kept.empty()) return only(io::bound_entry(source)); // its one array, or the error that asks
  contents.tensors = std::move(kept);
  return contents;
}

} // namespace mha
