#include "support/planted.hpp"

#include "support/planted_edits.hpp"
#include "support/reference_positions.hpp"
#include <mha/layer/stage.hpp>
#include <mha/naming/stage_names.hpp>

#include <algorithm>
#include <cmath>

namespace planted {

using reference::Array;
using reference::infinity;
using reference::Layer;
using reference::real;

namespace {

std::size_t place_of(const std::string& stage) {
  return mha::index_of(mha::stage_named(stage));
}

} // namespace

Stages Implementation::run() const {
  Layer made = layer;
  std::vector<Step> ordered = steps;
  std::stable_sort(ordered.begin(), ordered.end(), [](const Step& a, const Step& b) {
    return place_of(a.stage) < place_of(b.stage);
  });
  for (const Step& step : ordered)
    made.given[step.stage] = step.value(*this, reference::compute(made));
  Stages stages = reference::compute(made);
  for (const auto& show : shown) show(*this, stages);
  return stages;
}

Implementation Implementation::until(const std::string& stage) const {
  Implementation before{layer, {}, {}};
  for (const Step& step : steps)
    if (place_of(step.stage) < place_of(stage)) before.steps.push_back(step);
  return before;
}

// --- layers that the mistakes are about

bool always(Layer&, Random&) {
  return true;
}

namespace {

bool with_rope(Layer& layer, Random&) {
  if (layer.rope == reference::Rope::none) layer.rope = reference::Rope::half;
  return true;
}

bool with_norm(Layer& layer, Random& random) {
  if (layer.q_norm_weight.empty()) {
    layer.q_norm_weight = numbers(random, {layer.d_k}, 0.4, 1.6);
    layer.k_norm_weight = numbers(random, {layer.d_k}, 0.4, 1.6);
  }
  return true;
}

bool with_norm_and_rope(Layer& layer, Random& random) {
  return with_norm(layer, random) && with_rope(layer, random);
}

bool with_softcap(Layer& layer, Random&) {
  layer.softcap = 1.5;
  return true;
}

bool causal(Layer& layer, Random&) {
  layer.causal = true;
  return true;
}

/// Where the corners of the scores are different ones.
bool with_more_keys(Layer& layer, Random& random) {
  if (layer.S_all() == layer.T()) {
    layer.k_past = numbers(random, {layer.B(), layer.H_kv, 3, layer.d_k}, -1.5, 1.5);
    layer.v_past = numbers(random, {layer.B(), layer.H_kv, 3, layer.d_v}, -1.5, 1.5);
  }
  layer.causal = true;
  return true;
}

bool aligned_bottom_right(Layer& layer, Random& random) {
  layer.align = reference::Align::bottom_right;
  return with_more_keys(layer, random);
}

bool aligned_top_left(Layer& layer, Random& random) {
  layer.align = reference::Align::top_left;
  return with_more_keys(layer, random);
}

bool with_mask(Layer& layer, Random& random) {
  if (!layer.blocked.empty()) return true;
  layer.blocked = Array({1, 1, layer.T(), layer.S()});
  for (double& value : layer.blocked.values) value = random.chance(0.3) ? 1 : 0;
  for (std::size_t t = 0; t < layer.T(); ++t)
    layer.blocked(std::size_t{0}, std::size_t{0}, t, std::size_t{0}) = 0;
  return true;
}

bool with_window(Layer& layer, Random&) {
  layer.causal = true;
  layer.window_left = 2;
  return true;
}

bool with_padding(Layer& layer, Random&) {
  layer.padding = Array({layer.B(), layer.S()});
  for (std::size_t b = 0; b < layer.B(); ++b)
    for (std::size_t j = layer.S() - 2 - b; j < layer.S(); ++j) layer.padding(b, j) = 1;
  return true;
}

bool one_matrix(Layer& layer, Random&) {
  return layer.X_k.empty() && layer.d_k == layer.d_v;
}
bool one_matrix_of_heads(Layer& layer, Random&) {
  return layer.X_k.empty() && layer.d_k == layer.d_v && layer.H == layer.H_kv;
}
bool one_matrix_of_groups(Layer& layer, Random&) {
  return layer.X_k.empty() && layer.d_k == layer.d_v && layer.H != layer.H_kv;
}

} // namespace

const std::vector<Mistake>& mistakes() {
  using I = Implementation;
  const auto square_out = [](Layer& l, Random&) { return l.W_o.shape[0] == l.W_o.shape[1]; };
  const auto same_kv = [](Layer& l, Random&) { return l.W_k.shape == l.W_v.shape; };
  const auto same_qk = [](Layer& l, Random&) { return l.W_q.shape == l.W_k.shape; };
  const auto to_model = [](Layer& l, Random&) { return l.W_o.shape[1] == l.X.shape[2]; };
  static const std::vector<Mistake> list{
      {"weight.transposed.q", "q", always, [](I& o) { read_turned(o.layer.W_q); }},
      {"weight.transposed.k", "k", always, [](I& o) { read_turned(o.layer.W_k); }},
      {"weight.transposed.v", "v", always, [](I& o) { read_turned(o.layer.W_v); }},
      {"weight.transposed.o", "head_result", always, [](I& o) { read_turned(o.layer.W_o); }},
      {"weight.order.QVK", "k", one_matrix, [](I& o) { take_apart(o.layer, "QVK"); }},
      {"weight.order.KQV", "q", one_matrix, [](I& o) { take_apart(o.layer, "KQV"); }},
      {"weight.order.KVQ", "q", one_matrix, [](I& o) { take_apart(o.layer, "KVQ"); }},
      {"weight.order.VQK", "q", one_matrix, [](I& o) { take_apart(o.layer, "VQK"); }},
      {"weight.order.VKQ", "q", one_matrix, [](I& o) { take_apart(o.layer, "VKQ"); }},
      {"weight.order.per_head", "q", one_matrix_of_heads,
       [](I& o) { take_apart(o.layer, "groups"); }},
      {"weight.order.per_group", "q", one_matrix_of_groups,
       [](I& o) { take_apart(o.layer, "groups"); }},
      {"swap.kv", "k", same_kv,
       [](I& o) { std::swap(o.layer.W_k, o.layer.W_v), std::swap(o.layer.b_k, o.layer.b_v); }},
      {"swap.qk", "q", same_qk,
       [](I& o) { std::swap(o.layer.W_q, o.layer.W_k), std::swap(o.layer.b_q, o.layer.b_k); }},
      {"heads.interleaved.q", "q", always,
       [](I& o) { interleave(o.layer.W_q, o.layer.b_q, o.layer.H); }},
      {"heads.interleaved.k", "k", always,
       [](I& o) { interleave(o.layer.W_k, o.layer.b_k, o.layer.H_kv); }},
      {"heads.interleaved.v", "v", always,
       [](I& o) { interleave(o.layer.W_v, o.layer.b_v, o.layer.H_kv); }},
      {"heads.unmerged", "concat", always,
       [](I& o) {
         o.steps.push_back({"concat", unmerged});
       }},
      {"gqa.tiled", "scores", [](Layer& l, Random&) { return l.H_kv > 1 && l.H_kv < l.H; }, tile},
      {"bias.missing.q", "q", always, [](I& o) { o.layer.b_q = {}; }},
      {"bias.missing.k", "k", always, [](I& o) { o.layer.b_k = {}; }},
      {"bias.missing.v", "v", always, [](I& o) { o.layer.b_v = {}; }},
      {"bias.missing.o", "output", always, [](I& o) { o.layer.b_o = {}; }},
      {"scale.missing", "scaled", always, [](I& o) { o.layer.scale = 1; }},
      {"scale.twice", "scaled", always, [](I& o) { o.layer.scale *= o.layer.scale; }},
      {"scale.d_model", "scaled", always,
       [](I& o) { o.layer.scale = 1 / std::sqrt(real(o.layer.X.shape[2])); }},
      {"scale.d_k", "scaled", always, [](I& o) { o.layer.scale = 1 / real(o.layer.d_k); }},
      {"scale.constant", "scaled", always, [](I& o) { o.layer.scale = 0.2718; }},
      {"rope.missing", "scores", with_rope, [](I& o) { o.layer.rope = reference::Rope::none; }},
      {"rope.style", "q_rope", with_rope,
       [](I& o) { o.layer.rope = reference::Rope::interleaved; }},
      {"rope.base", "q_rope", with_rope, [](I& o) { o.layer.rope_base = 1000; }},
      {"rope.dims", "q_rope", with_rope, [](I& o) { o.layer.rope_dims = 2; }},
      {"rope.offset", "q_rope", with_rope,
       [](I& o) {
         o.layer.has_rope_offset = true;
         o.layer.rope_offset = static_cast<std::int64_t>(o.layer.P()) + 1;
       }},
      {"norm.missing", "scores", with_norm,
       [](I& o) { o.layer.q_norm_weight = {}, o.layer.k_norm_weight = {}; }},
      {"norm.after_rope", "q_norm", with_norm_and_rope, normalise_after_rope},
      {"norm.one_plus", "q_norm", with_norm, [](I& o) { o.layer.one_plus = true; }},
      {"norm.full", "q_norm", with_norm,
       [](I& o) {
         o.layer.q_norm_weight = repeated(o.layer.q_norm_weight, o.layer.H);
         o.layer.k_norm_weight = repeated(o.layer.k_norm_weight, o.layer.H_kv);
       }},
      {"softcap.missing", "masked", with_softcap, [](I& o) { o.layer.softcap = 0; }},
      {"norm.after_rope", "q_norm", with_norm_and_rope, normalise_after_rope_by_place},
      {"softcap.before_scale", "scaled", with_softcap, cap_before_scale},
      {"softcap.after_mask", "capped",
       [](Layer& l, Random& r) { return with_softcap(l, r) && with_mask(l, r); }, cap_after_mask},
      {"alibi.missing", "masked",
       [](Layer& l, Random&) { return l.alibi = reference::Alibi::paper, true; },
       [](I& o) { o.layer.alibi = reference::Alibi::none; }},
      {"alibi.form", "biased",
       [](Layer& l, Random&) { return l.alibi = reference::Alibi::paper, true; },
       [](I& o) { o.layer.alibi = reference::Alibi::falcon; }},
      {"mask.missing", "masked", with_mask,
       [](I& o) { o.layer.mask = {}, o.layer.blocked = {}, o.layer.padding = {}; }},
      {"mask.inverted", "masked", with_mask,
       [](I& o) {
         for (double& value : o.layer.blocked.values) value = value == 0 ? 1 : 0;
       }},
      {"causal.missing", "masked", causal, [](I& o) { o.layer.causal = false; }},
      {"causal.top_left", "masked", aligned_bottom_right,
       [](I& o) { o.layer.align = reference::Align::top_left; }},
      {"causal.bottom_right", "masked", aligned_top_left,
       [](I& o) { o.layer.align = reference::Align::bottom_right; }},
      {"causal.strict", "masked", causal,
       [](I& o) { block(o.layer, [](double query, double key) { return key >= query; }); }},
      {"causal.plus_one", "masked", causal,
       [](I& o) {
         o.layer.causal = false;
         block(o.layer, [](double query, double key) { return key > query + 1; });
       }},
      {"window.plus_one", "masked", with_window, [](I& o) { ++o.layer.window_left; }},
      {"window.minus_one", "masked", with_window, [](I& o) { --o.layer.window_left; }},
      {"padding.side", "masked", with_padding,
       [](I& o) {
         const Array from = o.layer.padding;
         const std::size_t S = from.shape[1];
         for (std::size_t b = 0; b < from.shape[0]; ++b)
           for (std::size_t j = 0; j < S; ++j) o.layer.padding(b, j) = from(b, S - 1 - j);
       }},
      {"softmax.axis", "weights", always,
       [](I& o) {
         o.steps.push_back({"weights", softmax_over_queries});
         o.shown.push_back(drop_rows);
       }},
      {"sinks.missing", "row_max",
       [](Layer& l, Random& r) { return l.sinks = numbers(r, {l.H}, 0, 2), true; },
       [](I& o) { o.layer.sinks = {}; }},
      {"dropout.on", "weights", always,
       [](I& o) {
         o.steps.push_back({"weights", with_dropout});
       }},
      {"weights.averaged", "weights", always,
       [](I& o) {
         o.steps.push_back({"weights", mean_over_heads});
       }},
      {"output.missing", "head_result", square_out,
       [](I& o) { o.layer.W_o = {}, o.layer.b_o = {}; }},
      {"output.transposed", "head_result", square_out, [](I& o) { read_turned(o.layer.W_o); }},
      {"residual.missing", "residual",
       [](Layer& l, Random&) { return l.residual = l.W_o.shape[1] == l.X.shape[2]; },
       [](I& o) {
         o.shown.push_back([](const Implementation&, Stages& s) { s["residual"] = s["output"]; });
       }},
      {"residual.added", "output", to_model,
       [](I& o) {
         const Array X = o.layer.X;
         o.shown.push_back([X](const Implementation&, Stages& s) {
           for (std::size_t i = 0; i < X.values.size(); ++i) s["output"].values[i] += X.values[i];
         });
       }},
      {"layout.columns", "x", always,
       [](I& o) { read_columns(o.layer.X), read_columns(o.layer.X_k), read_columns(o.layer.X_v); }},
      {"precision.f16", "", always, [](I& o) { round_all(o, true); }},
      {"precision.bf16", "", always, [](I& o) { round_all(o, false); }},
      {"norm.before_rope", "q_rope",
       [](Layer& l, Random& r) {
         l.norm_after_rope = true;
         return with_norm_and_rope(l, r);
       },
       [](I& o) { o.layer.norm_after_rope = false; }},
  };
  return list;
}

} // namespace planted
