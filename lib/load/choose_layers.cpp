// Which layers the files hold, and which of them are chosen.

#include <mha/load/described.hpp>
#include <mha/load/model_state.hpp>
#include <mha/load/read_description.hpp>

#include <mha/files/text.hpp>
#include <mha/formats/folder.hpp>
#include <mha/formats/formats.hpp>
#include <mha/formats/shard_file.hpp>
#include <mha/layer/apply_axes.hpp>
#include <mha/layer/names.hpp>
#include <mha/layer/select.hpp>
#include <mha/layer/spelling.hpp>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>

namespace mha {

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
  // A module's bias is added to what it computes: no position bias.
  if (last == "bias" && dot != std::string_view::npos &&
      !std::isdigit(static_cast<unsigned char>(name[dot == 0 ? 0 : dot - 1])))
    return "";
  if (const TensorInfo* info = find_tensor_name(last)) return std::string(info->name);
  if (!strict && !readings_of(name).empty()) return "";
  // The stream around attention is none of a lone layer's tensors.
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
  std::error_code ignored; // a pipe is there, too, and is not read twice
  return std::filesystem::exists(path, ignored) && !std::filesystem::is_directory(path, ignored);
}

void Sources::State::open_sources() {
  if (request.sources.empty() && request.in_memory.empty() && request.bound.empty())
    fail("no source is given: a layer's files, or NAME=FILE for single tensors");
  opened.gguf_order = request.gguf_order;
  for (const std::string& text : request.sources) {
    io::Source source = io::parse_source(text);
    if (source.name.empty())
      contents.push_back(io::open(source.path, {false, request.gguf_order}));
    else
      bindings.push_back(std::move(source));
  }
  contents.insert(contents.end(), request.in_memory.begin(), request.in_memory.end());
  for (const auto& [name, tensor] : request.bound) {
    io::Source source;
    source.text = source.name = name, source.path = "argument", source.memory = tensor;
    bindings.push_back(std::move(source));
  }
  for (const io::Contents& file : contents) {
    if (io::is_shard(file))
      fail("{}: this is {}, which only `convert` reads: mha-inspect convert PART... -o FILE",
           file.name, io::shard_title(file));
    for (const auto& [key, value] : file.config) config.emplace(key, value);
  }
  if (!request.config.empty())
    for (const auto& [key, value] : io::read_config(request.config)) config[key] = value;
  for (const auto& [name, value] : request.settings)
    if (const SettingInfo* info = find_setting(name)) options[std::string(info->name)] = value;
}

/// Files under the names that their layers are looked for by: those of a description, or of layers
/// that share their weights.
void Sources::State::present_contents() {
  const auto keep = [&] {
    if (as_files.empty()) as_files = contents;
  };
  if (!is_description(request.naming)) {
    for (std::size_t i = 0; i < contents.size(); ++i)
      for (const naming::Family* family : naming::families()) {
        if (!family->present || request.naming == "canonical") continue;
        io::Contents presented = contents[i];
        if (!family->present(presented, config)) continue;
        keep();
        contents[i] = std::move(presented);
      }
    return;
  }
  const std::shared_ptr<const naming::Description> description = read_description(request.naming);
  const auto reads = std::make_shared<naming::Reads>();
  for (std::size_t i = 0; i < contents.size(); ++i) {
    if (!is_described(*description, contents[i])) continue;
    keep();
    contents[i] = described_contents(*description, contents[i], config, options, reads);
    for (naming::Found& layer : described_layers(description, contents[i], config, reads))
      found.push_back(std::move(layer));
  }
  if (found.empty() && !contents.empty())
    fail("--naming {}: {} has none of the tensors that it names", request.naming, contents[0].name);
}

void Sources::State::find_layers() {
  present_contents();
  if (request.naming != "canonical" && !is_description(request.naming))
    for (const io::Contents& file : contents)
      for (naming::Found& layer : naming::find_layers(file, config, request.naming))
        found.push_back(std::move(layer));
  if (!request.naming.empty() && request.naming != "canonical" && !is_description(request.naming)) {
    const naming::Family& family = naming::family_named(request.naming);
    if (found.empty() && !contents.empty())
      fail("--naming {}: {} has no layer with the tensors of {}: {}", family.name, contents[0].name,
           family.title, family.needs);
  }
  if (!request.prefix.empty()) {
    const std::string prefix =
        request.prefix.ends_with('.') ? request.prefix : request.prefix + ".";
    std::erase_if(found, [&](const naming::Found& layer) {
      return layer.group.prefix != prefix && !layer.group.prefix.starts_with(prefix);
    });
    if (found.empty()) fail("--prefix {}: no attention layer's tensors begin so", request.prefix);
  }
  for (const naming::Found& layer : found)
    listing.push_back({layer.id, prefix_in_file(layer.group), std::string(layer.family->title)});
  if (!found.empty()) return;

  // Canonical names: one layer, or layers.0.W_q, layers.1.W_q …
  std::set<std::pair<std::size_t, std::string>> numbered;
  bool lone = contents.empty();
  for (const io::Contents& file : contents)
    for (const io::Entry& entry : file.tensors) {
      if (canonical_name(entry.name, false).empty()) continue;
      if (const auto number = naming::layer_number(entry.name))
        numbered.insert({*number, std::to_string(*number)});
      else
        lone = true;
    }
  for (const auto& [number, id] : numbered)
    listing.push_back({id, fmt::format("layers.{}.", id), "canonical"});
  if (listing.empty() && lone) listing.push_back({"", "", "canonical"});
}

/// The layers that `{layer}` or an L axis of the bindings finds.
std::vector<std::string> Sources::State::numbered_by_bindings() const {
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

/// Why `{layer}` finds nothing: which file is not there, or what it lacks.
std::string Sources::State::why_missing(const io::Source& numbered, const std::string& id) {
  const io::Source source = io::with_layer(numbered, id);
  if (!file_exists(source.path)) return fmt::format("there is no {}", io::shown(source.path));
  try {
    io::bound_entry(source);
  } catch (const Error& error) {
    return error.what();
  }
  return fmt::format("there is nothing for layer {}", id);
}

void Sources::State::choose_layers() {
  std::vector<std::string> ids;
  for (const LayerListing& layer : listing) ids.push_back(layer.id);
  const bool from_files = !(ids.empty() || (ids.size() == 1 && ids[0].empty()));
  if (!from_files)
    if (std::vector<std::string> bound = numbered_by_bindings(); !bound.empty())
      ids = std::move(bound);

  if (request.has_text()) ids = request.inputs->layers();
  const std::string& wanted = request.layer;
  const auto list = [&] {
    std::string text;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids.size() > 12 && i == 6) text += ", …", i = ids.size() - 2;
      text += fmt::format("{}{}", text.empty() ? "" : ", ", ids[i]);
    }
    return text;
  };
  if (wanted.empty() && request.has_text()) {
    chosen = ids;
    return;
  }
  if (wanted.empty()) {
    const auto numbered = std::find_if(bindings.begin(), bindings.end(), io::mentions_layer);
    if (ids.size() <= 1 && (ids.empty() || ids[0].empty()) && numbered != bindings.end())
      fail("{}: {{layer}} stands for the layer's number, and {}; give --layer N", numbered->text,
           why_missing(*numbered, "0"));
    if (ids.size() > 1)
      fail("{} holds {} layers: {}; choose with --layer N, --layer 0-2 or --layer all",
           contents.empty() ? bindings[0].text : contents[0].name, ids.size(), list());
    chosen = ids.empty() ? std::vector<std::string>{""} : ids;
    return;
  }
  if (ids.empty() || (ids.size() == 1 && ids[0].empty())) {
    // One layer without a number: a number is for {layer} in bindings.
    const bool fills = std::any_of(bindings.begin(), bindings.end(), io::mentions_layer);
    if (wanted.find_first_of(",-:") != std::string::npos || wanted == "all" ||
        (!fills && wanted != "0")) {
      const auto numbered = std::find_if(bindings.begin(), bindings.end(), io::mentions_layer);
      if (numbered != bindings.end())
        fail("--layer {}: {}: {{layer}} stands for the layer's number, and {}", wanted,
             numbered->text, why_missing(*numbered, "0"));
      fail("--layer {}: there is one layer, which has no number; leave --layer out{}", wanted,
           stack_of_maps());
    }
    chosen = {wanted};
    return;
  }
  if (wanted == "all") {
    chosen = ids;
    return;
  }
  if (std::find(ids.begin(), ids.end(), wanted) != ids.end()) {
    chosen = {wanted};
    return;
  }
  // Lists and ranges: of numbers, where the ids are numbers.
  const bool numbers = std::all_of(ids.begin(), ids.end(), [](const std::string& id) {
    return !id.empty() && id.find_first_not_of("0123456789") == std::string::npos;
  });
  const auto refuse = [&](std::string_view what) {
    std::vector<std::string_view> names(ids.begin(), ids.end());
    if (what.find_first_of(",-:") != std::string_view::npos)
      fail("--layer {}: not all of these are there; the layers are {}", wanted, list());
    fail("--layer {}: there is no layer {}{}; the layers are {}", wanted, what,
         numbers ? "" : did_you_mean(what, names), list());
  };
  if (!numbers) refuse(wanted);
  std::size_t highest = 0;
  for (const std::string& id : ids) highest = std::max(highest, number_of(id));
  constexpr std::size_t most = 1'000'000; // so many are not there, and would only be counted
  if (highest > most) refuse(wanted);
  Pick pick;
  try {
    pick = IndexList(wanted, "--layer").resolve(highest + 1, "layers");
  } catch (const Error&) {
    refuse(wanted);
  }
  const std::set<std::string> there(ids.begin(), ids.end());
  for (std::size_t number : pick.indices) {
    const std::string id = std::to_string(number);
    if (!there.contains(id)) refuse(id);
    chosen.push_back(id);
  }
}

} // namespace mha
