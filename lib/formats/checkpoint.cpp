// A checkpoint folder: config.json, and model.safetensors, pytorch_model.bin or the shards that an
// index lists.

#include <mha/files/bytes.hpp>
#include <mha/files/text.hpp>
#include <mha/formats/folder.hpp>
#include <mha/formats/foreign.hpp>
#include <mha/formats/json_array.hpp>
#include <mha/formats/json_node.hpp>
#include <mha/formats/safetensors.hpp>
#include <mha/formats/torch.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/parse.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

namespace mha::io {

namespace {

std::string in_folder(const std::string& path, const std::string& name) {
  return (std::filesystem::path(path) / name).string();
}

/// The members of an object by name.
std::map<std::string, JsonNode> members_of(const JsonNode& object) {
  std::map<std::string, JsonNode> members;
  object.each_member("an object", [&](std::string_view name, const JsonNode& value) {
    members.insert_or_assign(std::string(name), value);
  });
  return members;
}

/// A number as a setting's text: a whole number keeps its digits, others become as short as
/// possible.
std::string number_of(const JsonNode& node) {
  const std::string_view text = node.number_text();
  const bool whole = parse_number<std::int64_t>(text) || parse_number<std::uint64_t>(text);
  return whole ? std::string(text) : number_text(node.number("a number"));
}

/// A value on one line. NaN and infinity, which Python writes although JSON does not have them,
/// become texts, so that they are refused only if the model reads that setting.
std::string compact(const JsonNode& node) {
  std::string text;
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : ",") + more; };
  if (node.is_object()) {
    for (const auto& [name, value] : members_of(node))
      add(fmt::format("{}:{}", json_string(name), compact(value)));
    return fmt::format("{{{}}}", text);
  }
  if (node.is_array()) {
    node.each_element("a list", [&](const JsonNode& element) { add(compact(element)); });
    return fmt::format("[{}]", text);
  }
  if (node.is_string()) return json_string(node.text("a text"));
  if (node.is_number()) return std::string(node.number_text());
  const std::string word(node.word());
  return number_word(word) ? fmt::format("\"{}\"", word) : word;
}

bool same_value(const JsonNode& one, const JsonNode& other) {
  const bool numbers = one.is_number() && other.is_number();
  return numbers ? one.number("a number") == other.number("a number")
                 : compact(one) == compact(other);
}

/// Refuses invalid JSON and objects that have a name twice with different values, because programs
/// differ in which value they use.
void check(const JsonNode& node) {
  if (node.is_string()) node.text("a text");
  if (node.is_array()) node.each_element("a list", check);
  if (!node.is_object()) return;
  std::map<std::string, JsonNode> members;
  node.each_member("an object", [&](std::string_view name, const JsonNode& value) {
    check(value);
    const auto [first, is_new] = members.emplace(name, value);
    if (!is_new && !same_value(first->second, value))
      fail("{}: '{}' appears twice in one object, with two values: remove one", node.file(),
           shown(name));
  });
}

/// Parses a JSON file and returns the result of `read`.
template <class Read> auto read_json_file(const Bytes& bytes, const Read& read) {
  refuse_foreign(bytes); // a pointer of Git LFS, UTF-16
  JsonDocument document(shown(bytes.name), bytes.text(), JsonWords::pythons);
  try {
    const JsonNode root = JsonNode::unread_root(document);
    check(root);
    root.finish();
    return read(root);
  } catch (const JsonError& error) {
    if (error.kind == JsonError::Kind::depth)
      fail("{}: nested more than {} deep", shown(bytes.name), document.most_depth);
    if (error.kind == JsonError::Kind::number)
      fail("{}: it has a number beyond float64", shown(bytes.name));
    throw;
  }
}

/// Whether a text without quotes would be read as another value: a number, a truth value, null, a
/// list or an object.
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
/// is not accepted instead of 4.
std::string setting_text(const JsonNode& node) {
  if (node.is_number()) return number_of(node);
  if (!node.is_string())
    return node.is_object() || node.is_array() ? compact(node) : std::string(node.word());
  const std::string text = node.text("a text");
  return looks_like_another(text) ? fmt::format("\"{}\"", text) : text;
}

/// {"rope_scaling": {"factor": 8}} as "rope_scaling.factor" → "8"; lists of plain values as "a,b".
/// A list with one element becomes "[a]", so that it is not accepted as a single value.
void flatten(const JsonNode& node, const std::string& name,
             std::map<std::string, std::string>& into) {
  if (node.is_object()) {
    const std::map<std::string, JsonNode> members = members_of(node);
    if (members.empty() && !name.empty())
      into[name] = "{}"; // so that it is not accepted as a number or word
    for (const auto& [key, member] : members)
      flatten(member, name.empty() ? key : fmt::format("{}.{}", name, key), into);
  } else if (node.is_array()) {
    std::string list;
    std::size_t count = 0;
    node.each_element("a list", [&](const JsonNode& element) {
      list += (list.empty() ? "" : ",") + setting_text(element);
      ++count;
    });
    into[name] = count == 1 ? fmt::format("[{}]", list) : list;
  } else {
    into[name] = setting_text(node); // "null" is kept: families distinguish it from a missing key
  }
}

/// A format of weights with its usual file names.
struct WeightFiles {
  std::vector<std::string_view> ends; ///< extensions
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

/// Files that a training run writes beside the weights.
constexpr std::string_view files_of_training[] = {"training_args.bin", "optimizer.bin",
                                                  "scheduler.bin",     "optimizer.pt",
                                                  "scheduler.pt",      "scaler.pt"};

/// Whether a file name belongs to weights of this format.
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

/// The shard of every tensor that an index lists.
std::map<std::string, std::string> shards_in(const std::string& where) {
  return read_json_file(read_member(where), [&](const JsonNode& index) {
    std::map<std::string, JsonNode> members;
    if (index.is_object()) members = members_of(index);
    const auto map = members.find("weight_map");
    if (map == members.end() || !map->second.is_object())
      fail("{}: no \"weight_map\" in this index", shown(where));
    std::map<std::string, std::string> shards;
    for (const auto& [tensor, node] : members_of(map->second)) {
      // The system would cut the name at a NUL and open another file.
      constexpr std::string_view no_name("/\0", 2);
      const std::string shard = node.is_string() ? node.text("a shard") : "";
      if (shard.empty() || shard.find_first_of(no_name) != std::string::npos)
        fail("{}: '{}' must be in a file of this folder", shown(where), shown(tensor));
      shards[tensor] = shard;
    }
    return shards;
  });
}

/// Reads every shard of an index and checks that it has the tensors that the index lists. Unlisted
/// tensors are read as well, as in Transformers; equal ones in two shards count once.
void read_shards(const std::string& path, const std::string& index_name, const WeightFiles& kind,
                 Contents& contents) {
  const std::string where = in_folder(path, index_name);
  const std::map<std::string, std::string> shard_of = shards_in(where);
  std::map<std::string, std::set<std::string>> wanted; // shard → its tensors
  for (const auto& [tensor, shard] : shard_of) wanted[shard].insert(tensor);
  std::map<std::string, std::pair<std::size_t, std::string_view>> places; // of the tensors read
  std::vector<std::string> unlisted;
  for (auto& [shard, tensors] : wanted) {
    const std::string file = in_folder(path, shard);
    std::error_code ignored; // any other error is reported when the shard is opened
    if (std::filesystem::status(file, ignored).type() == std::filesystem::file_type::not_found)
      fail("{}: shard {} is missing; the index wants {} tensors from it", shown(path), shown(shard),
           tensors.size());
    for (Entry& entry : kind.read(read_member(file)).tensors) {
      if (!shard_of.contains(entry.name)) unlisted.push_back(entry.name);
      tensors.erase(entry.name);
      const auto [place, is_new] =
          places.try_emplace(entry.name, contents.tensors.size(), std::string_view(shard));
      if (is_new)
        contents.tensors.push_back(std::move(entry));
      else if (!same_numbers(contents.tensors[place->second.first], entry))
        fail(
            "{}: {} and {} both hold '{}', with different numbers: one of the two files belongs to "
            "another model",
            shown(path), shown(place->second.second), shown(shard), shown(entry.name));
    }
    if (!tensors.empty())
      fail("{}: '{}' is not in {}, where the index expects it", shown(where),
           shown(*tensors.begin()), shown(shard));
  }
  if (!unlisted.empty())
    contents.notes.push_back(
        fmt::format("in the shards but not in {}: {}", shown(index_name),
                    listed(std::vector<std::string_view>(unlisted.begin(), unlisted.end()))));
}

} // namespace

namespace {

std::map<std::string, std::string> config_in(const Bytes& bytes) {
  return read_json_file(bytes, [&](const JsonNode& config) {
    if (!config.is_object()) fail("{}: an object expected", shown(bytes.name));
    std::map<std::string, std::string> flat;
    flatten(config, "", flat);
    return flat;
  });
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

  // Safetensors are preferred to other weights in the same folder.
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
  // The usual names are preferred to others (adapters, other precisions).
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
    fail("{}: several {} files and no {} that lists which belong together; give one of them: {}",
         shown(path), kind->ends[0], kind->usual_index, listed(weights));
  }
  if (is_one_of("config.json", names))
    contents.config = config_in(read_member(in_folder(path, "config.json")));
  return contents;
}

} // namespace mha::io
