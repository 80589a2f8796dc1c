// Finds the layers in the files, and those that are chosen.

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
#include <mha/naming/tensor_names.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/one_of.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

namespace mha {

/// A graph's layers follow from what it computes, their names from its weights.
void FoundLayers::find_in_graph(const io::Contents& graph, const UserNaming& by) {
  const naming::FamilyRow& of_graphs = naming::family_named("onnx");
  std::vector<naming::Found> layers = naming::find_layers(graph, config, &of_graphs);
  if (by.family != &of_graphs && !layers.empty()) {
    GraphNames& names = names_of_graphs.emplace_back();
    names.graph = &graph, names.config = config, names.options = options;
    const bool is_file = &graph < contents.data() + (contents.size() - request.in_memory.size());
    if (is_file && request.config.empty()) names.add_config_beside();
    names.is_asked_for = by.description || by.family || request.for_texts;
    names.find(by, layers);
    if (names.layers.empty()) names_of_graphs.pop_back();
  }
  std::ranges::move(layers, std::back_inserter(found));
}

const GraphNames* FoundLayers::names_of(const naming::Found& layer) const {
  for (const GraphNames& names : names_of_graphs)
    if (names.graph == layer.group.contents) return &names;
  return nullptr;
}

void FoundLayers::find_layers() {
  present_contents();
  if (request.naming != "canonical") {
    const UserNaming by = is_description(request.naming)
                              ? read_naming(request.naming)
                              : UserNaming{nullptr, chosen_family(request.naming)};
    const auto reads = std::make_shared<naming::Reads>();
    for (const io::Contents& file : contents)
      if (file.graph)
        find_in_graph(file, by);
      else
        std::ranges::move(layers_by(by, file, config, options, reads), std::back_inserter(found));
    if (found.empty() && !contents.empty() && by.description)
      fail("<naming> {}: {} has none of the tensors that it names", request.naming,
           contents[0].name);
    if (found.empty() && !contents.empty() && by.family)
      fail("<naming> {}: {} has no layer with the tensors of {}: {}", request.naming,
           contents[0].name, by.family->title, by.family->needs);
  }
  if (!request.prefix.empty()) {
    const std::string prefix =
        request.prefix.ends_with('.') ? request.prefix : request.prefix + ".";
    std::erase_if(found, [&](const naming::Found& layer) {
      return layer.group.prefix != prefix && !layer.group.prefix.starts_with(prefix);
    });
    if (found.empty()) fail("<prefix> {}: no attention layer's tensors begin so", request.prefix);
  }
  for (const naming::Found& layer : found) {
    const GraphNames* names = names_of(layer);
    recognised.push_back(names ? names->layer(layer.id) : layer);
  }
  for (const naming::Found& layer : recognised)
    listing.push_back({layer.id, prefix_in_file(layer.group), std::string(layer.family->title)});
  if (!found.empty()) return;

  // Canonical names: one layer, or layers.0.W_q, layers.1.W_q …
  std::set<std::pair<std::size_t, std::string>> numbered;
  std::map<std::string, std::set<std::string>> layers_with; // by weight
  bool lone = contents.empty();
  for (const io::Contents& file : contents)
    for (const io::Entry& entry : file.tensors) {
      const std::string name = canonical_name(entry.name, false);
      if (name.empty()) continue;
      const auto number = naming::layer_number(entry.name);
      if (!number) {
        lone = true;
        continue;
      }
      numbered.insert({*number, std::to_string(*number)});
      if (const TensorInfo* info = find_tensor_name(name); info && info->role == TensorRole::weight)
        layers_with[name].insert(std::to_string(*number));
    }
  for (const auto& [number, id] : numbered) {
    listing.push_back({id, fmt::format("layers.{}.", id), "canonical"});
    for (const auto& [name, layers] : layers_with)
      if (layers.size() + 1 == numbered.size() && !layers.contains(id)) lacking[id].push_back(name);
  }
  if (listing.empty() && lone) listing.push_back({"", "", "canonical"});
}

/// A missing weight is the identity or zero, which is rarely meant where every other layer has it.
void FoundLayers::note_lacking(const std::string& id, const NamedTensors& parts,
                               std::vector<Note>& notes) const {
  const auto at = lacking.find(id);
  if (at == lacking.end()) return;
  for (const std::string& name : at->second)
    if (!parts.contains(name))
      notes.push_back(warning(message(
          "layers.{0}.{1} is missing, which every other layer has: layer {0} is computed without "
          "it; to give it, <{1}=FILE>",
          id, name)));
}

/// Bindings are opened when a layer needs them, so that earlier layers must not overwrite their
/// files.
void FoundLayers::note_inputs() const {
  for (const io::Source& binding : bindings) {
    if (!binding.memory.empty()) continue;
    const bool single = binding.path.find("{layer}") == std::string::npos;
    for (const std::string& id : chosen) {
      io::note_later_input(io::with_layer(binding, id).path);
      if (single) break;
    }
  }
}

namespace {

bool are_numbers(const std::vector<std::string>& ids) {
  return std::ranges::all_of(ids, is_number);
}

/// Throws Error because `what`, one or several of the layers in --layer, is missing.
[[noreturn]] void refuse_layer(const std::string& wanted, std::string_view what,
                               const std::vector<std::string>& ids) {
  if (what.find_first_of(",-:") != std::string_view::npos)
    fail("<layer> {}: not all of these are there; the layers are {}", wanted,
         io::ends_of_list(ids));
  const std::vector<std::string_view> names(ids.begin(), ids.end());
  fail("<layer> {}: there is no layer {}{}; the layers are {}", wanted, what,
       are_numbers(ids) ? "" : did_you_mean(what, names), io::ends_of_list(ids));
}

/// The layers in --layer: a name, or where the ids are numbers, a list or ranges of them. Throws
/// Error.
std::vector<std::string> named_by(const std::string& wanted, const std::vector<std::string>& ids) {
  if (wanted == "all") return ids;
  if (is_one_of(wanted, ids)) return {wanted};
  if (!are_numbers(ids)) refuse_layer(wanted, wanted, ids);
  std::size_t highest = 0;
  for (const std::string& id : ids) highest = std::max(highest, number_of(id));
  constexpr std::size_t most = 1'000'000; // resolving ranges would count them all
  if (highest > most) refuse_layer(wanted, wanted, ids);
  Pick pick;
  try {
    pick = IndexList(wanted, message("<layer>")).resolve(highest + 1, "layers");
  } catch (const Error&) {
    refuse_layer(wanted, wanted, ids);
  }
  const std::set<std::string> present(ids.begin(), ids.end());
  std::vector<std::string> named;
  for (const std::size_t number : pick.indices) {
    named.push_back(std::to_string(number));
    if (!present.contains(named.back())) refuse_layer(wanted, named.back(), ids);
  }
  return named;
}

} // namespace

/// Throws Error for a number of a layer without one, unless it is for {layer} in bindings.
void FoundLayers::check_number_of_lone(const std::string& wanted) const {
  const auto numbered = std::find_if(bindings.begin(), bindings.end(), io::mentions_layer);
  const bool fills = numbered != bindings.end();
  const bool single = wanted != "all" && wanted.find_first_of(",-:") == std::string::npos;
  if (single && (fills || wanted == "0")) return;
  if (fills)
    fail("<layer> {}: {}: {{layer}} is the layer's number, and {}", wanted, numbered->text,
         why_missing(*numbered, "0"));
  fail("<layer> {}: there is one layer, which has no number; leave <layer> out{}", wanted,
       stack_of_maps());
}

void FoundLayers::choose_layers() {
  std::vector<std::string> ids;
  for (const LayerListing& layer : listing) ids.push_back(layer.id);
  if (is_lone(ids))
    if (std::vector<std::string> bound = numbered_by_bindings(); !bound.empty())
      ids = std::move(bound);
  if (request.for_texts) ids = whole->layers();
  const std::string& wanted = request.layer;
  if (wanted.empty()) {
    chosen = layers_unasked(ids);
  } else if (is_lone(ids)) {
    check_number_of_lone(wanted);
    chosen = {wanted};
  } else {
    chosen = named_by(wanted, ids);
  }
}

std::vector<const io::Contents*> FoundLayers::others() const {
  std::vector<const io::Contents*> files;
  for (const io::Contents& file : contents)
    if (std::none_of(found.begin(), found.end(),
                     [&](const naming::Found& layer) { return layer.group.contents == &file; }))
      files.push_back(&file);
  return files;
}

} // namespace mha
