#include <mha/load/known_models.hpp>

#include <mha/files/text.hpp>
#include <mha/load/families/unread_settings.hpp>
#include <mha/load/model_reader.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/words.hpp>

#include <algorithm>

namespace mha {

using naming::Description;
using naming::FamilyRow;
using naming::Found;
using naming::Group;

namespace {

/// Models of several parts that compute each part as its own model_type does. Others mask or extend
/// the part's attention (PaliGemma sees its whole prompt), or have further layers under its names
/// (Idefics 2's resampler).
constexpr std::string_view composed =
    "aya_vision blip-2 cohere2_vision encoder-decoder fuyu got_ocr2 idefics3 instructblip "
    "instructblipvideo internvl internvl_chat kimi_vl llava llava_next llava_next_video "
    "llava_onevision mistral3 qwen2_audio smolvlm speech-encoder-decoder video_llava vipllava "
    "vision-encoder-decoder";

/// Parts of a block's feed-forward that choose and compute experts, in any family.
constexpr std::string_view of_experts =
    "block_sparse_moe.gate block_sparse_moe.experts mlp.gate mlp.router mlp.experts "
    "mlp.shared_expert mlp.shared_experts mlp.shared_expert_gate";

bool needs_no_model_type(const Found& layer) {
  return layer.group.description || layer.family->models == "*";
}

/// The end of a refusal: what to type where the user knows better.
Message cure(const Found& layer) {
  return message("If it is computed as {}'s, <naming> {} reads it so; else <naming> FILE.json "
                 "describes it<draft naming>",
                 layer.family->title, layer.family->name);
}

/// "'gemma3n_text'", or "'gemma' in 'paligemma'".
std::string in_words(const std::vector<std::string>& types) {
  return types.size() == 1
             ? fmt::format("'{}'", io::shown(types[0]))
             : fmt::format("'{}' in '{}'", io::shown(types[0]), io::shown(types.back()));
}

/// The first class in config.json's architectures if it is not one of the family's models, else "".
std::string other_class(const Found& layer) {
  const auto made = layer.group.config->find("architectures");
  if (made == layer.group.config->end() || made->second == "null") return "";
  const std::vector<std::string_view> classes = words_of(made->second, "[],");
  if (classes.empty()) return "";
  const std::string model = naming::model_of_name(classes[0]);
  const bool known =
      std::ranges::any_of(words_of(layer.family->models), [&](std::string_view type) {
        return naming::model_of_name(type) == model;
      });
  return known ? "" : std::string(classes[0]);
}

/// Whether `name` is one of the modules or tensors, or is below one; a|b is one of the two.
bool is_in(std::string_view name, std::string_view modules) {
  return std::ranges::any_of(words_of(modules, " |"), [&](std::string_view module) {
    return name.starts_with(module) && (name.size() == module.size() || name[module.size()] == '.');
  });
}

/// Whether the whole model's description has this name, which begins after the block's number.
bool is_described(const Description& description, std::string_view name) {
  const auto has_name = [&](const std::string& modules) { return is_in(name, modules); };
  for (const auto* list : {&description.always, &description.lacking, &description.ignore})
    if (std::ranges::any_of(*list, has_name)) return true;
  for (const auto& [key, tensor] : description.tensors)
    if (key.starts_with("mlp.") && is_in(name, tensor.name)) return true;
  for (const auto& [key, norm] : description.norms)
    if (naming::is_of_layer(key) && is_in(name, norm.weight)) return true;
  return false;
}

} // namespace

bool is_known_model(const Found& layer) {
  const std::vector<std::string> types = layer.group.model_types();
  const auto is_listed = [&](std::string_view type) {
    return has_word(layer.family->models, type);
  };
  return needs_no_model_type(layer) || types.empty() ||
         (is_listed(types[0]) && (is_listed(types.back()) || has_word(composed, types.back())));
}

std::vector<Note> require_naming_fits(const Found& layer) {
  const std::vector<std::string> types = layer.group.model_types();
  if (types.empty() && !needs_no_model_type(layer) && !layer.is_chosen)
    if (const std::string other = other_class(layer); !other.empty())
      fail("{}: config.json has no model_type, and its architectures, {}, are not {}'s: add "
           "the model_type. {}",
           layer.group.contents->name, io::shown(other), layer.family->title, cure(layer));
  if (!layer.foreign_tensor.empty()) refuse_foreign(layer, layer.foreign_tensor);
  if (is_known_model(layer)) return {};
  if (!layer.is_chosen)
    fail("{}: model_type {} is not known here: its layers have {}'s names, which do not determine "
         "its scale, its mask and its rotation. {}",
         layer.group.contents->name, in_words(types), layer.family->title, cure(layer));
  return {warning(message("model_type {} is not known here: read as {}'s because of <naming> {}",
                          in_words(types), layer.family->title, layer.family->name))};
}

void refuse_foreign(const Found& layer, std::string_view tensor) {
  const Group& group = layer.group;
  if (layer.is_chosen || needs_no_model_type(layer) || !group.model_types().empty()) return;
  fail("{}: {} is not a tensor of {}'s layers, and no config.json gives the model_type. {}",
       group.contents->name, io::shown(std::string(tensor)), layer.family->title, cure(layer));
}

std::string block_of(const Found& layer) {
  const Group& group = layer.group;
  if (naming::has_whole_model(*layer.family))
    if (std::string block = block_prefix(group, naming::layers_of(*layer.family)); !block.empty())
      return block;
  std::string block = group.prefix; // up to its last number
  while (!block.empty()) {
    const std::size_t dot = block.rfind('.', block.size() - 2),
                      begin = dot == std::string::npos ? 0 : dot + 1;
    if (std::ranges::all_of(block.substr(begin, block.size() - 1 - begin), is_digit)) return block;
    block.resize(begin);
  }
  return block;
}

void refuse_foreign_in_block(const Found& layer, const naming::LayerReading& read,
                             const std::vector<std::string_view>& names) {
  const FamilyRow& family = *layer.family;
  const std::string block = block_of(layer), &own = layer.group.prefix;
  const bool whole = naming::has_whole_model(family);
  if (block.empty() || (!whole && family.beside.empty())) return;
  if (layer.is_chosen || !layer.group.model_types().empty()) return;
  const auto description =
      whole ? naming::model_of(family, layer.group) : std::make_shared<const Description>();
  for (const std::string_view name : names) {
    const std::string_view below = name.substr(block.size());
    const bool known = name.starts_with(own) || is_in(name, read.norm.module) ||
                       is_in(below, family.beside) || is_in(below, of_experts) ||
                       is_described(*description, below) || name.ends_with("inv_freq");
    if (!known) refuse_foreign(layer, name);
  }
  const auto has = [&](std::string_view module) {
    return !module.empty() && std::ranges::any_of(names, [&](std::string_view name) {
      return is_in(name.substr(block.size()), module);
    });
  };
  const naming::DescribedTensor* const out = description->tensor("mlp.out");
  const naming::DescribedNorm* const norm =
      description->norm(description->normalises_before() ? "mlp.norm" : "norm");
  if (read.norm.weight && out && has(out->name) && norm && !has(norm->weight))
    fail("{}: {}{} is missing, which {}'s layers have beside {}, and no config.json gives the "
         "model_type. {}",
         layer.group.contents->name, block, norm->weight, family.title, out->name, cure(layer));
}

} // namespace mha
