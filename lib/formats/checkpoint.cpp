// A checkpoint folder: config.json, and model.safetensors or the shards that an index lists.

#include <mha/files/stream.hpp>
#include <mha/files/text.hpp>
#include <mha/formats/folder.hpp>
#include <mha/formats/safetensors.hpp>

#include <algorithm>
#include <filesystem>
#include <set>

#include <nlohmann/json.hpp>

namespace mha::io {

namespace {

using nlohmann::json;

std::string in_folder(const std::string& path, const std::string& name) {
  return (std::filesystem::path(path) / name).string();
}

json parse(const Bytes& bytes) {
  // Deep nesting costs the parser nothing, but whoever walks the result: bounded while it is read.
  const auto shallow = [&](int depth, json::parse_event_t, json&) {
    if (depth > 64) fail("{}: nested more than 64 deep", shown(bytes.name));
    return true;
  };
  try {
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
  } else if (!value.is_null()) {
    into[name] = text_of(value);
  }
}

/// The shards that an index lists, each once; every tensor it promises is checked to be there.
void read_shards(const std::string& path, const std::string& index_name, Contents& contents) {
  const std::string where = in_folder(path, index_name);
  const json index = parse(read_member(where));
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || map == index.end() || !map->is_object())
    fail("{}: no \"weight_map\" in this index", shown(where));

  std::map<std::string, std::set<std::string>> wanted; // shard → its tensors
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string() || shard.get_ref<const std::string&>().find('/') != std::string::npos)
      fail("{}: '{}' must lie in a file of this folder", shown(where), shown(tensor));
    wanted[shard.get<std::string>()].insert(tensor);
  }
  for (auto& [shard, tensors] : wanted) {
    const std::string file = in_folder(path, shard);
    std::error_code ignored; // whatever else is wrong with it, opening it tells
    if (std::filesystem::status(file, ignored).type() == std::filesystem::file_type::not_found)
      fail("{}: shard {} is missing; the index wants {} tensors from it", shown(path), shown(shard),
           tensors.size());
    for (Entry& entry : read_safetensors(read_member(file)).tensors)
      if (tensors.erase(entry.name) > 0) contents.tensors.push_back(std::move(entry));
    if (!tensors.empty())
      fail("{}: '{}' is not in {}, where the index says", shown(where), shown(*tensors.begin()),
           shown(shard));
  }
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

Contents read_checkpoint(const std::string& path, const std::vector<std::string>& names) {
  Contents contents;
  contents.name = path;
  contents.format = "checkpoint";

  std::vector<std::string_view> weights, indices;
  for (const std::string& name : names) {
    if (name.starts_with('.')) continue;
    if (name.ends_with(".safetensors")) weights.push_back(name);
    if (name.ends_with(".safetensors.index.json")) indices.push_back(name);
  }
  // The usual names win over whatever else lies beside them (adapters, other precisions).
  const auto choose = [](const std::vector<std::string_view>& from, std::string_view usual) {
    if (std::ranges::find(from, usual) != from.end()) return std::string(usual);
    return from.size() == 1 ? std::string(from[0]) : std::string();
  };
  const std::string index = choose(indices, "model.safetensors.index.json");
  const std::string single = choose(weights, "model.safetensors");
  if (single == "model.safetensors" || (!single.empty() && index.empty())) {
    Contents file = read_safetensors(read_member(in_folder(path, single)));
    contents.tensors = std::move(file.tensors);
    contents.scalars = std::move(file.scalars);
    contents.labels = std::move(file.labels);
    contents.item_labels = std::move(file.item_labels);
  } else if (!index.empty()) {
    read_shards(path, index, contents);
  } else {
    fail("{}: several .safetensors and no model.safetensors.index.json that tells which belong "
         "together; give one of them itself: {}",
         shown(path), listed(weights));
  }
  if (std::ranges::find(names, "config.json") != names.end())
    contents.config = config_in(read_member(in_folder(path, "config.json")));
  return contents;
}

} // namespace mha::io
