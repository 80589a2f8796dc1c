// Opens sources and finds what their names mean.

#include <mha/load/described.hpp>
#include <mha/load/layer_source.hpp>
#include <mha/load/read_description.hpp>
#include <mha/load/whole_model.hpp>

#include <mha/files/inputs.hpp>
#include <mha/files/text.hpp>
#include <mha/formats/folder.hpp>
#include <mha/formats/formats.hpp>
#include <mha/formats/shard_file.hpp>
#include <mha/layer/names.hpp>
#include <mha/layer/select.hpp>
#include <mha/naming/apply_axes.hpp>
#include <mha/naming/spelling.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/naming/tensor_names.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/one_of.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

namespace mha {

namespace {

/// Whether the last part of a name is a number, and the only one in it: "layers.0".
bool ends_in_layer(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  const std::string_view last = dot == std::string_view::npos ? name : name.substr(dot + 1);
  return is_number(last) &&
         (dot == std::string_view::npos || !naming::layer_number(name.substr(0, dot)));
}

} // namespace

std::string canonical_name(std::string_view name, bool strict) {
  if (const TensorInfo* info = find_tensor_name(name)) return std::string(info->name);
  const std::size_t dot = name.rfind('.');
  if (dot != std::string_view::npos)
    if (const std::size_t before = name.rfind('.', dot - 1);
        before != std::string_view::npos || dot > 0) {
      // "layers.0.norm.weight": two components are one name.
      const std::string_view two = name.substr(before == std::string_view::npos ? 0 : before + 1);
      if (const TensorInfo* info = find_tensor_name(two)) return std::string(info->name);
    }
  const std::string_view last = dot == std::string_view::npos ? name : name.substr(dot + 1);
  // A module's bias is added to its output and is not a position bias: "layers.0.bias" is a
  // layer's, "linear1.bias" and "layers.0.net.2.bias" are modules'.
  if (last == "bias" && dot != std::string_view::npos && !ends_in_layer(name.substr(0, dot)))
    return "";
  if (const TensorInfo* info = find_tensor_name(last)) return std::string(info->name);
  if (!strict && !readings_of(name).empty()) return "";
  // The stream around attention is not a tensor of a lone layer.
  if (const std::optional<Stage> stage = find_stage(name))
    return is_stream(*stage) ? "" : std::string(name_of(*stage));
  const std::string same = same_name(name);
  return label_name(same).empty() ? same : "";
}

std::string label_name(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  const std::string_view last = dot == std::string_view::npos ? name : name.substr(dot + 1);
  if (last == "tokens" || last == "key_tokens") return std::string(last);
  const std::string same = same_name(last);
  return same == "tokens" || same == "key_tokens" ? same : "";
}

std::size_t number_of(const std::string& id) {
  return naming::layer_number(id).value_or(0);
}

bool file_exists(const std::string& path) {
  std::error_code ignored; // a pipe exists as well and is not read twice
  return std::filesystem::exists(path, ignored) && !std::filesystem::is_directory(path, ignored);
}

bool is_lone(const std::vector<std::string>& ids) {
  return ids.empty() || (ids.size() == 1 && ids[0].empty());
}

void OpenedFiles::open_sources() {
  if (request.sources.empty() && request.in_memory.empty() && request.bound.empty())
    fail("no source is given: a layer's files, or <NAME=FILE> for single tensors");
  opened.gguf_order = request.gguf_order;
  for (const std::string& text : request.sources) {
    io::Source source = io::parse_source(text);
    if (source.name.empty())
      contents.push_back(io::open(source.path, {false, request.gguf_order}));
    else if (!projection_as_identity(source).empty())
      identity_bindings.push_back(std::move(source));
    else
      bindings.push_back(std::move(source));
  }
  contents.insert(contents.end(), request.in_memory.begin(), request.in_memory.end());
  for (const auto& [name, tensor] : request.bound) {
    io::Source source;
    source.text = source.name = name, source.path = "argument", source.memory = tensor;
    bindings.push_back(std::move(source));
  }
  if (contents.empty() && bindings.empty())
    fail("{} alone is not a layer: give its files as well", identity_bindings[0].text);
  for (const io::Contents& file : contents) {
    if (io::is_shard(file)) fail("{}: this is {}, <joins parts>", file.name, io::shard_title(file));
    for (const auto& [key, value] : file.config) config.emplace(key, value);
  }
  // A program's config wins over a folder's.
  for (const io::Contents& file : request.in_memory)
    for (const auto& [key, value] : file.config) config[key] = value;
  if (!request.config.empty())
    for (const auto& [key, value] : io::read_config(request.config)) config[key] = value;
  for (const auto& [name, value] : request.settings)
    if (const SettingInfo* info = find_setting(name)) options[std::string(info->name)] = value;
}

void OpenedFiles::present_contents() {
  if (is_description(request.naming) || request.naming == "canonical") return;
  for (io::Contents& file : contents)
    if (std::optional<io::Contents> other = presented(file, config)) {
      if (as_files.empty()) as_files = contents;
      file = *std::move(other);
    }
}

std::vector<std::string> OpenedFiles::numbered_by_bindings() const {
  std::size_t count = 0;
  for (const io::Source& binding : bindings) {
    if (io::mentions_layer(binding)) {
      std::size_t n = 0;
      for (;; ++n) {
        const io::Source numbered = io::with_layer(binding, std::to_string(n));
        if (!file_exists(numbered.path)) break;
        try {
          io::bound_entry(numbered, opened);
        } catch (const Error&) {
          break;
        }
      }
      count = std::max(count, n);
    } else if (label_name(binding.name).empty()) {
      if (const std::string name = canonical_name(binding.name, false); !name.empty())
        count =
            std::max(count, layers_of(name, io::bound_entry(binding, opened).shape, binding.axes));
    }
  }
  std::vector<std::string> ids;
  for (std::size_t n = 0; n < count; ++n) ids.push_back(std::to_string(n));
  return ids;
}

/// Why `{layer}` finds nothing: which file is missing, or what it lacks.
Message OpenedFiles::why_missing(const io::Source& numbered, const std::string& id) {
  const io::Source source = io::with_layer(numbered, id);
  if (!file_exists(source.path)) return fmt::format("there is no {}", io::shown(source.path));
  try {
    io::bound_entry(source);
  } catch (const Error& error) {
    return error.message();
  }
  return fmt::format("there is nothing for layer {}", id);
}

/// The layers where none is chosen: all for a text, else the only one.
std::vector<std::string> OpenedFiles::layers_unasked(const std::vector<std::string>& ids) const {
  if (request.for_texts) return ids;
  const auto numbered = std::find_if(bindings.begin(), bindings.end(), io::mentions_layer);
  if (is_lone(ids) && numbered != bindings.end())
    fail("{}: {{layer}} is the layer's number, and {}; give <layer> N", numbered->text,
         why_missing(*numbered, "0"));
  if (ids.size() > 1)
    fail("{} holds {} layers: {}; <which layer>",
         contents.empty() ? bindings[0].text : contents[0].name, ids.size(), io::ends_of_list(ids));
  return ids.empty() ? std::vector<std::string>{""} : ids;
}

} // namespace mha
