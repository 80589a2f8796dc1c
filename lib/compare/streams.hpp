#pragma once
// The residual stream of a reference: each layer can be computed from its own input there, and so
// gets a verdict of its own.

#include <mha/compare/diff.hpp>

namespace mha {

/// The layer with another stream before it; for the model's ends, the stream after the last layer.
/// `stream` has the shape of resid_pre and any floating type.
Layer with_stream(const Layer& layer, const Tensor& stream);

/// The reference's stream from layer to layer, in their order.
class ReferenceStream {
public:
  /// The input of the layer that a reference was read for: its resid_pre, else the output of the
  /// layer before. Nothing if the reference has neither.
  std::optional<Tensor> before(const Reference& reference) const;
  /// The output of the layer before, if the reference has it.
  const std::optional<Tensor>& output_before() const { return output_before_; }
  /// Goes on to the next layer. If a layer's result and residual are apart (vLLM), its output is
  /// their sum.
  void pass(const Layer& layer, const Reference& reference);

private:
  std::optional<Tensor> output_before_;
};

/// Decides whether a layer after one that differs is wrong by itself: fills `sound`, `by_itself`
/// and `own` of the stages. Uses the reference's stream, or without one the stages that can be
/// computed from the reference's own earlier ones.
void judge_alone(const Layer& layer, const Reference& reference,
                 const std::optional<Tensor>& stream, const Tolerances& tolerances,
                 std::size_t threads, Diff& found);

} // namespace mha
