#include "support/random_layer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

using reference::Array;

double Random::uniform(double low, double high) {
  return low + (high - low) * std::ldexp(static_cast<double>(bits_() >> 11), -53);
}

std::size_t Random::count(std::size_t low, std::size_t high) {
  return low + bits_() % (high - low + 1);
}

namespace {

// clang-format off
constexpr std::array<const char*, variant_count> names{
  "cross", "separate_sources", "one_token", "one_key",
  "gqa", "mqa",
  "no_biases", "identity_output", "identity_queries", "per_head_weights", "fused_weights",
  "columns",
  "float_mask", "infinite_mask", "short_mask", "may_attend_mask", "block_mask", "padding",
  "attention_mask", "kv_lengths",
  "bias", "relative_bias", "relative_one_way", "alibi_paper", "alibi_bloom", "alibi_falcon", "alibi_mpt", "softcap",
  "causal", "causal_top_left", "causal_bottom_right", "window_left", "window_right",
  "past", "extra_key", "zero_key", "sinks",
  "qk_norm", "qk_norm_whole", "qk_norm_one_plus",
  "rope_half", "rope_interleaved", "rope_partial", "rope_offset", "positions", "rope_linear",
  "rope_llama3",
  "layer_norm", "rms_norm", "scale_number", "scale_d_model", "scale_none",
  "masked_nan", "masked_uniform", "naive", "residual",
  "rope_dynamic", "rope_yarn", "rope_longrope", "rope_mrope", "rope_late", "qk_layer_norm",
  "qk_norm_each", "clip", "relative_key", "relative_key_query", "latent", "latent_queries",
  "v_norm", "head_norm", "head_norm_whole", "gate_elements", "gate_heads", "temperature", "chunks",
  "norm_after_rope",
};
// clang-format on

class Maker {
public:
  Maker(std::uint64_t seed, std::span<const Variant> variants, bool single, const Limits& limits)
      : random_(seed), limits_(limits), variants_(variants.begin(), variants.end()) {
    form.single = single;
  }

  RandomLayer make() {
    draw_sizes();
    make_weights();
    make_keys();
    make_masks();
    make_positions();
    make_settings();
    for (Variant variant : variants_)
      text += std::string(text.empty() ? "" : " ") + name_of(variant);
    const auto say = [&](const char* name, std::size_t n) {
      text += std::string(" ") + name + std::to_string(n);
    };
    say("B", B), say("T", T), say("S", S), say("P", P), say("H", layer.H), say("H_kv", layer.H_kv);
    say("d_k", layer.d_k), say("d_v", layer.d_v), say("d_model", d_model), say("d_out", d_out);
    return {std::move(layer), std::move(form), std::move(text)};
  }

private:
  bool has(Variant variant) const { return variants_.count(variant) != 0; }
  template <class... V> bool has_any(V... variant) const { return (has(variant) || ...); }

  Array numbers(reference::Shape shape, double low, double high) {
    Array array(std::move(shape));
    for (double& value : array.values) {
      value = random_.uniform(low, high);
      if (form.single) value = static_cast<float>(value);
    }
    return array;
  }
  Array weight(std::size_t in, std::size_t out) {
    const double size = 2 / std::sqrt(static_cast<double>(in));
    return numbers({in, out}, -size, size);
  }

  void draw_sizes() {
    using enum Variant;
    rotates_ =
        has_any(rope_half, rope_interleaved, rope_partial, rope_offset, positions, rope_linear,
                rope_llama3, rope_dynamic, rope_yarn, rope_longrope, rope_mrope, rope_late,
                norm_after_rope);
    latent_ = has_any(latent, latent_queries);
    cross_ = has_any(cross, separate_sources, one_key) ||
             (random_.chance(0.4) && !has_any(positions, fused_weights, rope_mrope));
    cross_ = cross_ && !latent_;
    form.batched = random_.chance(0.6);
    B = form.batched ? random_.count(1, 3) : 1;
    for (int attempt = 0; attempt < 50; ++attempt) {
      draw_dimensions();
      const std::set<std::size_t> distinct{T, S, layer.H, layer.d_k, layer.d_v, d_model};
      if (distinct.size() == (cross_ ? 6u : 5u)) return;
    }
  }

  void draw_dimensions() {
    using enum Variant;
    T = has(one_token) ? 1 : random_.count(1, limits_.tokens);
    S = has(one_key) ? 1 : cross_ ? random_.count(1, limits_.tokens) : T;
    layer.H = layer.H_kv = random_.count(1, limits_.heads);
    if (has(gqa)) layer.H_kv = random_.count(1, 3), layer.H = layer.H_kv * random_.count(2, 3);
    if (has(mqa)) layer.H_kv = 1;
    if (latent_) layer.H_kv = layer.H;
    layer.d_k = rotates_ ? 2 * random_.count(has_any(rope_partial, rope_late) || latent_ ? 2 : 1,
                                             std::max<std::size_t>(2, limits_.width / 2))
                         : random_.count(1, limits_.width);
    if (!rotates_ && latent_) ++layer.d_k; // a shared part and one of its own
    layer.d_v = has(fused_weights) ? layer.d_k : random_.count(1, limits_.width);
    d_model = random_.count(3, limits_.d_model);
    if (has(identity_queries)) d_model = layer.H * layer.d_k;
    if (has(identity_output) && has(residual)) {
      if (has(identity_queries)) layer.d_v = layer.d_k;
      d_model = layer.H * layer.d_v;
    }
    d_out = has(identity_output) ? layer.H * layer.d_v
            : has(residual)      ? d_model
                                 : random_.count(2, limits_.d_model);
  }

  void make_weights() {
    using enum Variant;
    const std::size_t H = layer.H, H_kv = layer.H_kv, d_k = layer.d_k, d_v = layer.d_v;
    layer.X = numbers({B, T, d_model}, -1.7, 1.7);
    std::size_t in_k = d_model, in_v = d_model;
    if (cross_) {
      in_k = random_.count(2, limits_.d_model);
      in_v = has(separate_sources) ? random_.count(2, limits_.d_model) : in_k;
      layer.X_k = numbers({B, S, in_k}, -1.7, 1.7);
      layer.X_v = has(separate_sources) ? numbers({B, S, in_v}, -1.7, 1.7) : layer.X_k;
      form.one_source = !has(separate_sources);
    }
    form.fused_weights = has(fused_weights) && !cross_ && layer.d_k == layer.d_v &&
                         !has(identity_queries) && !latent_;
    if (form.fused_weights) {
      const std::array<const char*, 7> orders{"qkv", "qvk", "kqv",      "kvq",
                                              "vqk", "vkq", "per_group"};
      form.qkv_order = orders[random_.count(0, orders.size() - 1)];
    }
    form.per_head_weights = has(per_head_weights);
    form.columns = has(columns);
    if (!has(identity_queries) || latent_) layer.W_q = weight(d_model, H * d_k);
    layer.W_k = weight(in_k, H_kv * d_k);
    layer.W_v = weight(in_v, H_kv * d_v);
    if (latent_) make_latent();
    if (!has(identity_output)) layer.W_o = weight(H * d_v, d_out);
    // Some layers have all biases, some a few (Whisper has none on k).
    const auto biased = [&] { return !has(no_biases) && random_.chance(0.7); };
    const bool all = form.fused_weights && biased();
    const auto vector = [&](std::size_t n) {
      return all || (!form.fused_weights && biased()) ? numbers({n}, -1, 1) : Array();
    };
    layer.b_q = vector(H * d_k), layer.b_k = vector(H_kv * d_k), layer.b_v = vector(H_kv * d_v);
    if (latent_) layer.b_k = layer.b_v = Array();
    if (biased()) layer.b_o = numbers({d_out}, -1, 1);
  }

  /// Compressed keys and values with a shared part of the key, and perhaps queries; every width
  /// another number.
  void make_latent() {
    using enum Variant;
    const std::size_t H = layer.H, d_k = layer.d_k;
    layer.d_pe = rotates_ ? 2 * random_.count(1, d_k / 2 - 1) : random_.count(1, d_k - 1);
    const std::size_t r = random_.count(2, limits_.d_model + 3);
    layer.W_k = layer.W_v = Array();
    layer.W_kv_a = weight(d_model, r + layer.d_pe);
    layer.kv_a_norm = numbers({r}, 0.5, 1.5);
    layer.W_kv_b = weight(r, H * (d_k - layer.d_pe + layer.d_v));
    if (random_.chance(0.4)) layer.b_kv_a = numbers({r + layer.d_pe}, -1, 1);
    if (!has(latent_queries)) return;
    const std::size_t r_q = random_.count(2, limits_.d_model + 5);
    layer.W_q_a = weight(d_model, r_q);
    layer.W_q = weight(r_q, H * d_k);
    layer.q_a_norm = numbers({r_q}, 0.5, 1.5);
    if (random_.chance(0.4)) layer.b_q_a = numbers({r_q}, -1, 1);
  }

  void make_keys() {
    using enum Variant;
    const std::size_t H_kv = layer.H_kv, d_k = layer.d_k, d_v = layer.d_v;
    if (has(past)) {
      P = random_.count(1, limits_.tokens / 2 + 1);
      layer.k_past = numbers({B, H_kv, P, d_k}, -1.5, 1.5);
      layer.v_past = numbers({B, H_kv, P, d_v}, -1.5, 1.5);
    }
    if (has(extra_key)) {
      layer.k_extra = numbers({H_kv * d_k}, -1.5, 1.5);
      layer.v_extra = numbers({H_kv * d_v}, -1.5, 1.5);
    }
    layer.zero_key = has(zero_key);
    if (has(sinks)) layer.sinks = numbers({layer.H}, -2, 2);
  }

  /// Any axis may be 1; the keys are past and current ones, or all.
  reference::Shape mask_shape() {
    const auto axis = [&](std::size_t n) { return random_.chance(0.4) ? 1 : n; };
    const std::size_t keys = random_.chance(0.5) ? P + S : layer.S_all();
    return {axis(B), axis(layer.H), axis(T), random_.chance(0.15) ? 1 : keys};
  }

  void make_masks() {
    using enum Variant;
    constexpr double minus_infinity = -std::numeric_limits<double>::infinity();
    form.short_masks = random_.chance(0.5);
    if (has_any(float_mask, infinite_mask, short_mask)) {
      reference::Shape shape = mask_shape();
      if (has(short_mask) && P + S > 2) shape[3] = random_.count(2, P + S - 1);
      layer.mask = numbers(std::move(shape), -2, 2);
      for (double& value : layer.mask.values)
        if (has(infinite_mask) && random_.chance(0.4)) value = minus_infinity;
    }
    // `mask` holds either numbers or booleans.
    if (has(block_mask) || (has(may_attend_mask) && layer.mask.empty())) {
      form.may_attend_mask = has(may_attend_mask) && layer.mask.empty();
      layer.blocked = Array(mask_shape());
      const std::size_t keys = layer.blocked.shape[3];
      for (std::size_t row = 0; row < layer.blocked.values.size() / keys; ++row) {
        const double share = random_.chance(0.2) ? 1 : random_.uniform(0, 0.7);
        for (std::size_t j = 0; j < keys; ++j)
          layer.blocked.values[row * keys + j] = random_.chance(share) ? 1 : 0;
      }
    }
    if (has_any(padding, attention_mask)) {
      form.attention_mask = has(attention_mask);
      const std::size_t keys = random_.chance(0.5) ? S : layer.S_all();
      layer.padding = Array({B, keys});
      for (double& value : layer.padding.values) value = random_.chance(0.3) ? 1 : 0;
    }
    if (has(kv_lengths))
      for (std::size_t b = 0; b < B; ++b)
        layer.kv_lengths.push_back(random_.count(random_.chance(0.1) ? 0 : 1, P + S));
    if (has(bias)) layer.bias = numbers(mask_shape(), -2, 2);
  }

  void make_positions() {
    using enum Variant;
    if (has_any(relative_bias, relative_one_way)) { // few buckets, so that distances share them
      layer.relative_bidirectional = !has(relative_one_way);
      const std::size_t buckets = random_.count(2, 6) * (layer.relative_bidirectional ? 2 : 1);
      layer.relative_bias = numbers({buckets, layer.H}, -2, 2);
      layer.relative_max_distance = random_.count(4, 12);
    }
    if (has_any(relative_key, relative_key_query)) {
      const std::size_t longest = std::max(T, P + S) + random_.count(0, 3);
      layer.relative_key = numbers({2 * longest - 1, layer.d_k}, -1, 1);
      layer.relative_key_query = has(relative_key_query);
    }
    if (has(alibi_paper)) layer.alibi = reference::Alibi::paper;
    if (has(alibi_bloom)) layer.alibi = reference::Alibi::bloom;
    if (has(alibi_falcon)) layer.alibi = reference::Alibi::falcon;
    if (has(alibi_mpt)) layer.alibi = reference::Alibi::mpt;
    layer.causal = has_any(causal, causal_top_left, causal_bottom_right);
    if (has(causal_top_left)) layer.align = reference::Align::top_left;
    if (has(causal_bottom_right)) layer.align = reference::Align::bottom_right;
    const auto window = [&] {
      return static_cast<std::int64_t>(random_.count(0, limits_.tokens / 2));
    };
    if (has(window_left)) layer.window_left = window();
    if (has(window_right)) layer.window_right = window();

    if (!rotates_) return;
    const bool pairs = has(rope_interleaved) || (!has(rope_half) && random_.chance(0.5));
    layer.rope = pairs ? reference::Rope::interleaved : reference::Rope::half;
    layer.rope_base = random_.chance(0.5) ? 10000 : 100;
    if (has(rope_partial)) layer.rope_dims = 2 * random_.count(1, layer.d_k / 2 - 1);
    if (has(rope_offset)) {
      layer.has_rope_offset = true;
      layer.rope_offset = static_cast<std::int64_t>(random_.count(0, 40)) - 10;
    }
    if (has(positions) && !cross_) {
      layer.positions = Array({T});
      for (double& value : layer.positions.values)
        value = static_cast<double>(random_.count(0, 60));
    }
    if (has(rope_linear)) layer.rope_scaling = reference::Scaling::linear, layer.rope_factor = 4;
    if (has(rope_llama3)) { // short, so that some pairs are scaled and some are not
      layer.rope_scaling = reference::Scaling::llama3, layer.rope_factor = 8;
      layer.rope_length = 100, layer.rope_base = 100;
    }
    make_newer_rotary();
  }

  void make_newer_rotary() {
    using enum Variant;
    if (has(rope_late)) {
      layer.rope_first = random_.count(1, layer.d_k - 2);
      layer.rope_dims = 2 * random_.count(1, (layer.d_k - layer.rope_first) / 2);
    }
    if (latent_) layer.rope_first = layer.d_k - layer.d_pe, layer.rope_dims = layer.d_pe;
    const std::size_t dims = layer.rope_dims == 0 ? layer.d_k : layer.rope_dims, pairs = dims / 2;
    if (has(rope_dynamic) && dims > 2) { // short, so that some sequences are longer
      layer.rope_scaling = reference::Scaling::dynamic, layer.rope_factor = 3;
      layer.rope_length = static_cast<double>(random_.count(2, 7));
    }
    if (has(rope_yarn)) { // pairs on both sides of the ramp and on it
      layer.rope_scaling = reference::Scaling::yarn, layer.rope_factor = 5;
      layer.rope_length = 500, layer.rope_base = 100;
      layer.beta_fast = random_.chance(0.5) ? 32 : 20, layer.beta_slow = 2;
      layer.truncate = random_.chance(0.5);
      if (random_.chance(0.5)) layer.mscale = 0.7, layer.mscale_all_dim = 1.1;
    }
    if (has(rope_longrope)) {
      layer.rope_scaling = reference::Scaling::longrope, layer.rope_factor = 6;
      layer.rope_length = static_cast<double>(random_.count(2, 7));
      layer.short_factor = numbers({pairs}, 1, 1.5), layer.long_factor = numbers({pairs}, 2, 9);
    }
    if (layer.rope_scaling != reference::Scaling::none && random_.chance(0.2))
      layer.attention_factor = 1.25;
    if (has(rope_mrope) && !cross_) {
      layer.positions = Array({3, T});
      for (double& value : layer.positions.values)
        value = static_cast<double>(random_.count(0, 60));
      layer.mrope_interleaved = random_.chance(0.5);
      layer.mrope[1] = random_.count(0, pairs),
      layer.mrope[2] = random_.count(0, pairs - layer.mrope[1]);
      if (layer.mrope_interleaved) layer.mrope[1] /= 3, layer.mrope[2] /= 3;
      layer.mrope[0] = pairs - layer.mrope[1] - layer.mrope[2];
    }
  }

  void make_settings() {
    using enum Variant;
    if (has_any(qk_norm, qk_norm_whole, qk_norm_one_plus, qk_layer_norm, qk_norm_each,
                norm_after_rope)) {
      const auto shape = [&](std::size_t heads) {
        return has(qk_norm_each)    ? reference::Shape{heads, layer.d_k}
               : has(qk_norm_whole) ? reference::Shape{heads * layer.d_k}
                                    : reference::Shape{layer.d_k};
      };
      layer.qk_layer_norm = has(qk_layer_norm);
      layer.one_plus = has(qk_norm_one_plus) && !layer.qk_layer_norm;
      const double low = layer.one_plus ? -0.5 : 0.5;
      layer.q_norm_weight = numbers(shape(layer.H), low, low + 1);
      layer.k_norm_weight = numbers(shape(layer.H_kv), low, low + 1);
      if (layer.qk_layer_norm && random_.chance(0.6)) {
        layer.q_norm_bias = numbers(shape(layer.H), -1, 1);
        layer.k_norm_bias = numbers(shape(layer.H_kv), -1, 1);
      }
      layer.qk_norm_eps = 1e-3;
      layer.norm_after_rope = has(norm_after_rope);
      if (layer.norm_after_rope && random_.chance(0.2)) // of queries alone
        layer.k_norm_weight = layer.k_norm_bias = {};
    }
    if (has(clip)) layer.clip = 0.75;
    if (has_any(layer_norm, rms_norm)) {
      layer.input_norm = has(rms_norm) ? reference::Norm::rms : reference::Norm::layer;
      layer.input_norm_eps = 1e-3;
      if (random_.chance(0.7)) layer.norm_weight = numbers({d_model}, 0.5, 1.5);
      if (random_.chance(0.5) && !has(rms_norm)) layer.norm_bias = numbers({d_model}, -1, 1);
    }
    layer.scale = 1 / std::sqrt(static_cast<double>(layer.d_k));
    if (has(scale_number)) form.scale = "0.625", layer.scale = 0.625;
    if (has(scale_d_model))
      form.scale = "d_model", layer.scale = 1 / std::sqrt(static_cast<double>(d_model));
    if (has(scale_none)) form.scale = "none", layer.scale = 1;
    if (has(softcap)) layer.softcap = 1.5;
    layer.naive = has(naive);
    if (has(masked_nan)) layer.masked_rows = reference::MaskedRows::nan;
    if (has(masked_uniform)) layer.masked_rows = reference::MaskedRows::uniform;
    layer.residual = has(residual);
    make_results();
  }

  /// What is done to values, to heads' results, and to scores and masks by position.
  void make_results() {
    using enum Variant;
    const std::size_t H = layer.H, d_v = layer.d_v;
    if (has(v_norm)) layer.v_norm_weight = numbers({d_v}, 0.5, 1.5);
    if (has_any(head_norm, head_norm_whole))
      layer.head_norm_weight = numbers({has(head_norm_whole) ? H * d_v : d_v}, 0.5, 1.5);
    if (has_any(v_norm, head_norm, head_norm_whole)) layer.qk_norm_eps = 1e-3;
    if (has_any(gate_elements, gate_heads)) {
      const std::size_t columns = has(gate_heads) ? H : H * d_v;
      layer.W_gate = weight(d_model, columns);
      if (random_.chance(0.5)) layer.b_gate = numbers({columns}, -1, 1);
      layer.gate = static_cast<reference::Gate>(random_.count(0, 2));
    }
    if (has(temperature)) {
      layer.temperature = 0.5, layer.temperature_length = static_cast<double>(random_.count(1, 3));
      layer.temperature_offset = random_.count(0, 2);
    }
    if (has(chunks)) layer.window_chunk = random_.count(1, limits_.tokens / 2 + 1);
  }

  Random random_;
  Limits limits_;
  std::set<Variant> variants_;
  reference::Layer layer;
  Form form;
  std::string text;
  std::size_t B = 1, T = 1, S = 1, P = 0, d_model = 1, d_out = 1;
  bool rotates_ = false, cross_ = false, latent_ = false;
};

} // namespace

const char* name_of(Variant variant) {
  return names[static_cast<std::size_t>(variant)];
}

RandomLayer random_layer(std::uint64_t seed, std::span<const Variant> variants, bool single,
                         const Limits& limits) {
  return Maker(seed, variants, single, limits).make();
}

std::vector<Variant> random_variants(std::uint64_t seed, std::size_t least, std::size_t most) {
  Random random(seed);
  std::set<Variant> variants;
  const std::size_t n = random.count(least, most);
  while (variants.size() < n)
    variants.insert(static_cast<Variant>(random.count(0, variant_count - 1)));
  return {variants.begin(), variants.end()};
}
