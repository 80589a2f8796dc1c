#pragma once
// Members of a layer, each once and by its name: fingerprints, checks and
// tests that go through all of them take them from here. A member that is added to one of these
// structures and not here does not compile: the names are bound to all members there are.
// A layer's tensors are the rows of its table (names.hpp), which has as many as LayerTensors.

#include <mha/layer/layer.hpp>
#include <mha/layer/names.hpp>

#include <concepts>
#include <span>
#include <type_traits>

namespace mha {

/// T or const T.
template <class L, class T>
concept Is = std::same_as<std::remove_const_t<L>, T>;

/// use("W_q", layer.W_q), use("dims", layer.dims) … for everything that decides the layer's
/// numbers: tensors, by their rows in the table, lists, sizes, settings and the block around
/// attention; no labels. `L` is Layer or const Layer.
template <Is<Layer> L, class Use> void each_part_of_layer(L& layer, Use&& use) {
  for (const TensorInfo& info : layer_tensors()) use(info.name, info.of(layer));
  using Facts = std::conditional_t<std::is_const_v<L>, const LayerFacts, LayerFacts>;
  auto& [dtype, dims, settings, added, blocked, bias, relative_buckets, kv_lengths, lengths,
         first_item, rollout_before, misses_rollout, kv_heads, given, given_set, patches, block,
         ends, kept, tokens, key_tokens, item_tokens, item_key_tokens, results, missing_X] =
      static_cast<Facts&>(layer);
  // Words for people, and where the result goes, decide no number.
  (void)tokens, (void)key_tokens, (void)item_tokens, (void)item_key_tokens;
  (void)kept, (void)results, (void)missing_X, (void)first_item, (void)misses_rollout;
  use("dtype", dtype), use("dims", dims), use("settings", settings);
  use("added", added), use("blocked", blocked), use("bias", bias);
  use("relative_buckets", relative_buckets);
  use("kv_lengths", kv_lengths), use("lengths", lengths), use("kv_heads", kv_heads);
  const auto given_steps = std::span(given).first(step_count); // derived stages never are
  use("given", given_steps), use("given_set", given_set), use("patches", patches);
  use("block", block), use("ends", ends);
  if (!rollout_before.empty()) use("rollout_before", rollout_before);
}

/// use(member) for each of a part's members that decide a number.
template <Is<Dims> L, class Use> void each_member(L& dims, Use&& use) {
  auto& [B, batched, T, S, past, extra, zero, S_all, H, H_kv, d_model, d_k, d_v, d_gate, d_out, r_q,
         r_kv, d_pe, d_ff, vocabulary, d_layer, E, n, I, I_shared] = dims;
  use(B), use(batched), use(T), use(S), use(past), use(extra), use(zero), use(S_all);
  use(H), use(H_kv), use(d_model), use(d_k), use(d_v), use(d_gate), use(d_out);
  use(r_q), use(r_kv), use(d_pe), use(d_ff), use(vocabulary);
  use(E), use(n), use(I), use(I_shared);
  if (d_layer > 0) use(d_layer);
}

template <Is<Broadcast> L, class Use> void each_member(L& mask, Use&& use) {
  auto& [tensor, strides, first_key, keys, origin, name] = mask;
  (void)origin, (void)name; // for messages
  use(tensor), use(strides), use(first_key), use(keys);
}

template <Is<ResolvedEdit> L, class Use> void each_member(L& patch, Use&& use) {
  auto& [stage, op, heads, tokens, columns, value, strides, text, is_read] = patch;
  (void)heads, (void)tokens, (void)columns, (void)is_read; // the text names the places
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
  auto& [in, up, out, activation, product_bias, inner, clamp] = mlp;
  use(in), use(up), use(out), use(activation), use(product_bias), use(inner), use(clamp);
}

template <Is<Clamp> L, class Use> void each_member(L& clamp, Use&& use) {
  auto& [limit, after_activation] = clamp;
  use(limit), use(after_activation);
}

template <Is<Routing> L, class Use> void each_member(L& routing, Use&& use) {
  auto& [chosen, score, softcap, bias, groups, kept_groups, group_score, masked_are_zero, weight,
         factor, factors, weighs_input] = routing;
  use(chosen), use(score), use(bias), use(groups), use(kept_groups), use(group_score);
  use(softcap), use(masked_are_zero), use(weight), use(factor), use(weighs_input);
  if (!factors.empty()) use(factors);
}

template <Is<Mixture> L, class Use> void each_member(L& mixture, Use&& use) {
  auto& [router, routing, in, up, out, form, shared, shared_gate, router_norm, experts_norm,
         norm_of_sum, norm_of_shared] = mixture;
  use(router), use(routing), use(in), use(up), use(out), use(form);
  use(shared), use(shared_gate);
  for (auto* norm : {&router_norm, &experts_norm, &norm_of_sum, &norm_of_shared})
    if (norm->present()) use(*norm);
}

template <Is<ExpertForm> L, class Use> void each_member(L& form, Use&& use) {
  auto& [activation, clamp, up_plus_one] = form;
  use(activation), use(clamp), use(up_plus_one);
}

template <Is<Supplement> L, class Use> void each_member(L& part, Use&& use) {
  auto& [in, out, activation, norm] = part;
  use(in), use(out), use(activation), use(norm);
}

template <Is<TransformerBlock> L, class Use> void each_member(L& block, Use&& use) {
  auto& [shape, post_attention_norm, pre_mlp_norm, post_mlp_norm, post_block_norm, mlp, mixture,
         supplement, stream_scale] = block;
  use(shape), use(post_attention_norm), use(pre_mlp_norm);
  use(post_mlp_norm), use(post_block_norm), use(mlp), use(mixture);
  use(stream_scale);
  if (supplement.present()) use(supplement);
}

template <Is<ModelHead> L, class Use> void each_member(L& head, Use&& use) {
  auto& [dense, activation, norm, decoder, scale, softcap] = head;
  use(dense), use(activation), use(norm), use(decoder), use(scale), use(softcap);
}

template <Is<Embedding> L, class Use> void each_member(L& embedding, Use&& use) {
  auto& [tokens, positions, types, first_position, pad, scale, mask_token, norm, projection,
         projection_place] = embedding;
  use(tokens), use(positions), use(types), use(first_position), use(pad), use(scale),
      use(mask_token);
  use(norm), use(projection), use(projection_place);
}

template <Is<ModelEnds> L, class Use> void each_member(L& ends, Use&& use) {
  auto& [embed, stream, final, head] = ends;
  use(embed), use(stream), use(final), use(head);
}

} // namespace mha
