// A checkpoint folder: config.json, and model.safetensors, pytorch_model.bin or the shards that an
// index lists.

#include <mha/files/stream.hpp>
#include <mha/files/text.hpp>
#include <mha/formats/folder.hpp>
#include <mha/formats/foreign.hpp>
#include <mha/formats/safetensors.hpp>
#include <mha/formats/torch.hpp>
#include <mha/system/one_of.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

namespace mha::io {

namespace {

using nlohmann::json;

std::string in_folder(const std::string& path, const std::string& name) {
  return (std::filesystem::path(path) / name).string();
}

/// NaN and infinity, which Python writes and JSON has not, as texts: they are refused where a
/// setting is read, and not where it is none of the model's.
std::string with_words_quoted(std::string_view text) {
  std::string quoted;
  bool inside = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') inside = !inside;
    if (inside && text[i] == '\\' && i + 1 < text.size()) quoted += text[i++];
    std::string_view word;
    for (std::string_view known : {"NaN", "-Infinity", "Infinity"})
      if (!inside && word.empty() && text.substr(i).starts_with(known)) word = known;
    if (word.empty()) {
      quoted += text[i];
    } else {
      quoted += fmt::format("\"{}\"", word);
      i += word.size() - 1;
    }
  }
  return quoted;
}

/// Refuses, while it is read, what nests deep and a name that an object has twice with two values:
/// which of them counts differs between programs. Deep nesting costs the parser nothing, but
/// recursion over the result.
class Watch {
public:
  explicit Watch(const Bytes& bytes) : bytes_(bytes) {}

  bool operator()(int depth, json::parse_event_t event, json& value) {
    using Event = json::parse_event_t;
    if (depth > 64) fail("{}: nested more than 64 deep", shown(bytes_.name));
    const auto at = static_cast<std::size_t>(depth);
    if (event == Event::object_start || event == Event::array_start) {
      open_.resize(at + 2);
      open_[at + 1] = {};
    } else if (event == Event::key) {
      open_[at].name = value.get<std::string>();
    } else if (at < open_.size() && open_[at].name) { // a member's value is whole
      const std::string name = *std::exchange(open_[at].name, std::nullopt);
      const auto [first, is_new] = open_[at].members.emplace(name, value);
      if (!is_new && first->second != value)
        fail("{}: '{}' is twice in one object, with two values: one of them is to go",
             shown(bytes_.name), shown(name));
    }
    return true;
  }

private:
  /// An object or a list that is being read.
  struct Open {
    std::map<std::string, json> members;
    std::optional<std::string> name; ///< of the member whose value is read; none in a list
  };
  const Bytes& bytes_;
  std::vector<Open> open_ = std::vector<Open>(1); ///< by depth
};

json parse(const Bytes& bytes) {
  refuse_foreign(bytes); // a pointer of Git LFS, UTF-16
  // The parser takes a NUL for the end, whatever follows.
  if (const std::size_t nul = bytes.text().find('\0'); nul != std::string_view::npos)
    fail("{}: not valid JSON at byte {}", shown(bytes.name), nul + 1);
  Watch watch(bytes);
  const auto watched = [&watch](int depth, json::parse_event_t event, json& value) {
    return watch(depth, event, value);
  };
  try {
    if (bytes.text().find("NaN") != std::string_view::npos ||
        bytes.text().find("Infinity") != std::string_view::npos)
      return json::parse(with_words_quoted(bytes.text()), watched);
    return json::parse(bytes.text(), watched);
  } catch (const json::parse_error& error) {
    fail("{}: not valid JSON at byte {}", shown(bytes.name), error.byte);
  } catch (const json::out_of_range&) {
    fail("{}: a number beyond float64 in it", shown(bytes.name));
  }
}

/// Whether a text would be taken for another value where it stands without quotes: a number, a
/// truth value, null, a list or an object.
bool looks_like_another(const std::string& text) {
  double number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  const bool is_number =
      error != std::errc::invalid_argument && end == last && std::isfinite(number);
  return is_number || text == "true" || text == "false" || text == "null" ||
         text.starts_with('[') || text.starts_with('{') || text.find(',') != std::string::npos;
}

/// A value as a setting's text. A text that looks like another value keeps its quotes, so that "4"
/// is refused where 4 is meant.
std::string text_of(const json& value) {
  if (value.is_string()) {
    const std::string& text = value.get_ref<const std::string&>();
    return looks_like_another(text) ? fmt::format("\"{}\"", text) : text;
  }
  if (value.is_number_float()) return number_text(value.get<double>());
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

/// {"rope_scaling": {"factor": 8}} as "rope_scaling.factor" → "8"; lists of plain values as "a,b".
/// A list of one is "[a]": it is not the value that a setting means.
void flatten(const json& value, const std::string& name, std::map<std::string, std::string>& into) {
  if (value.is_object() && value.empty() && !name.empty()) {
    into[name] = "{}"; // no number and no word, where one is meant
  } else if (value.is_object()) {
    for (const auto& [key, member] : value.items())
      flatten(member, name.empty() ? key : fmt::format("{}.{}", name, key), into);
  } else if (value.is_array()) {
    std::string list;
    for (const json& element : value) {
      if (!list.empty()) list += ',';
      list += text_of(element);
    }
    into[name] = value.size() == 1 ? fmt::format("[{}]", list) : list;
  } else {
    into[name] = text_of(value); // "null", too: a family may say more of a key that is not there
  }
}

/// One kind of weights, by the names that a folder has them under.
struct WeightFiles {
  std::vector<std::string_view> ends; ///< of the files' names
  std::string_view usual, usual_index;
  Contents (*read)(const Bytes& bytes);
};

const std::array<WeightFiles, 2>& kinds_of_weights() {
  static const std::array<WeightFiles, 2> kinds{{
      {{".safetensors"}, "model.safetensors", "model.safetensors.index.json", read_safetensors},
      {{".bin", ".pt", ".pth", ".ckpt"},
       "pytorch_model.bin",
       "pytorch_model.bin.index.json",
       read_torch},
  }};
  return kinds;
}

/// What a training run leaves beside the weights.
constexpr std::string_view files_of_training[] = {"training_args.bin", "optimizer.bin",
                                                  "scheduler.bin",     "optimizer.pt",
                                                  "scheduler.pt",      "scaler.pt"};

/// Whether a file of a folder is of this kind of weights.
bool is_of_kind(const WeightFiles& kind, std::string_view name) {
  return !name.starts_with('.') && !name.starts_with("rng_state") &&
         !is_one_of(name, files_of_training) &&
         std::ranges::any_of(kind.ends, [&](std::string_view end) { return name.ends_with(end); });
}
bool is_index_of_kind(const WeightFiles& kind, std::string_view name) {
  return !name.starts_with('.') && std::ranges::any_of(kind.ends, [&](std::string_view end) {
    return name.ends_with(fmt::format("{}.index.json", end));
  });
}

bool same_numbers(const Entry& one, const Entry& other) {
  if (one.dtype != other.dtype || one.shape != other.shape) return false;
  const Tensor a = one.read(), b = other.read();
  return std::equal(a.raw(), a.raw() + a.bytes(), b.raw());
}

/// The shards that an index lists, each once; every tensor it promises is checked to be there. What
/// a shard has beyond the index is read as well, as in Transformers, and counts once where two
/// shards have the same.
void read_shards(const std::string& path, const std::string& index_name, const WeightFiles& kind,
                 Contents& contents) {
  const std::string where = in_folder(path, index_name);
  const json index = parse(read_member(where));
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || map == index.end() || !map->is_object())
    fail("{}: no \"weight_map\" in this index", shown(where));

  std::map<std::string, std::set<std::string>> wanted; // shard → its tensors
  for (const auto& [tensor, shard] : map->items()) {
    // A name ends for the system where a NUL stands: the file would be another one.
    constexpr std::string_view no_name("/\0", 2);
    if (!shard.is_string() || shard.get_ref<const std::string&>().empty() ||
        shard.get_ref<const std::string&>().find_first_of(no_name) != std::string::npos)
      fail("{}: '{}' must lie in a file of this folder", shown(where), shown(tensor));
    wanted[shard.get<std::string>()].insert(tensor);
  }
  std::map<std::string, std::pair<std::size_t, std::string_view>> places; // of the tensors read
  std::vector<std::string> unlisted;
  for (auto& [shard, tensors] : wanted) {
    const std::string file = in_folder(path, shard);
    std::error_code ignored; // whatever else is wrong with it, opening it tells
    if (std::filesystem::status(file, ignored).type() == std::filesystem::file_type::not_found)
      fail("{}: shard {} is missing; the index wants {} tensors from it", shown(path), shown(shard),
           tensors.size());
    for (Entry& entry : kind.read(read_member(file)).tensors) {
      if (!map->contains(entry.name)) unlisted.push_back(entry.name);
      tensors.erase(entry.name);
      const auto [place, is_new] =
          places.try_emplace(entry.name, contents.tensors.size(), std::string_view(shard));
      if (is_new)
        contents.tensors.push_back(std::move(entry));
      else if (!same_numbers(contents.tensors[place->second.first], entry))
        fail("{}: {} and {} both hold '{}', and not the same numbers: one of the two files is of "
             "another model",
             shown(path), shown(place->second.second), shown(shard), shown(entry.name));
    }
    if (!tensors.empty())
      fail("{}: '{}' is not in {}, where the index says", shown(where), shown(*tensors.begin()),
           shown(shard));
  }
  if (!unlisted.empty())
    contents.notes.push_back(
        fmt::format("in the shards, and not in {}: {}", shown(index_name),
                    listed(std::vector<std::string_view>(unlisted.begin(), unlisted.end()))));
}

} // namespace

namespace {

std::map<std::string, std::string> config_in(const Bytes& bytes) {
  const json config = parse(bytes);
  const std::string& path = bytes.name;
  if (!config.is_object()) fail("{}: an object expected", shown(path));
  std::map<std::string, std::string> flat;
  flatten(config, "", flat);
  return flat;
}

} // namespace

std::map<std::string, std::string> read_config(const std::string& path) {
  return config_in(read_bytes(path, text_limit));
}

bool holds_weights(const std::vector<std::string>& names) {
  return std::ranges::any_of(kinds_of_weights(), [&](const WeightFiles& kind) {
    return std::ranges::any_of(names, [&](const std::string& name) {
      return is_of_kind(kind, name) || is_index_of_kind(kind, name);
    });
  });
}

Contents read_checkpoint(const std::string& path, const std::vector<std::string>& names) {
  Contents contents;
  contents.name = path;
  contents.format = "checkpoint";

  // Safetensors win over whatever else lies beside them.
  const WeightFiles* kind = nullptr;
  std::vector<std::string_view> weights, indices;
  for (const WeightFiles& each : kinds_of_weights()) {
    if (!weights.empty() || !indices.empty()) break;
    kind = &each;
    for (const std::string& name : names) {
      if (is_of_kind(each, name)) weights.push_back(name);
      if (is_index_of_kind(each, name)) indices.push_back(name);
    }
  }
  // The usual names win over other ones (adapters, other precisions).
  const auto choose = [](const std::vector<std::string_view>& from, std::string_view usual) {
    if (is_one_of(usual, from)) return std::string(usual);
    return from.size() == 1 ? std::string(from[0]) : std::string();
  };
  const std::string index = choose(indices, kind->usual_index);
  const std::string single = choose(weights, kind->usual);
  if (single == kind->usual || (!single.empty() && index.empty())) {
    Contents file = kind->read(read_member(in_folder(path, single)));
    file.name = contents.name, file.format = contents.format;
    contents = std::move(file);
  } else if (!index.empty()) {
    read_shards(path, index, *kind, contents);
  } else {
    fail("{}: several {} and no {} that tells which belong together; give one of them itself: {}",
         shown(path), kind->ends[0], kind->usual_index, listed(weights));
  }
  if (is_one_of("config.json", names))
    contents.config = config_in(read_member(in_folder(path, "config.json")));
  return contents;
}

} // namespace mha::io
