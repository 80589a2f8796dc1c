// Heads split and joined by a plain reshape or column by column, attention between the heads of a
// token, wrong key/value heads.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>
#include <mha/layer/other_inputs.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mha {

namespace {

/// A change that gives split heads must not be made twice, or it would split them twice.
void seldom_and_once(Change& change) {
  change.rare = change.once = true;
}

/// The memory of (T, H · d) read as (H, T, d).
Tensor split_by_reshape(const Tensor& x, std::size_t heads) {
  const Shape& s = x.shape(); // B, T, H · d
  return permuted(x.reshaped({s[0], heads, s[1], s[2] / heads}), {0, 2, 1, 3}).reshaped(s);
}

/// Column h · d + i becomes column i · H + h.
Tensor interleaved(const Tensor& x, std::size_t heads) {
  const std::size_t d = x.shape().back() / heads;
  return columns_from(x, [=](std::size_t column) { return column % d * heads + column / d; });
}
/// The inverse of `interleaved`.
Tensor uninterleaved(const Tensor& x, std::size_t heads) {
  const std::size_t d = x.shape().back() / heads;
  return columns_from(x, [=](std::size_t column) { return column % heads * d + column / heads; });
}

std::size_t heads_of(const Layer& layer, Stage stage) {
  return stage == Stage::q ? layer.dims.H : layer.dims.H_kv;
}

template <class Split>
void resplit(Layer& layer, std::initializer_list<Stage> stages, Split split) {
  for (Stage stage : stages)
    give(layer, stage, split(value_of(layer, stage), heads_of(layer, stage)));
}

/// Lets the heads of each token attend to each other: the softmax over g of q_h · k_g, with scores
/// (T, H, H).
Tensor between_heads(const Layer& layer, const Tensor& q, const Tensor& k, const Tensor& v) {
  const Dims& dims = layer.dims;
  const std::size_t H = dims.H, d_k = dims.d_k, d_v = dims.d_v,
                    tokens = q.shape()[0] * q.shape()[1];
  const double scale = layer.scale();
  Tensor out = Tensor::uninitialised(v.dtype(), {q.shape()[0], q.shape()[1], H * d_v});
  by_precision(v.dtype(), [&]<class N>(N) {
    std::vector<double> weights(H), sums(d_v);
    for (std::size_t t = 0; t < tokens; ++t)
      for (std::size_t h = 0; h < H; ++h) {
        double max = -std::numeric_limits<double>::infinity(), sum = 0;
        for (std::size_t g = 0; g < H; ++g) {
          const std::size_t key = kv_head_of(layer, g);
          double score = 0;
          for (std::size_t i = 0; i < d_k; ++i)
            score += static_cast<double>(q.as<N>()[(t * H + h) * d_k + i]) *
                     static_cast<double>(k.as<N>()[(t * dims.H_kv + key) * d_k + i]);
          weights[g] = score * scale, max = std::max(max, weights[g]);
        }
        for (double& w : weights) w = std::exp(w - max), sum += w;
        std::fill(sums.begin(), sums.end(), 0.0);
        for (std::size_t g = 0; g < H; ++g)
          for (std::size_t i = 0; i < d_v; ++i)
            sums[i] +=
                weights[g] / sum *
                static_cast<double>(v.as<N>()[(t * dims.H_kv + kv_head_of(layer, g)) * d_v + i]);
        for (std::size_t i = 0; i < d_v; ++i)
          out.as_mutable<N>()[(t * H + h) * d_v + i] = static_cast<N>(sums[i]);
      }
  });
  return out;
}

void add_splits(const Dims& dims, ChangeList& list) {
  const StageSet all = StageSet{Stage::q, Stage::k, Stage::v};
  const std::string cure = "reshape (T, H · d) to (T, H, d) first, then transpose to (H, T, d)";
  const auto split = [](Layer& edited) {
    resplit(edited, {Stage::q, Stage::k, Stage::v}, split_by_reshape);
  };
  const auto merge = [](Layer& edited) {
    give(edited, Stage::concat, unmerged(value_of(edited, Stage::head_out), edited.dims.H));
  };
  list.add("heads.reshape", all,
           "splits q, k and v into heads by a plain reshape: (T, H · d) is read as (H, T, d)", cure,
           split)
      .once = true; // it changes three stages, and another change may touch one of them
  seldom_and_once(list.add(
      "heads.reshape", all | StageSet{Stage::concat},
      "splits and joins the heads by plain reshapes: (T, H · d) is read as (H, T, d), and back",
      cure, [=](Layer& edited) { split(edited), merge(edited); }));
  for (const auto& [letter, stage] :
       {std::pair('q', Stage::q), std::pair('k', Stage::k), std::pair('v', Stage::v)})
    list.add(fmt::format("heads.reshape.{}", letter), StageSet{stage},
             fmt::format("splits {} into heads by a plain reshape: (T, H · d) is read as (H, T, d)",
                         letter),
             cure, [stage = stage](Layer& edited) { resplit(edited, {stage}, split_by_reshape); })
        .rare = true;
  if (dims.d_k < 2) return;
  const auto interleave = [](Layer& edited) {
    resplit(edited, {Stage::q, Stage::k, Stage::v}, interleaved);
  };
  seldom_and_once(
      list.add("heads.interleaved", all,
               "splits q, k and v into heads column by column: head h has the columns h, h + H, …",
               "split the columns as (heads, width), not as (width, heads)", interleave));
  seldom_and_once(list.add("heads.interleaved", all | StageSet{Stage::concat},
                           "splits q, k and v into heads column by column, and joins them so",
                           "split and join the columns as (heads, width), not as (width, heads)",
                           [=](Layer& edited) {
                             interleave(edited);
                             give(edited, Stage::concat,
                                  uninterleaved(value_of(edited, Stage::head_out), edited.dims.H));
                           }));
  list.add("heads.interleaved.out", StageSet{Stage::concat},
           "joins the heads column by column: column i · H + h holds dimension i of head h",
           "join the heads side by side: head h has the columns from h · d_v",
           [](Layer& edited) {
             give(edited, Stage::concat,
                  uninterleaved(value_of(edited, Stage::head_out), edited.dims.H));
           })
      .rare = true;
}

std::vector<Change> reshape_changes(const Subject& subject) {
  const Layer& layer = subject.layer;
  const Dims& dims = layer.dims;
  ChangeList list;
  if (dims.H > 1 && dims.T > 1 && dims.d_k > 0 && dims.d_v > 0) add_splits(dims, list);
  if (dims.H > 1 && dims.T == dims.S_all && dims.d_k > 0 && dims.d_v > 0)
    list.add("heads.between", StageSet{Stage::scores, Stage::weights, Stage::head_out},
             "lets the heads of each token attend to each other: scores of shape (T, H, H)",
             "bring the heads before the tokens, (H, T, d), before q kᵀ",
             [](Layer& edited) {
               const Tensor q = value_of(edited, in_turn(edited, Stage::q_rope)),
                            k = value_of(edited, in_turn(edited, Stage::k_rope)),
                            v = value_of(edited, Stage::v_norm);
               give(edited, Stage::head_out, between_heads(edited, q, k, v));
             })
        .rare = true;
  if (dims.H_kv > 1)
    list.add("gqa.first", StageSet{Stage::scores, Stage::head_out},
             "lets every query head read the first key/value head",
             dims.H_kv == dims.H ? "let each query head read its own key/value head"
                                 : "let query head h read key/value head ⌊h · H_kv / H⌋",
             [](Layer& edited) { edited.kv_heads.assign(edited.dims.H, 0); })
        .rare = true;
  return list.take();
}

} // namespace

const Theme reshape_theme{"reshape",
                          "heads.reshape heads.reshape.q heads.reshape.k heads.reshape.v "
                          "heads.interleaved heads.interleaved.out heads.between gqa.first "
                          "gqa.map",
                          reshape_changes};

} // namespace mha
