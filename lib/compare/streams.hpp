#pragma once
// The residual stream of a reference: each of its layers can be computed from what enters it there,
// and so gets a verdict of its own.

#include <mha/compare/diff.hpp>

namespace mha {

/// The layer computed from another stream before it; the model's ends from another one behind the
/// last layer. `stream` as users see it: of the shape of resid_pre, any floating type.
Layer with_stream(const Layer& layer, const Tensor& stream);

/// The reference's stream from layer to layer, in their order.
class ReferenceStream {
public:
  /// What enters a layer that a reference was read for: its resid_pre, else what the layer before
  /// it handed on. Nothing where the reference has neither.
  std::optional<Tensor> before(const Reference& reference) const;
  /// What the layer before handed on, if the reference has it.
  const std::optional<Tensor>& handed_on() const { return handed_on_; }
  /// Goes on to the next layer. A layer that hands on its result apart from the residual (vLLM)
  /// hands on their sum.
  void pass(const Layer& layer, const Reference& reference);

private:
  std::optional<Tensor> handed_on_;
};

/// Decides for a layer behind one that differs whether it is wrong by itself: fills `sound`,
/// `by_itself` and `own` of the stages. From the reference's stream, or, where there is none, of
/// the stages that the reference's own earlier ones tell about.
void judge_alone(const Layer& layer, const Reference& reference,
                 const std::optional<Tensor>& stream, const Tolerances& tolerances,
                 std::size_t threads, Diff& found);

} // namespace mha
