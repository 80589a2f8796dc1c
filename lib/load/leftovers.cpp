#include <mha/load/leftovers.hpp>

#include <mha/files/text.hpp>
#include <mha/formats/folder.hpp>
#include <mha/load/described.hpp>
#include <mha/load/families/config_keys.hpp>
#include <mha/load/families/positions.hpp>
#include <mha/load/families/unread_settings.hpp>
#include <mha/load/known_models.hpp>
#include <mha/load/model_reader.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/parse.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
#include <span>

namespace mha {

using naming::Found;
using naming::Group;

namespace {

/// Tensors beside quantised weights, by the last word of their names.
constexpr std::string_view of_quantisation[]{
    "scales",       "qzeros",        "g_idx",      "qweight",           "weight_scale",
    "SCB",          "absmax",        "quant_map",  "weight_scale_inv",  "input_scale",
    "output_scale", "nested_absmax", "zero_point", "weight_zero_point", "weight_packed",
    "weight_shape", "weight_format", "_scales",    "_blocks",           "nested_quant_map",
    "zeros",        "scale_inv"};

bool is_of_adapter(std::string_view name) {
  constexpr std::string_view words[]{
      ".lora_", ".ia3_", ".hada_", ".oft_", ".weight_g", ".weight_v", ".parametrizations.",
      ".lokr_"};
  return std::ranges::any_of(
      words, [&](std::string_view word) { return name.find(word) != std::string_view::npos; });
}

/// GPT-2's and GPT-NeoX's buffer of the causal mask, which is not read.
bool is_causal_mask(const io::Entry& entry) {
  return entry.name.ends_with(".attn.bias") || entry.name.ends_with(".attention.bias");
}

/// Blocks of GPT-OSS's experts, or their scales.
bool is_mxfp4(const io::Entry& entry) {
  return entry.dtype == DType::u8 &&
         (entry.name.ends_with("_blocks") || entry.name.ends_with("_scales"));
}

/// Whether a name belongs to another part of the model: for images or sound.
bool is_of_other_part(std::string_view name) {
  Group named;
  named.prefix = name;
  return named.within({"vision", "visual", "audio", "multi_modal_projector", "mm_projector"});
}

/// Whether `name` is one of the modules, or is below one.
bool is_below(std::string_view name, const std::vector<std::string>& modules) {
  for (const std::string& word : modules)
    if (name == word || (name.starts_with(word) && name[word.size()] == '.')) return true;
  return false;
}

bool is_of_quantisation(std::string_view name) {
  const std::string_view last = last_part(name);
  return is_one_of(last, of_quantisation) || name.find(".quant_state") != std::string_view::npos ||
         last.ends_with("_scales") || last.ends_with("_blocks");
}

/// The first of some names, and how many more there are.
std::string first_of(std::span<const std::string> names) {
  constexpr std::size_t most = 3;
  std::string list;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i)
    list += fmt::format("{}{}", i > 0 ? ", " : "", names[i].empty() ? "''" : names[i]);
  if (names.size() > most) list += fmt::format(" and {} more", names.size() - most);
  return list;
}

class Leftovers {
public:
  Leftovers(const std::vector<const Found*>& layers, const naming::Options& options)
      : layers_(layers), group_(layers[0]->group) {
    naming::require_computed(group_);
    description_ = naming::model_of(*layers[0]->family, group_);
    if (description_->is_family) {
      stack_ = block_prefix(group_, *description_); // "transformer.h.0."
      stack_.resize(stack_.rfind('.', stack_.size() - 2) + 1);
      model_ = stack_.substr(0, stack_.size() - layers_word(*description_).size() - 1);
    }
    outline(options);
  }

  std::vector<Note> notes() const {
    std::vector<std::string_view> others, adapters;
    for (const io::Entry& entry : group_.contents->tensors) {
      const std::string_view name = entry.name;
      if (group_.reads->used(name) && !is_floating(entry.dtype) && !is_causal_mask(entry) &&
          !is_mxfp4(entry))
        fail("{}: {} is {}: quantised weights are not read here; dequantise them first",
             group_.contents->name, name, name_of(entry.dtype));
      if (group_.reads->used(name) || is_known(name)) continue;
      refuse_quantised(group_.contents->name, name);
      if (is_noted_by_layer(name) || group_.contents->graph)
        continue; // a graph is compared as a whole
      (is_of_adapter(name) ? adapters : others).push_back(name);
    }
    std::vector<Note> notes;
    add(notes, adapters, "skipped, though beside a weight",
        "The model is computed without them: merge adapters first");
    for (const std::string_view name : others)
      if (description_->is_family && name.starts_with(stack_)) refuse_foreign(*layers_[0], name);
    add(notes, others, "skipped, because no part of the model that is computed here reads it",
        "If the model reads it, its numbers differ");
    add_unlike(notes);
    add_other_numbers(notes);
    add_adapter_beside(notes);
    add_shards_beside(notes);
    for (Note& note : naming::unread_settings(*layers_[0], *description_, true))
      notes.push_back(std::move(note));
    return notes;
  }

private:
  /// Asks for everything that the layers need without reading large tensors.
  void outline(const naming::Options& options) const {
    const std::optional<std::size_t> width = DescribedFile(*description_, group_).stream_width();
    for (const Found* layer : layers_) {
      Group group = layer->group;
      group.outline = true;
      naming::LayerReading parts(group, *layer->family, options);
      parts.leaves_mixtures = width.has_value();
      naming::read_layer(*layer->family, group, parts);
      const ModelReader reader(group, *description_);
      if (width) reader.block(*width);
      reader.require_always();
    }
  }

  /// Buffers, heads that no stage needs, and other parts of the model.
  bool is_known(std::string_view name) const {
    if (is_of_further_tokens(name)) return true;
    if (group_.reads->skipped(name)) return true;
    if (!description_->is_family)
      return is_ignored(*description_, std::string(name)) || is_of_other_part(name);
    if (name.starts_with(stack_)) {
      const std::size_t dot = name.find('.', stack_.size());
      return dot != name.npos && is_below(name.substr(dot + 1), description_->ignore);
    }
    if (is_of_other_part(name)) return true;
    if (name == other_bias() && head_bias()) return true; // the decoder has another
    for (std::string_view at = model_;;) { // "model.language_model.", then "language_model.", ""
      if (name.starts_with(at) && is_below(name.substr(at.size()), description_->ignore))
        return true;
      if (at.empty()) return is_below(name, description_->ignore);
      at.remove_prefix(at.find('.') + 1);
    }
  }

  /// Whether a name is of a layer after the last, which predicts the tokens after the next one.
  bool is_of_further_tokens(std::string_view name) const {
    if (group_.configured_count({"num_nextn_predict_layers"}).value_or(0) == 0) return false;
    constexpr std::string_view of_gguf = "blk."; // of names without one in a checkpoint
    const bool has_own_name = name.starts_with(stack_);
    if (!has_own_name && !name.starts_with(of_gguf)) return false;
    name.remove_prefix(has_own_name ? stack_.size() : of_gguf.size());
    return take_number<std::size_t>(name).value_or(0) >= layers_.size();
  }

  /// Whether a name is in a module of a layer's projections: then its layer warns of it.
  bool is_noted_by_layer(std::string_view name) const {
    return std::ranges::any_of(layers_, [&](const Found* layer) {
      const Group& group = layer->group;
      if (!name.starts_with(group.prefix)) return false;
      const std::string_view own = name.substr(group.prefix.size());
      return std::ranges::any_of(group.tensors, [&](const auto& tensor) {
        const std::size_t dot = tensor.first.rfind('.');
        return dot != std::string::npos && !group.tensors.contains(own) &&
               own.starts_with(std::string_view(tensor.first).substr(0, dot + 1));
      });
    });
  }

  void add(std::vector<Note>& notes, const std::vector<std::string_view>& names,
           std::string_view what, std::string_view so) const {
    if (names.empty()) return;
    const std::vector<std::string> all(names.begin(), names.end());
    notes.push_back(
        warning(fmt::format("{}: {}: {}. {}", group_.contents->name, what, first_of(all), so)));
  }

  /// Warns of a tensor that only some layers have and are computed with.
  void add_unlike(std::vector<Note>& notes) const {
    if (!description_->is_family) return; // it defines which tensors layers may lack
    std::map<std::string_view, std::vector<std::string_view>> of; // by the name after "h.N."
    for (const io::Entry& entry : group_.contents->tensors) {
      const std::string_view name = entry.name;
      if (!name.starts_with(stack_) || !group_.reads->used(name)) continue;
      const std::size_t dot = name.find('.', stack_.size());
      if (dot != name.npos) of[name.substr(dot + 1)].push_back(name);
    }
    for (const auto& [name, names] : of)
      if (names.size() < layers_.size() && !is_one_of(name, description_->lacking) &&
          !is_of_either_feed_forward(*description_, name))
        notes.push_back(warning(
            fmt::format("{}: {} of the {} layers {} {}, as {}: the others are computed without",
                        group_.contents->name, names.size(), layers_.size(),
                        names.size() == 1 ? "has" : "have", name, names[0])));
  }

  /// Warns where buffers have other numbers than those computed with here: positions from 0 on, and
  /// the head's bias under a second name.
  void add_other_numbers(std::vector<Note>& notes) const {
    const io::Contents& file = *group_.contents;
    const io::Entry* const own = head_bias();
    const Tensor bias = own ? own->read() : Tensor();
    for (const io::Entry& entry : file.tensors) {
      const std::string_view name = entry.name;
      const bool positions = name.ends_with("position_ids"),
                 copy = !bias.empty() && is_head_bias(name) && &entry != own;
      if ((!positions && !copy) || !is_known(name)) continue;
      const Tensor stored = entry.read();
      std::size_t i = 0;
      const auto expected = [&] { return positions ? static_cast<double>(i) : value_at(bias, i); };
      while (i < stored.count() && (positions || i < bias.count()) &&
             value_at(stored, i) == expected())
        ++i;
      if (i == stored.count()) continue;
      notes.push_back(warning(fmt::format("{}: {} has {} at {}, but {} is used",
                                          group_.contents->name, name, value_at(stored, i), i,
                                          positions ? fmt::format("position {}", i) : own->name)));
    }
  }

  /// BERT and similar models have the head's bias under two names.
  bool is_head_bias(std::string_view name) const {
    return !other_bias().empty() && (name == other_bias() || name.ends_with("decoder.bias"));
  }
  std::string_view other_bias() const {
    const naming::DescribedTensor* const bias = description_->tensor("head.bias");
    return bias ? std::string_view(bias->name) : std::string_view();
  }
  /// The bias that is computed with; nullptr: none.
  const io::Entry* head_bias() const {
    for (const io::Entry& entry : group_.contents->tensors)
      if (is_head_bias(entry.name) && group_.reads->used(entry.name)) return &entry;
    return nullptr;
  }

  void add_adapter_beside(std::vector<Note>& notes) const {
    if (group_.contents->format != "checkpoint") return;
    for (const char* name : {"adapter_config.json", "adapter_model.safetensors"}) {
      std::error_code ignored;
      if (!std::filesystem::exists(std::filesystem::path(group_.contents->name) / name, ignored))
        continue;
      notes.push_back(warning(fmt::format(
          "{}: {} is beside the model, which is computed without the adapter: merge it first",
          group_.contents->name, name)));
      return;
    }
  }

  /// As in Transformers, a single file is read even where there are also shards of another save.
  void add_shards_beside(std::vector<Note>& notes) const {
    if (group_.contents->format != "checkpoint") return;
    const std::filesystem::path folder(group_.contents->name);
    std::error_code ignored;
    const auto exists = [&](const std::string& name) {
      return std::filesystem::exists(folder / name, ignored);
    };
    for (const std::string single : {"model.safetensors", "pytorch_model.bin"}) {
      const std::string index = single + ".index.json";
      if (!exists(single)) continue;
      if (!exists(index)) return;
      const auto listed = io::read_config((folder / index).string());
      const auto shard = std::ranges::find_if(listed, [&](const auto& member) {
        return member.first.starts_with("weight_map.") && member.second != single &&
               exists(member.second);
      });
      if (shard != listed.end())
        notes.push_back(
            warning(fmt::format("{}: {} is read, and not {} and the other shards of {}, which are "
                                "beside it: remove one of the two",
                                group_.contents->name, single, io::shown(shard->second), index)));
      return;
    }
  }

  const std::vector<const Found*>& layers_;
  const Group& group_;
  std::shared_ptr<const naming::Description> description_;
  std::string stack_, model_; ///< "transformer.h." and "transformer."
};

} // namespace

void note_unread(const Group& group, const std::vector<std::string>& names,
                 std::vector<Note>& notes) {
  if (names.empty()) return;
  std::vector<std::string> whole;
  for (const std::string& name : names) whole.push_back(group.prefix + name);
  const std::string list = first_of(whole);
  for (const auto& [name, entry] : group.tensors)
    if (name.ends_with("weight") && !is_floating(entry->dtype))
      fail("{}: {} is {}, with {} beside it: quantised weights are not read here; dequantise "
           "them first",
           group.contents->name, entry->name, name_of(entry->dtype), list);
  for (const std::string& name : whole) refuse_quantised(group.contents->name, name);
  notes.push_back(
      warning(fmt::format("{}: skipped, though beside a projection's weight: {}. It is computed "
                          "without them: merge adapters first",
                          group.contents->name, list)));
}

void note_unknown(const Found& layer, const naming::LayerReading& read,
                  const std::vector<std::string>& names, const std::vector<std::string>& noted,
                  std::vector<Note>& notes) {
  const Group& group = layer.group;
  const bool rotates = std::ranges::any_of(read.settings, [](const auto& setting) {
    return setting.name == "rope" && setting.value != "none";
  });
  const std::string bias = read.norm.module + ".bias";
  if (!read.norm.module.empty() && !read.norm.bias && group.contents->find(bias))
    notes.push_back(warning(
        fmt::format("{}: skipped, though part of the norm before attention: {}. If the model "
                    "computes with it, its numbers differ",
                    group.contents->name, bias)));
  std::vector<std::string> unknown;
  for (const std::string& name : names)
    if (!group.reads->used(name) && !(rotates && name.ends_with("inv_freq")) &&
        (!name.starts_with(group.prefix) ||
         std::ranges::find(noted, name.substr(group.prefix.size())) == noted.end()))
      unknown.push_back(name);
  if (unknown.empty()) return;
  refuse_foreign(layer, unknown[0]);
  notes.push_back(warning(
      fmt::format("{}: skipped, though in attention's module: {}. If the model computes with "
                  "them, its numbers differ",
                  group.contents->name, first_of(unknown))));
}

void refuse_quantised(std::string_view file, std::string_view tensor) {
  if (is_of_quantisation(tensor))
    fail("{}: {} is of quantised weights, which are not read here; dequantise them first", file,
         tensor);
}

std::vector<Note> leftovers_of(const std::vector<const Found*>& layers,
                               const naming::Options& options) {
  return Leftovers(layers, options).notes();
}

} // namespace mha
