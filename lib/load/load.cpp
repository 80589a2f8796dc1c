#include <mha/load/load.hpp>

#include <mha/files/inputs.hpp>
#include <mha/files/text.hpp>
#include <mha/layer/names.hpp>
#include <mha/layer/select.hpp>
#include <mha/load/assemble_steps.hpp>
#include <mha/load/described.hpp>
#include <mha/load/families/config_keys.hpp>
#include <mha/load/families/unread_settings.hpp>
#include <mha/load/known_models.hpp>
#include <mha/load/layer_source.hpp>
#include <mha/load/leftovers.hpp>
#include <mha/load/numbered_heads.hpp>
#include <mha/load/token_order.hpp>
#include <mha/load/whole_model.hpp>
#include <mha/naming/apply_axes.hpp>
#include <mha/naming/spelling.hpp>
#include <mha/naming/tensor_names.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

namespace mha {

namespace {

constexpr std::string_view blanks = " \t\n"; // between labels in a text

/// Whether a mask blocks: boolean `attn_mask` of PyTorch's MultiheadAttention, true = may not
/// attend.
bool blocks(std::string_view name, const Tensor& tensor, const LoadedLayer& layer) {
  return name == "attn_mask" && layer.naming.starts_with("PyTorch") &&
         tensor.dtype() == DType::boolean;
}

bool is_projection(const NamedTensors::value_type& part) {
  return part.first.starts_with("W_");
}

/// Whether there are only inputs and stages of a layer.
bool holds_results_only(const NamedTensors& parts) {
  return std::all_of(parts.begin(), parts.end(), [](const auto& entry) {
    const TensorInfo* info = find_tensor_name(entry.first);
    return !info || info->role == TensorRole::input || info->role == TensorRole::packed;
  });
}

/// Whether a canonical tensor is an input of a layer, not a part of it: beside the layers of a
/// family's model, other canonical names belong to some other module.
bool is_input(std::string_view name) {
  const TensorInfo* info = find_tensor_name(name);
  using enum TensorRole;
  return !info || info->role == input || info->role == packed || info->role == past ||
         info->role == mask || info->role == positions;
}

} // namespace

std::string bound_name(const std::string& where, const std::string& typed, bool of_stream) {
  if (typed == "k_bias" || typed == "v_bias" || typed == "q_bias")
    fail("{}: {} can mean two things: write b_{} (the projection's bias) or {}", where, typed,
         typed[0],
         typed == "q_bias" ? "bias" : fmt::format("{}_extra (a learned key or value)", typed[0]));
  for (const auto& [word, choices] :
       {std::pair("query", "X or q"), {"key", "X_k or k"}, {"value", "X_v or v"}})
    if (typed == word) fail("{}: '{}' can mean two things: write {}", where, word, choices);
  std::string name = canonical_name(typed, true);
  if (name.empty() && of_stream) name = stream_name(typed);
  if (!name.empty()) return name;
  std::vector<std::string_view> names{"tokens", "key_tokens"};
  for (const TensorInfo& info : tensor_names()) names.push_back(info.name);
  for (const StageInfo& info : stages()) names.push_back(info.name);
  if (const std::optional<Misspelt> meant = misspelt(typed))
    fail("{}: '{}' is not a known name: {}{}", where, typed, meant->why, names_hint);
  fail("{}: '{}' is neither a tensor of a layer nor a stage{}{}", where, typed,
       did_you_mean(typed, names), names_hint);
}

void LayerSource::add(NamedTensors& parts, const std::string& name, mha::NamedTensor part) const {
  const auto [at, added] = parts.emplace(name, part);
  if (added) return;
  if (at->second.bound && part.bound)
    fail("{} is bound twice: {} and {}", name, at->second.source, part.source);
  if (at->second.bound) return; // a binding wins over files
  if (!part.bound) {
    if (found.empty()) require_known_model(); // the names are of two modules of an unknown model
    fail("{} and {} are both {}; bind the one that is meant: <{}=FILE>", at->second.source,
         part.source, name, name);
  }
  at->second = std::move(part);
}

naming::InputNormalisation LayerSource::add_found(const naming::Found& layer,
                                                  ReadLayer& read_layer) const {
  auto& [parts, settings, labels, to, input_source, block, identities, of_kind, kind_parts,
         without_attention, results, missing] = read_layer;
  std::vector<Note> of_model = require_naming_fits(layer);
  if (!request.for_texts) std::ranges::move(of_model, std::back_inserter(to.notes));
  naming::require_computed(layer.group);
  const std::vector<std::string> unread = index->unread(layer);
  if (layer.family->name != "onnx") note_unread(layer.group, unread, to.notes);
  naming::LayerReading read(layer.group, *layer.family, options);
  read.leaves_mixtures = request.for_texts;
  naming::read_layer(*layer.family, layer.group, read);
  const naming::FamilyRow* family = layer.family;
  if (const GraphNames* names = names_of(layer); names && names->hold(layer, read.parts, to.notes))
    family = names->layer(layer.id).family;
  for (auto& [name, part] : read.parts) {
    part.rows = true; // families return (in, out)
    add(parts, name, std::move(part));
  }
  for (const auto& [name, value, origin, key] : read.settings)
    if (find_setting(name))
      set(settings, name, value, origin);
    else
      of_kind.settings.push_back({name, value, origin});
  without_attention = read.parts.empty();
  kind_parts = std::move(read.of_kinds), results = std::move(read.results);
  missing = std::move(read.missing);
  to.notes.insert(to.notes.end(), read.notes.begin(), read.notes.end());
  if (!request.for_texts) {
    naming::note_unread_settings(layer, to.notes);
    if (!layer.group.description && layer.group.contents->format != "onnx") {
      note_unknown(layer, read, index->unknown(layer), unread, to.notes);
      refuse_foreign_in_block(layer, read, index->names_of_block(layer));
    }
  }
  to.naming = family->title;
  if (layer.group.description && !request.for_texts)
    for (Note& note : unclaimed_tensors(layer.group)) to.notes.push_back(std::move(note));
  return std::move(read.norm);
}

/// Adds canonical tensors of files without a family, or under layers.N.
std::vector<UnknownTensor> LayerSource::add_loose(const std::string& id, NamedTensors& parts,
                                                  Labels& labels, LoadedLayer& to) const {
  std::vector<UnknownTensor> unknown_tensors;
  const auto is_bound = [&](const io::Contents& file, const io::Entry& entry) {
    return std::any_of(bindings.begin(), bindings.end(), [&](const io::Source& binding) {
      const io::Source source = io::with_layer(binding, id);
      return source.path == file.name && source.tensor == entry.name;
    });
  };
  for (const io::Contents& file : contents) {
    const bool checkpoint = index->is_checkpoint(file);
    if (file.format == "onnx") { // a graph's constants belong to no layer, unless one is bound
      if (!checkpoint) add_other_constants(file, is_bound, unknown_tensors);
      continue;
    }
    std::vector<const io::Entry*> unknown;
    for (const io::Entry* at : index->tensors(file, id)) {
      const io::Entry& entry = *at;
      // The last norm of a model that was saved without its head.
      if (file.format == "checkpoint" && (entry.name == "norm.weight" || entry.name == "norm.bias"))
        continue;
      if (!label_name(entry.name).empty() && (entry.shape.size() == 1 || entry.shape.size() == 2)) {
        labels.take(label_name(entry.name), io::labels_of_numbers(entry.read()),
                    fmt::format("{}: {}", file.name, entry.name));
        continue;
      }
      if (index->of_family(entry) || entry.name == "mrope_section") continue;
      const std::string& name = index->canonical(entry);
      if (name.empty()) {
        // A dump of texts has their token numbers, and their lengths, which become a layer's masks.
        if (!checkpoint && entry.name != "lengths" && entry.name != "ids" && !is_bound(file, entry))
          unknown_tensors.push_back({file.name, entry.name, entry.shape, entry.dtype, id}),
              unknown.push_back(at);
        continue;
      }
      if (checkpoint && request.for_texts) continue; // the model reports leftovers
      if (checkpoint && !id.empty() && !is_input(name)) {
        to.notes.push_back(warning(
            message("{}: skipped: {}, beside the layers of {}; to use it, bind it: <{}=FILE:{}>",
                    file.name, entry.name, to.naming, name, entry.name)));
        continue;
      }
      const bool other_letters = !same_name(entry.name).empty() && !find_tensor_name(entry.name);
      const std::string source = fmt::format("{}: {}", file.name, entry.name);
      AppliedAxes arranged = apply_axes(name, entry.read(), "", number_of(id), source);
      const bool blocking = blocks(entry.name, arranged.tensor, to);
      add(parts, blocking ? "block_mask" : arranged.name,
          {std::move(arranged.tensor), source, false, entry.weak_dtype, other_letters, false, "",
           fmt::format("{}={}:{}", name, file.name, entry.name)});
    }
    index->keep_first_unknown(file, unknown);
    read_labels(file, labels, to.notes);
  }
  return unknown_tensors;
}

void LayerSource::add_bindings(const std::string& id, NamedTensors& parts, Labels& labels,
                               LoadedLayer& to) const {
  for (const io::Source& binding : bindings) {
    if (request.for_texts && !binds(binding, id)) continue;
    const io::Source source = io::with_layer(binding, id);
    if (const std::string label = label_name(binding.name); !label.empty()) {
      labels.take(label, io::read_label_lists(source), source.path);
      continue;
    }
    const std::string name = bound_name(binding.text, binding.name, request.for_texts);
    const io::Entry entry = io::bound_entry(source, opened);
    AppliedAxes arranged = apply_axes(name, entry.read(), source.axes, number_of(id), source.text);
    if (name == "X") parts.erase("X"); // resid_pre of a whole model's layer
    const bool blocking = blocks(binding.name, arranged.tensor, to);
    add(parts, blocking ? "block_mask" : arranged.name,
        {std::move(arranged.tensor),
         source.memory.empty() ? fmt::format("{}: {}", source.path, entry.name) : source.name, true,
         entry.weak_dtype, source.axes.empty() && canonical_name(entry.name, false) != name, false,
         "", source.axes.empty() && source.memory.empty() ? binding.text : ""});
  }
}

void LayerSource::add_tokens(const std::string& text, const std::string& name,
                             Labels& labels) const {
  if (text.empty()) return;
  if (text == "-" || file_exists(text)) {
    io::Source file;
    file.text = file.path = text;
    file.name = "tokens";
    labels.take(name, io::read_label_lists(file), text);
  } else if (text.find(' ') == std::string::npos &&
             (text.find('/') != std::string::npos || text.ends_with(".json") ||
              text.ends_with(".txt") || text.ends_with(".npy"))) {
    io::read_bytes(text); // throws, because there is no such file
  } else {
    const std::vector<std::string> words = words_of<std::string>(text, blanks);
    labels.take(name, {words, {}}, setting_in_words(name, request.wording));
    if (words.empty()) fail("<{}> is '{}': a file or words expected", name, text);
  }
}

namespace {

/// A graph may add something to the scores that it does not contain. Throws Error where that is not
/// given, because the layer must not be computed without it.
void require_what_is_added(const naming::Found& layer, const NamedTensors& parts,
                           const naming::Options& options) {
  const std::string name = layer.group.prefix + "needs";
  const auto& scalars = layer.group.contents->scalars;
  const auto found = std::ranges::find(scalars, name, [](const auto& one) { return one.first; });
  if (found == scalars.end() || options.contains("causal")) return;
  for (const char* given : {"mask", "bias", "block_mask", "attention_mask", "key_padding_mask"})
    if (parts.contains(given)) return;
  const auto& remarks = layer.group.contents->remarks;
  const auto remark = remarks.find(name);
  if (remark == remarks.end()) fail("{}: {}", io::shown(layer.group.contents->name), found->second);
  fail("{}: {}", io::shown(layer.group.contents->name), remark->second);
}

/// The weights of the first numbered layer of a file whose layers have no known names.
std::vector<UnknownTensor> first_numbered_layer(const std::vector<io::Contents>& files) {
  std::map<std::size_t, std::vector<UnknownTensor>> layers;
  for (const io::Contents& file : files) {
    for (const io::Entry& entry : file.tensors)
      if (const std::optional<std::size_t> number = naming::layer_number(entry.name);
          number && is_floating(entry.dtype) && file.format != "onnx" &&
          canonical_name(entry.name, false).empty())
        layers[*number].push_back({file.name, entry.name, entry.shape, entry.dtype});
    if (!layers.empty()) return layers.begin()->second;
  }
  return {};
}

} // namespace

ReadLayer LayerSource::read(const std::string& id, const LayerInput* input) const {
  ReadLayer read_layer;
  auto& [parts, settings, labels, to, input_source, block, identities, of_kind, kind_parts,
         without_attention, results, missing] = read_layer;
  ++counts->made;
  to.id = id;
  to.naming = "canonical";
  naming::InputNormalisation norm;
  const bool lone = found.size() == 1 && found[0].id.empty();
  for (const naming::Found* layer : index->found_as(lone ? "" : id))
    norm = add_found(*layer, read_layer);
  if (input) read_layer.take_input(*input);
  add_bindings(id, parts, labels, to);
  std::vector<UnknownTensor> unknown_tensors = add_loose(id, parts, labels, to);
  join_numbered_heads(contents, parts, unknown_tensors, to.notes);
  for (const naming::Found* layer : index->found_as(lone ? "" : id))
    require_what_is_added(*layer, parts, options);
  add_settings(id, settings, parts, identities, to.notes);
  take_identities(id, parts, identities);
  if (input && !settings.origins.count("input_norm"))
    set(settings, "input_norm", "checkpoint", input->source);
  if (!input) take_stream(read_layer);
  if (id.empty() && holds_results_only(parts) && !parts.count("X"))
    if (const Message hint = stack_of_maps(); !hint.empty())
      to.notes.emplace_back(message("four axes are read as batch, heads, queries, keys{}", hint));
  note_lacking(id, parts, to.notes);
  const bool of_results = request.results_given && holds_results_only(parts);
  const bool nothing_found = found.empty() && std::ranges::none_of(parts, is_projection);
  if (nothing_found) require_known_model(); // before its names are taken for misspelt ones
  judge_unknown_tensors(unknown_tensors, parts, identities, !of_results, guesses, to.notes);
  std::ranges::move(tensors_beside_bindings(id), std::back_inserter(unknown_tensors));
  if (!of_results)
    require_no_other_projection(unknown_tensors, parts, identities, settings.columns, guesses);
  note_identities(parts, identities, to.notes);
  add_norm(norm, parts, settings, to);
  add_tokens(request.tokens, "tokens", labels);
  add_tokens(request.key_tokens, "key_tokens", labels);
  const auto is_input = [](const auto& part) { return part.first.starts_with("X"); };
  if (nothing_found && std::ranges::all_of(parts, is_input)) {
    for (const io::Contents& file : contents) // a graph's note has what to do instead
      if (file.format == "onnx" && !file.notes.empty())
        fail("{}: {}", io::shown(file.name), file.notes.back());
    if (!parts.empty() && identities.empty()) {
      require_no_other_projection(first_numbered_layer(contents), parts, identities,
                                  settings.columns, guesses);
      require_known_layers();
    }
  }
  if (request.results_given && holds_results_only(parts))
    for (auto& [name, part] : parts) part.bound = true;
  to.other_order = order_heads_and_tokens(parts, settings, to.notes);
  read_layer.list_origins();
  return read_layer;
}

Sources::Sources(Request request) {
  const auto state = std::make_shared<LayerSource>();
  state->request = std::move(request);
  state->open_sources();
  state->find_layers();
  const bool of_text = state->request.for_texts;
  if (of_text) state->open_model();
  state->choose_layers();
  if (of_text) state->choose_ends();
  state->note_inputs();
  // An index saves looking at every name for each layer. A text's layers are all computed, chosen
  // or not.
  state->index.emplace(state->contents, state->found,
                       of_text ? state->whole->layers() : state->chosen);
  state->require_varying();
  state_ = state;
}

const Request& Sources::request() const {
  return state_->request;
}
bool Sources::shares_a_tensor() const {
  return !state_->why_not_varying().empty();
}
const std::shared_ptr<const WholeModel>& Sources::model() const {
  return state_->whole;
}
const std::vector<Note>& Sources::notes_of_model() const {
  return state_->notes_of_model;
}
const std::shared_ptr<LayerCounts>& Sources::counts() const {
  return state_->counts;
}

const std::vector<std::string>& Sources::chosen() const {
  return state_->chosen;
}
const std::vector<LayerListing>& Sources::layers() const {
  return state_->listing;
}
const std::vector<naming::Found>& Sources::found() const {
  return state_->recognised;
}
const std::vector<io::Contents>& Sources::contents() const {
  return state_->as_files.empty() ? state_->contents : state_->as_files;
}
std::string Sources::title() const {
  return state_->contents.empty() ? state_->bindings[0].text : state_->contents[0].name;
}

} // namespace mha
