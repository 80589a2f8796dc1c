// A layer with one tensor or stage exchanged.

#include <mha/mha.hpp>

#include <mha/api/visit.hpp>
#include <mha/layer/fused.hpp>
#include <mha/layer/graph.hpp>
#include <mha/layer/names.hpp>
#include <mha/load/masks.hpp>
#include <mha/load/model_state.hpp>
#include <mha/load/narrowing.hpp>
#include <mha/load/sizes.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mha {

namespace {

/// What `tensor` may look like, and how it lies in the layer then.
struct Form {
  Shape given, stored;
  std::vector<std::size_t> order = {}; ///< of the given axes before they are stored; none: as given
};

/// One tensor of a layer by its canonical name, for who replaces it.
struct Slot {
  Tensor Layer::*tensor = nullptr;
  std::vector<Form> forms;
};

/// A weight (in, out), or one matrix a head.
Slot projection(Tensor Layer::*tensor, std::size_t in, std::size_t heads, std::size_t d) {
  return {tensor,
          {{{in, heads * d}, {in, heads * d}}, {{heads, in, d}, {in, heads * d}, {1, 0, 2}}}};
}
/// A bias, or one a head.
Slot per_head(Tensor Layer::*tensor, std::size_t heads, std::size_t d) {
  return {tensor, {{{heads * d}, {heads * d}}, {{heads, d}, {heads * d}}}};
}
Slot plain(Tensor Layer::*tensor, const Shape& shape) {
  return {tensor, {{shape, shape}}};
}
/// A vector that the layer has, or that would be `width` long.
Slot vector(const Layer& layer, Tensor Layer::*tensor, std::size_t width) {
  return plain(tensor, (layer.*tensor).empty() ? Shape{width} : (layer.*tensor).shape());
}

Shape with_batch(const Dims& dims, Shape shape) {
  if (dims.batched) shape.insert(shape.begin(), dims.B);
  return shape;
}

std::size_t rows_of(const Tensor& W, std::size_t otherwise) {
  return W.empty() ? otherwise : W.shape()[0];
}

/// Where a tensor of the table goes; no forms where it cannot be exchanged by itself.
Slot slot_of(const Layer& layer, std::string_view name) {
  const Dims& d = layer.dims;
  const auto source = [&](Tensor Layer::*tensor) -> Slot {
    if ((layer.*tensor).empty()) return {};
    const Shape& stored = (layer.*tensor).shape(); // B, T, width
    return {tensor, {{with_batch(d, {stored[1], stored[2]}), stored}}};
  };
  const auto past = [&](Tensor Layer::*tensor, std::size_t width) -> Slot {
    if (d.past == 0) return {};
    std::vector<std::size_t> order =
        d.batched ? std::vector<std::size_t>{0, 2, 1, 3} : std::vector<std::size_t>{1, 0, 2};
    return {tensor,
            {{with_batch(d, {d.H_kv, d.past, width}), {d.B, d.past, d.H_kv * width}, order}}};
  };
  const std::size_t d_k_in =
      rows_of(layer.W_k, layer.X_k.empty() ? d.d_model : layer.X_k.shape().back());
  const std::size_t d_v_in =
      rows_of(layer.W_v, layer.X_v.empty() ? d.d_model : layer.X_v.shape().back());
  if (name == "X") return source(&Layer::X);
  if (name == "X_k") return source(&Layer::X_k);
  if (name == "X_v") return source(&Layer::X_v);
  if (name == "W_q") return projection(&Layer::W_q, rows_of(layer.W_q, d.d_model), d.H, d.d_k);
  if (name == "W_k") return projection(&Layer::W_k, d_k_in, d.H_kv, d.d_k);
  if (name == "W_v") return projection(&Layer::W_v, d_v_in, d.H_kv, d.d_v);
  if (name == "W_o")
    return {&Layer::W_o,
            {{{d.H * d.d_v, d.d_out}, {d.H * d.d_v, d.d_out}},
             {{d.H, d.d_v, d.d_out}, {d.H * d.d_v, d.d_out}}}};
  if (name == "b_q") return per_head(&Layer::b_q, d.H, d.d_k);
  if (name == "b_k") return per_head(&Layer::b_k, d.H_kv, d.d_k);
  if (name == "b_v") return per_head(&Layer::b_v, d.H_kv, d.d_v);
  if (name == "b_o") return plain(&Layer::b_o, {d.d_out});
  if (name == "norm.weight") return vector(layer, &Layer::norm_weight, d.d_model);
  if (name == "norm.bias") return vector(layer, &Layer::norm_bias, d.d_model);
  if (name == "q_norm.weight") return vector(layer, &Layer::q_norm_weight, d.d_k);
  if (name == "k_norm.weight") return vector(layer, &Layer::k_norm_weight, d.d_k);
  if (name == "k_past") return past(&Layer::k_past, d.d_k);
  if (name == "v_past") return past(&Layer::v_past, d.d_v);
  if (name == "k_extra" && d.extra > 0) return per_head(&Layer::k_extra, d.H_kv, d.d_k);
  if (name == "v_extra" && d.extra > 0) return per_head(&Layer::v_extra, d.H_kv, d.d_v);
  if (name == "sinks") return plain(&Layer::sinks, {d.H});
  if (name == "positions") return vector(layer, &Layer::positions, d.T);
  constexpr std::pair<std::string_view, Tensor Layer::*> of_its_own_shape[]{
      {"q_norm.bias", &Layer::q_norm_bias},
      {"k_norm.bias", &Layer::k_norm_bias},
      {"relative_bias", &Layer::relative_bias},
      {"relative_key", &Layer::relative_key},
      {"rope_short_factor", &Layer::rope_short_factor},
      {"rope_long_factor", &Layer::rope_long_factor},
      {"W_q_a", &Layer::W_c_q},
      {"b_q_a", &Layer::b_c_q},
      {"q_a_norm.weight", &Layer::c_q_norm_weight},
      {"kv_a_norm.weight", &Layer::c_kv_norm_weight}};
  for (const auto& [own, tensor] : of_its_own_shape)
    if (name == own && !(layer.*tensor).empty()) return plain(tensor, (layer.*tensor).shape());
  return {};
}

/// The tensor as the layer keeps it. Throws Error where it has none of the forms.
Tensor stored_as(const Layer& layer, const std::string& key, const Tensor& tensor, bool turns,
                 const std::vector<Form>& forms, DType dtype) {
  std::string expected;
  std::vector<Note> unheard;
  for (const Form& form : forms) {
    Shape given = form.given;
    const bool turned = turns && layer.settings.columns && given.size() >= 2;
    if (turned) std::iter_swap(given.end() - 1, given.end() - 2);
    expected += fmt::format("{}{}", expected.empty() ? "" : " or ", to_string(given));
    if (tensor.shape() != given) continue;
    Tensor rows = narrowed(tensor, dtype, key, false, unheard);
    if (turned) rows = transposed(rows);
    if (!form.order.empty()) rows = permuted(rows, form.order);
    return rows.reshaped(form.stored);
  }
  fail("{} is {}: {} expected, as the layer has it", key, to_string(tensor.shape()), expected);
}

/// A stage in place of its computation. Stages with heads and tokens lie packed, B, T, H · d.
void give_stage(Layer& layer, const std::string& key, Stage stage, const Tensor& tensor) {
  require_stage(layer, stage);
  if (is_of_model(stage) || layer.ends)
    fail("{}: {} is of the whole model and cannot be replaced", key, name_of(stage));
  const StageInfo& info = info_of(stage);
  Shape user, stored{layer.dims.B};
  for (Dim letter : info.letters) user.push_back(layer.dims.size_of(letter));
  stored.insert(stored.end(), user.begin(), user.end());
  Form form{with_batch(layer.dims, user), stored};
  if (info.kind == Kind::token && user.size() == 3) {
    form.stored = {layer.dims.B, user[1], user[0] * user[2]};
    form.order = layer.dims.batched ? std::vector<std::size_t>{0, 2, 1, 3}
                                    : std::vector<std::size_t>{1, 0, 2};
  }
  std::vector<Form> forms{form};
  if (is_packed(key)) // Q, K, V: the heads side by side
    forms = {{with_batch(layer.dims, {user[1], user[0] * user[2]}), form.stored}};
  const bool turns = info.kind != Kind::row;
  layer.given[index_of(stage)] = stored_as(layer, key, tensor, turns, forms, layer.dtype);
  layer.given_set.set(index_of(stage));
  patch_given_head_result(layer);
}

/// A mask, bias or length in place of the one of that name.
void replace_mask(Layer& layer, const std::string& name, const std::string& key, Tensor tensor) {
  for (std::vector<Broadcast>* masks : {&layer.added, &layer.blocked, &layer.bias})
    std::erase_if(*masks, [&](const Broadcast& mask) { return mask.name == name; });
  if (name == "kv_lengths") layer.kv_lengths.clear();
  if (layer.settings.columns && turns_in_columns(name, tensor)) tensor = transposed(tensor);
  NamedTensors parts{{name, {std::move(tensor), key, true}}};
  std::vector<Note> unheard;
  take_masks(parts, layer, unheard);
}

void replace_tensor(Layer& layer, const std::string& name, const std::string& key,
                    const Tensor& tensor) {
  for (const char* mask :
       {"mask", "block_mask", "key_padding_mask", "attention_mask", "kv_lengths", "bias"})
    if (name == mask) return replace_mask(layer, name, key, tensor);
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
  const Slot slot = slot_of(layer, name);
  if (name == "W_kv_a" || name == "b_kv_a" || name == "W_kv_b")
    fail("{}: several tensors of the layer are made of {}; give it to mha::layer or mha::load", key,
         name);
  if (slot.forms.empty())
    fail("{}: the layer was made without {}; give it to mha::layer or mha::load", key, name);
  const TensorInfo* info = find_tensor_name(name);
  const bool exact = name == "positions" || name.starts_with("rope_");
  const DType dtype = exact ? DType::f64 : layer.dtype;
  layer.*slot.tensor = stored_as(layer, key, tensor, info && info->turns, slot.forms, dtype);
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
