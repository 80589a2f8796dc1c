// A block whose terms are multiplied by a factor before they are added.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/fitted_changes.hpp>
#include <mha/diagnose/hypotheses/norm_forms.hpp>
#include <mha/layer/graph.hpp>

#include <fmt/format.h>

namespace mha {

namespace {

/// The factors of the terms of a block's sums.
struct Factors {
  double stream = 1, attention = 1, feed_forward = 1;
};

Factors factors_of(Scaled which, double factor) {
  switch (which) {
  case Scaled::both:
    return {1, factor, factor};
  case Scaled::attention:
    return {1, factor, 1};
  case Scaled::feed_forward:
    return {1, 1, factor};
  case Scaled::stream:
    return {factor, 1, 1};
  default:
    return {factor, factor, factor};
  }
}

Tensor times(const Tensor& tensor, double factor) {
  if (factor == 1) return tensor;
  return each_number(tensor, [factor](double a) { return factor * a; });
}

/// s · X + a · attention(x), then s · stream + f · feed_forward(x). A parallel block has one sum; a
/// post-norm block normalises each sum.
void scale_sums(Layer& edited, const Factors& by) {
  if (!has_step(edited, Stage::residual)) {
    const Tensor sum = sum_of(times(value_of(edited, Stage::attn_add), by.attention),
                              times(value_of(edited, Stage::mlp_add), by.feed_forward));
    give(edited, Stage::resid_post, sum_of(times(edited.X, by.stream), sum));
    return;
  }
  if (by.stream != 1 || by.attention != 1)
    give(
        edited, Stage::residual,
        sum_of(times(edited.X, by.stream), times(value_of(edited, Stage::attn_add), by.attention)));
  if (by.stream == 1 && by.feed_forward == 1) return;
  const bool post = edited.block->shape == BlockShape::post;
  const Tensor stream = value_of(edited, post ? Stage::mlp_x : Stage::residual),
               sum = sum_of(times(stream, by.stream),
                            times(value_of(edited, Stage::mlp_add), by.feed_forward));
  give(edited, Stage::resid_post, post ? normed(edited.block->post_block_norm, sum) : sum);
}

constexpr const char* name_of_scaled(Scaled which) {
  switch (which) {
  case Scaled::both:
    return "the results of attention and feed-forward";
  case Scaled::attention:
    return "attention's result";
  case Scaled::feed_forward:
    return "the feed-forward's result";
  case Scaled::stream:
    return "the stream, not the results,";
  default:
    return "the sums after attention and feed-forward";
  }
}

} // namespace

Change scaled_change(const Layer& layer, Scaled which, double factor) {
  const StageSet first = has_step(layer, Stage::residual) && which != Scaled::feed_forward
                             ? StageSet{Stage::residual}
                             : StageSet{};
  Change change{"block.residual.scaled",
                which == Scaled::attention && first.any() ? first
                                                          : first | StageSet{Stage::resid_post},
                fmt::format("multiplies {} by {:.4g}{}", name_of_scaled(which), factor,
                            which == Scaled::sums ? "" : " before the sum"),
                which == Scaled::stream ? "add to the unscaled stream"
                : which == Scaled::sums ? "leave the sums unscaled"
                : which == Scaled::both ? "add them unscaled"
                                        : "add it unscaled"};
  change.edit_rows = [by = factors_of(which, factor)](Layer& edited) { scale_sums(edited, by); };
  change.fitted = change.rare = true;
  return change;
}

} // namespace mha
