// A layer with one tensor or stage exchanged.

#include <mha/mha.hpp>

#include <mha/api/visit.hpp>
#include <mha/naming/forms.hpp>
#include <mha/naming/fused.hpp>
#include <mha/layer/graph.hpp>
#include <mha/layer/names.hpp>
#include <mha/load/layer_source.hpp>
#include <mha/load/masks.hpp>
#include <mha/load/narrowing.hpp>
#include <mha/load/sizes.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/naming/tensor_names.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mha {

namespace {

/// The width of what a projection of this name multiplies.
std::size_t input_width(const Layer& layer, std::string_view name) {
  const Tensor& other = name == "W_k" ? layer.X_k : name == "W_v" ? layer.X_v : Tensor();
  return other.empty() ? layer.dims.d_model : other.shape().back();
}

/// The forms that a tensor of the table may have in this layer; none where it cannot be exchanged
/// alone.
std::vector<Form> forms_in(const Layer& layer, const TensorInfo& info) {
  const Tensor& now = info.of(layer);
  if (now.empty() && !info.in_layer.can_be_added) return {};
  const TensorForm& kept = info.forms.front();
  return forms_of(info, layer.dims, [&](Dim letter) -> std::size_t {
    if (layer.dims.size_of(letter) > 0) return 0;
    if (now.empty()) return letter == Dim::d_in ? input_width(layer, info.name) : 0;
    const std::size_t batch = info.has_batch() ? 1 : 0;
    for (std::size_t i = 0; i < kept.size(); ++i)
      if (kept[i].letter == letter && !kept[i].times) return now.shape()[i + batch];
    return 0;
  });
}

/// The tensor as the layer keeps it. Throws Error where it has none of the forms.
Tensor stored_as(const Layer& layer, const std::string& key, const Tensor& tensor, bool turns,
                 const std::vector<Form>& forms, DType dtype) {
  std::string expected;
  std::vector<Note> ignored_notes;
  for (const Form& form : forms) {
    Shape given = form.given;
    const bool turned = turns && layer.settings.columns && given.size() >= 2;
    if (turned) std::iter_swap(given.end() - 1, given.end() - 2);
    expected += fmt::format("{}{}", expected.empty() ? "" : " or ", to_string(given));
    if (tensor.shape() != given) continue;
    const Tensor rows = narrowed(tensor, dtype, key, false, ignored_notes);
    return stored(turned ? transposed(rows) : rows, form);
  }
  fail("{} is {}: {} expected, as the layer has it", key, to_string(tensor.shape()), expected);
}

/// A stage in place of its computation.
void give_stage(Layer& layer, const std::string& key, Stage stage, const Tensor& tensor) {
  require_stage(layer, stage);
  if (is_of_model(stage) || layer.ends)
    fail("{}: {} is of the whole model and cannot be replaced", key, name_of(stage));
  const bool turns = info_of(stage).kind != Kind::row;
  layer.given[index_of(stage)] = stored_as(
      layer, key, tensor, turns, {form_of(stage, layer.dims, is_packed(key))}, layer.dtype);
  layer.given_set.add(stage);
  patch_given_head_result(layer);
}

/// A mask, bias or length in place of the one of that name.
void replace_mask(Layer& layer, const std::string& name, const std::string& key, Tensor tensor) {
  for (std::vector<Broadcast>* masks : {&layer.added, &layer.blocked, &layer.bias})
    std::erase_if(*masks, [&](const Broadcast& mask) { return mask.name == name; });
  if (name == "kv_lengths") layer.kv_lengths.clear();
  if (layer.settings.columns && turns_in_columns(name, tensor)) tensor = transposed(tensor);
  NamedTensors parts{{name, {std::move(tensor), key, true}}};
  std::vector<Note> ignored_notes;
  take_masks(parts, layer, ignored_notes);
}

void replace_tensor(Layer& layer, const std::string& name, const std::string& key,
                    const Tensor& tensor) {
  const TensorInfo& info = *find_tensor_name(name);
  if (info.role == TensorRole::mask || info.role == TensorRole::lengths ||
      info.role == TensorRole::bias)
    return replace_mask(layer, name, key, tensor);
  const Dims& d = layer.dims;
  if (name == "W_qkv" || name == "b_qkv") {
    const bool turned = layer.settings.columns && tensor.rank() == 2;
    const auto turn = [&](const Tensor& matrix) { return turned ? transposed(matrix) : matrix; };
    const SplitTensors split =
        split_fused(turn(tensor), layer.settings.qkv_order, d.H, d.H_kv, key);
    for (const auto& [letter, part] : {std::pair("q", &split.q), {"k", &split.k}, {"v", &split.v}})
      replace_tensor(layer, name.substr(0, 2) + letter, key, turn(*part));
    return;
  }
  if (name == "X_kv" && !layer.X_k.empty() && !layer.X_v.empty()) {
    replace_tensor(layer, "X_k", key, tensor);
    return replace_tensor(layer, "X_v", key, tensor);
  }
  if (!info.in_layer.member && name != "X_kv")
    fail("{}: several tensors of the layer are made of {}; give it where the layer is made", key,
         name);
  const std::vector<Form> forms =
      info.in_layer.member ? forms_in(layer, info) : std::vector<Form>();
  if (forms.empty())
    fail("{}: the layer was made without {}; give it where the layer is made", key, name);
  const DType dtype = info.in_layer.in_double ? DType::f64 : layer.dtype;
  info.of(layer) = stored_as(layer, key, tensor, info.turns, forms, dtype);
}

} // namespace

Layer Layer::with(std::string_view tensor_or_stage, const Tensor& tensor) const {
  return api::visiting([&] {
    const std::string key(tensor_or_stage), name = bound_name(key, key, block != nullptr);
    if (tensor.empty()) fail("{}: the tensor is empty: it has neither numbers nor a shape", key);
    Layer changed = *this;
    for (const auto& [packed, stage] : {std::pair("Q", Stage::q), {"K", Stage::k}, {"V", Stage::v}})
      if (name == packed) {
        give_stage(changed, name, stage, tensor);
        return changed;
      }
    if (find_tensor_name(name))
      replace_tensor(changed, name, key, tensor);
    else
      give_stage(changed, key, *find_stage(name), tensor);
    return changed;
  });
}

} // namespace mha
