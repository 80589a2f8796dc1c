#pragma once
// What a layer is made of, member by member, each once and by its name: fingerprints, checks and
// tests that go through all of them take them from here. A member that is added to one of these
// structures and not here does not compile: the names are bound to all members there are.

#include <mha/layer/layer.hpp>

#include <concepts>
#include <type_traits>

namespace mha {

/// use("X", layer.X), use("W_q", layer.W_q) … for everything that decides the layer's numbers:
/// tensors, lists, sizes, settings and what stands around attention; no labels. `L` is Layer or
/// const Layer; likewise below.
template <class L, class Use> void each_part_of_layer(L& layer, Use&& use) {
  auto& [dtype, dims, settings, X, X_k, X_v, W_q, W_k, W_v, W_o, b_q, b_k, b_v, b_o, norm_weight,
         norm_bias, q_norm_weight, k_norm_weight, q_norm_bias, k_norm_bias, positions,
         rope_short_factor, rope_long_factor, W_c_q, W_c_kv, W_k_pe, b_c_q, b_c_kv, b_k_pe,
         c_q_norm_weight, c_kv_norm_weight, k_past, v_past, k_extra, v_extra, sinks, added, blocked,
         bias, relative_bias, relative_key, relative_buckets, kv_lengths, lengths, kv_heads, given,
         given_set, patches, block, ends, kept, pass, tokens, key_tokens, item_tokens,
         item_key_tokens, missing_X] = layer;
  // Words for people, and where the result goes, decide no number.
  (void)pass, (void)tokens, (void)key_tokens, (void)item_tokens, (void)item_key_tokens;
  (void)kept, (void)missing_X;
  use("dtype", dtype), use("dims", dims), use("settings", settings);
  use("X", X), use("X_k", X_k), use("X_v", X_v);
  use("W_q", W_q), use("W_k", W_k), use("W_v", W_v), use("W_o", W_o);
  use("b_q", b_q), use("b_k", b_k), use("b_v", b_v), use("b_o", b_o);
  use("norm.weight", norm_weight), use("norm.bias", norm_bias);
  use("q_norm.weight", q_norm_weight), use("k_norm.weight", k_norm_weight);
  use("q_norm.bias", q_norm_bias), use("k_norm.bias", k_norm_bias);
  use("positions", positions);
  use("rope_short_factor", rope_short_factor), use("rope_long_factor", rope_long_factor);
  use("W_c_q", W_c_q), use("W_c_kv", W_c_kv), use("W_k_pe", W_k_pe);
  use("b_c_q", b_c_q), use("b_c_kv", b_c_kv), use("b_k_pe", b_k_pe);
  use("c_q_norm.weight", c_q_norm_weight), use("c_kv_norm.weight", c_kv_norm_weight);
  use("k_past", k_past), use("v_past", v_past), use("k_extra", k_extra), use("v_extra", v_extra);
  use("sinks", sinks);
  use("added", added), use("blocked", blocked), use("bias", bias);
  use("relative_bias", relative_bias), use("relative_key", relative_key);
  use("relative_buckets", relative_buckets);
  use("kv_lengths", kv_lengths), use("lengths", lengths), use("kv_heads", kv_heads);
  use("given", given), use("given_set", given_set), use("patches", patches);
  use("block", block), use("ends", ends);
}

/// T or const T.
template <class L, class T>
concept Is = std::same_as<std::remove_const_t<L>, T>;

/// use(member) for each of a part's members that decide a number.
template <Is<Dims> L, class Use> void each_member(L& dims, Use&& use) {
  auto& [B, batched, T, S, past, extra, zero, S_all, H, H_kv, d_model, d_k, d_v, d_out, r_q, r_kv,
         d_pe, d_ff, vocabulary] = dims;
  use(B), use(batched), use(T), use(S), use(past), use(extra), use(zero), use(S_all);
  use(H), use(H_kv), use(d_model), use(d_k), use(d_v), use(d_out);
  use(r_q), use(r_kv), use(d_pe), use(d_ff), use(vocabulary);
}

template <Is<Broadcast> L, class Use> void each_member(L& mask, Use&& use) {
  auto& [tensor, strides, first_key, keys, origin, name] = mask;
  (void)origin, (void)name; // for messages
  use(tensor), use(strides), use(first_key), use(keys);
}

template <Is<StagePatch> L, class Use> void each_member(L& patch, Use&& use) {
  auto& [stage, op, heads, columns, tokens, value, strides, text, is_read] = patch;
  (void)heads, (void)columns, (void)tokens, (void)is_read; // the text says which places
  use(stage), use(op), use(value), use(strides), use(text);
}

template <Is<Patches> L, class Use> void each_member(L& patches, Use&& use) {
  auto& [list, stages] = patches;
  use(list), use(stages);
}

template <Is<LinearMap> L, class Use> void each_member(L& linear, Use&& use) {
  auto& [W, b] = linear;
  use(W), use(b);
}

template <Is<Norm> L, class Use> void each_member(L& norm, Use&& use) {
  auto& [kind, eps, weight, bias, one_plus] = norm;
  use(kind), use(eps), use(weight), use(bias), use(one_plus);
}

template <Is<FeedForward> L, class Use> void each_member(L& mlp, Use&& use) {
  auto& [in, up, out, activation, product_bias, inner] = mlp;
  use(in), use(up), use(out), use(activation), use(product_bias), use(inner);
}

template <Is<TransformerBlock> L, class Use> void each_member(L& block, Use&& use) {
  auto& [shape, post_attention_norm, pre_mlp_norm, post_mlp_norm, post_block_norm, mlp] = block;
  use(shape), use(post_attention_norm), use(pre_mlp_norm);
  use(post_mlp_norm), use(post_block_norm), use(mlp);
}

template <Is<ModelHead> L, class Use> void each_member(L& head, Use&& use) {
  auto& [dense, activation, norm, decoder, scale, softcap] = head;
  use(dense), use(activation), use(norm), use(decoder), use(scale), use(softcap);
}

template <Is<Embedding> L, class Use> void each_member(L& embedding, Use&& use) {
  auto& [tokens, positions, types, first_position, pad, scale, norm, projection, projection_place] =
      embedding;
  use(tokens), use(positions), use(types), use(first_position), use(pad), use(scale), use(norm);
  use(projection), use(projection_place);
}

template <Is<ModelEnds> L, class Use> void each_member(L& ends, Use&& use) {
  auto& [embed, stream, final, head] = ends;
  use(embed), use(stream), use(final), use(head);
}

} // namespace mha
