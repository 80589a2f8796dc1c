#include "support/library_input.hpp"

#include <mha/layer/names.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/naming/tensor_names.hpp>

#include <fmt/format.h>

#include <algorithm>

using reference::Array;

namespace {

/// (in, H·d) as (H, in, d).
Array one_matrix_per_head(const Array& W, std::size_t heads) {
  const std::size_t in = W.shape[0], d = W.shape[1] / heads;
  Array split({heads, in, d});
  for (std::size_t h = 0; h < heads; ++h)
    for (std::size_t c = 0; c < in; ++c)
      for (std::size_t i = 0; i < d; ++i) split(h, c, i) = W(c, h * d + i);
  return split;
}

/// The columns of q, k and v in one: rows × (H + 2 H_kv)·d. A bias is one row.
Array fused(const reference::Layer& layer, const std::string& order, const Array& q, const Array& k,
            const Array& v) {
  const std::size_t rows = q.shape.size() == 1 ? 1 : q.shape[0], d = layer.d_k;
  Array all({rows, (layer.H + 2 * layer.H_kv) * d});
  std::size_t to = 0;
  const auto append = [&](const Array& from, std::size_t first, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i, ++to)
      for (std::size_t row = 0; row < rows; ++row)
        all(row, to) = from.values[row * (from.values.size() / rows) + first + i];
  };
  if (order == "per_group") {
    const std::size_t group = layer.H / layer.H_kv;
    for (std::size_t g = 0; g < layer.H_kv; ++g)
      append(q, g * group * d, group * d), append(k, g * d, d), append(v, g * d, d);
  } else {
    for (char part : order)
      append(part == 'q' ? q : part == 'k' ? k : v, 0, (part == 'q' ? layer.H : layer.H_kv) * d);
  }
  if (q.shape.size() == 1) all.shape = {all.shape[1]};
  return all;
}

Array without_leading_ones(Array mask, bool all_axes) {
  while (mask.shape.size() > 1 && mask.shape[0] == 1 && all_axes)
    mask.shape.erase(mask.shape.begin());
  return mask;
}

Array inverted(Array yes) {
  for (double& value : yes.values) value = value == 0 ? 1 : 0;
  return yes;
}

mha::Tensor as_tensor(const Array& array, mha::DType dtype) {
  mha::Tensor numbers = mha::Tensor::of<double>(array.shape, array.values);
  return mha::convert(numbers, dtype);
}

} // namespace

mha::Tensor tensor_of(const Array& array, mha::DType dtype, bool batched) {
  Array copy = array;
  if (!batched) copy.shape.erase(copy.shape.begin());
  return as_tensor(copy, dtype);
}

mha::NamedTensors parts_of(const reference::Layer& layer, const Form& form) {
  const mha::DType dtype = form.single ? mha::DType::f32 : mha::DType::f64;
  mha::NamedTensors parts;
  const auto put = [&](const char* name, const Array& array, mha::DType as) {
    if (array.empty()) return;
    mha::Tensor tensor = as_tensor(array, as);
    const mha::TensorInfo* info = mha::find_tensor_name(name);
    if (form.columns && info && info->turns && tensor.rank() >= 2) tensor = mha::transposed(tensor);
    parts[name] = {tensor, std::string("test: ") + name};
  };
  const auto put_batch = [&](const char* name, Array array) {
    if (array.empty()) return;
    if (!form.batched) array.shape.erase(array.shape.begin());
    put(name, array, dtype);
  };
  const auto put_heads = [&](const char* name, const Array& W, std::size_t heads) {
    put(name, form.per_head_weights && !W.empty() ? one_matrix_per_head(W, heads) : W, dtype);
  };

  put_batch("X", layer.X);
  if (form.one_source)
    put_batch("X_kv", layer.X_k);
  else
    put_batch("X_k", layer.X_k), put_batch("X_v", layer.X_v);
  if (form.fused_weights) {
    put("W_qkv", fused(layer, form.qkv_order, layer.W_q, layer.W_k, layer.W_v), dtype);
    if (!layer.b_q.empty())
      put("b_qkv", fused(layer, form.qkv_order, layer.b_q, layer.b_k, layer.b_v), dtype);
  } else {
    put_heads("W_q", layer.W_q, layer.H), put_heads("W_k", layer.W_k, layer.H_kv),
        put_heads("W_v", layer.W_v, layer.H_kv);
    put("b_q", layer.b_q, dtype), put("b_k", layer.b_k, dtype), put("b_v", layer.b_v, dtype);
  }
  Array W_o = layer.W_o;
  if (form.per_head_weights && !W_o.empty()) W_o.shape = {layer.H, layer.d_v, W_o.shape[1]};
  put("W_o", W_o, dtype), put("b_o", layer.b_o, dtype);
  put("norm.weight", layer.norm_weight, dtype), put("norm.bias", layer.norm_bias, dtype);
  put("q_norm.weight", layer.q_norm_weight, dtype),
      put("k_norm.weight", layer.k_norm_weight, dtype);
  put("q_norm.bias", layer.q_norm_bias, dtype), put("k_norm.bias", layer.k_norm_bias, dtype);
  put("v_norm.weight", layer.v_norm_weight, dtype);
  put("head_norm.weight", layer.head_norm_weight, dtype);
  put("W_gate", layer.W_gate, dtype), put("b_gate", layer.b_gate, dtype);
  put("W_q_a", layer.W_q_a, dtype), put("b_q_a", layer.b_q_a, dtype);
  put("q_a_norm.weight", layer.q_a_norm, dtype), put("W_kv_a", layer.W_kv_a, dtype);
  put("b_kv_a", layer.b_kv_a, dtype), put("kv_a_norm.weight", layer.kv_a_norm, dtype);
  put("W_kv_b", layer.W_kv_b, dtype);
  put("positions", layer.positions, mha::DType::i64);
  put("rope_short_factor", layer.short_factor, mha::DType::f64);
  put("rope_long_factor", layer.long_factor, mha::DType::f64);
  put_batch("k_past", layer.k_past), put_batch("v_past", layer.v_past);
  put("k_extra", layer.k_extra, dtype), put("v_extra", layer.v_extra, dtype);
  put("sinks", layer.sinks, dtype);

  const auto mask = [&](const Array& array) {
    return without_leading_ones(array, form.short_masks);
  };
  put("mask", mask(layer.mask), dtype);
  put("bias", mask(layer.bias), dtype);
  put("relative_bias", layer.relative_bias, dtype), put("relative_key", layer.relative_key, dtype);
  if (form.may_attend_mask)
    put("mask", mask(inverted(layer.blocked)), mha::DType::boolean);
  else
    put("block_mask", mask(layer.blocked), mha::DType::boolean);
  if (form.attention_mask)
    put("attention_mask", inverted(layer.padding), mha::DType::i64);
  else
    put("key_padding_mask", layer.padding, mha::DType::boolean);
  if (!layer.kv_lengths.empty()) {
    Array lengths({layer.kv_lengths.size()});
    std::transform(layer.kv_lengths.begin(), layer.kv_lengths.end(), lengths.values.begin(),
                   [](std::size_t n) { return static_cast<double>(n); });
    put("kv_lengths", lengths, mha::DType::i32);
  }
  // A stage that is given is bound, as by NAME=FILE: it replaces what would be computed.
  for (const auto& [name, array] : layer.given) {
    mha::Tensor tensor = tensor_of(array, dtype, form.batched);
    if (form.columns && mha::info_of(mha::stage_named(name)).kind != mha::Kind::row)
      tensor = mha::transposed(tensor);
    parts[name] = {tensor, "test: " + name, true};
  }
  return parts;
}

mha::Settings settings_of(const reference::Layer& layer, const Form& form) {
  mha::Settings settings;
  const auto set = [&](const char* name, const auto& value) {
    mha::set(settings, name, fmt::format("{}", value), "test");
  };
  const auto choose = [&](const char* name, auto value, std::initializer_list<const char*> words) {
    mha::set(settings, name, words.begin()[static_cast<std::size_t>(value)], "test");
  };
  set("num_heads", layer.H);
  if (layer.H_kv != layer.H) set("num_kv_heads", layer.H_kv);
  set("scale", form.scale);
  choose("input_norm", layer.input_norm, {"none", "layer", "rms"});
  set("input_norm_eps", layer.input_norm_eps);
  set("causal", layer.causal);
  choose("causal_align", layer.align, {"auto", "top_left", "bottom_right"});
  set("window_left", layer.window_left), set("window_right", layer.window_right);
  set("window_chunk", layer.window_chunk), set("temperature", layer.temperature);
  set("temperature_length", layer.temperature_length);
  set("temperature_offset", layer.temperature_offset);
  choose("gate_activation", layer.gate, {"sigmoid", "softplus", "silu"});
  set("softcap", layer.softcap);
  choose("rope", layer.rope, {"none", "half", "interleaved"});
  set("rope_base", layer.rope_base), set("rope_dims", layer.rope_dims);
  if (layer.has_rope_offset) set("rope_offset", layer.rope_offset);
  choose("rope_scaling", layer.rope_scaling,
         {"none", "linear", "llama3", "dynamic", "yarn", "longrope"});
  set("rope_factor", layer.rope_factor);
  set("rope_low_freq_factor", layer.rope_low), set("rope_high_freq_factor", layer.rope_high);
  set("rope_original_length", layer.rope_length), set("rope_first", layer.rope_first);
  set("rope_beta_fast", layer.beta_fast), set("rope_beta_slow", layer.beta_slow);
  set("rope_mscale", layer.mscale), set("rope_mscale_all_dim", layer.mscale_all_dim);
  set("rope_attention_factor", layer.attention_factor), set("rope_truncate", layer.truncate);
  set("mrope_section", fmt::format("{},{},{}", layer.mrope[0], layer.mrope[1], layer.mrope[2]));
  set("mrope_interleaved", layer.mrope_interleaved), set("clip_qkv", layer.clip);
  set("relative_key_query", layer.relative_key_query);
  choose("qk_norm", layer.qk_layer_norm, {"rms", "layer"});
  choose("alibi", layer.alibi, {"false", "true", "bloom", "falcon", "mpt"});
  set("relative_bidirectional", layer.relative_bidirectional);
  set("relative_max_distance", layer.relative_max_distance);
  set("qk_norm_eps", layer.qk_norm_eps), set("qk_norm_one_plus", layer.one_plus);
  set("norm_after_rotation", layer.norm_after_rope);
  set("residual", layer.residual), set("zero_attn", layer.zero_key);
  choose("softmax", layer.naive, {"stable", "naive"});
  choose("masked_rows", layer.masked_rows, {"zero", "nan", "uniform"});
  set("columns", form.columns);
  if (form.fused_weights) set("qkv_order", form.qkv_order);
  return settings;
}

mha::Layer library_layer(const reference::Layer& layer, const Form& form) {
  return mha::make_layer(parts_of(layer, form), settings_of(layer, form));
}
