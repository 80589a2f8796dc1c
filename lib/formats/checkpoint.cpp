// A checkpoint folder: config.json, and model.safetensors, pytorch_model.bin or the shards that an
// index lists.

#include <mha/files/stream.hpp>
#include <mha/files/text.hpp>
#include <mha/formats/folder.hpp>
#include <mha/formats/foreign.hpp>
#include <mha/formats/safetensors.hpp>
#include <mha/formats/torch.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

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

json parse(const Bytes& bytes, bool with_words = false) {
  refuse_foreign(bytes); // a pointer of Git LFS, UTF-16
  // Deep nesting costs the parser nothing, but whoever walks the result: bounded while it is read.
  const auto shallow = [&](int depth, json::parse_event_t, json&) {
    if (depth > 64) fail("{}: nested more than 64 deep", shown(bytes.name));
    return true;
  };
  try {
    if (with_words && (bytes.text().find("NaN") != std::string_view::npos ||
                       bytes.text().find("Infinity") != std::string_view::npos))
      return json::parse(with_words_quoted(bytes.text()), shallow);
    return json::parse(bytes.text(), shallow);
  } catch (const json::parse_error& error) {
    fail("{}: not valid JSON at byte {}", shown(bytes.name), error.byte);
  } catch (const json::out_of_range&) {
    fail("{}: a number beyond float64 in it", shown(bytes.name));
  }
}

std::string text_of(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return number_text(value.get<double>());
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

/// {"rope_scaling": {"factor": 8}} as "rope_scaling.factor" → "8"; lists of plain values as "a,b".
void flatten(const json& value, const std::string& name, std::map<std::string, std::string>& into) {
  if (value.is_object()) {
    for (const auto& [key, member] : value.items())
      flatten(member, name.empty() ? key : fmt::format("{}.{}", name, key), into);
  } else if (value.is_array()) {
    std::string list;
    for (const json& element : value) {
      if (!list.empty()) list += ',';
      list += text_of(element);
    }
    into[name] = list;
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
         std::ranges::find(files_of_training, name) == std::end(files_of_training) &&
         std::ranges::any_of(kind.ends, [&](std::string_view end) { return name.ends_with(end); });
}
bool is_index_of_kind(const WeightFiles& kind, std::string_view name) {
  return !name.starts_with('.') && std::ranges::any_of(kind.ends, [&](std::string_view end) {
    return name.ends_with(fmt::format("{}.index.json", end));
  });
}

/// The shards that an index lists, each once; every tensor it promises is checked to be there.
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
  for (auto& [shard, tensors] : wanted) {
    const std::string file = in_folder(path, shard);
    std::error_code ignored; // whatever else is wrong with it, opening it tells
    if (std::filesystem::status(file, ignored).type() == std::filesystem::file_type::not_found)
      fail("{}: shard {} is missing; the index wants {} tensors from it", shown(path), shown(shard),
           tensors.size());
    for (Entry& entry : kind.read(read_member(file)).tensors)
      if (tensors.erase(entry.name) > 0) contents.tensors.push_back(std::move(entry));
    if (!tensors.empty())
      fail("{}: '{}' is not in {}, where the index says", shown(where), shown(*tensors.begin()),
           shown(shard));
  }
}

} // namespace

namespace {

std::map<std::string, std::string> config_in(const Bytes& bytes) {
  const json config = parse(bytes, true);
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
    if (std::ranges::find(from, usual) != from.end()) return std::string(usual);
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
  if (std::ranges::find(names, "config.json") != names.end())
    contents.config = config_in(read_member(in_folder(path, "config.json")));
  return contents;
}

} // namespace mha::io
