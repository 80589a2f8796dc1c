#pragma once
// A mixture of experts: scores, the choice of experts, their weights, and the sum of their results.

#include <mha/schedule/linear.hpp>

namespace mha {

/// router_scores of router, capped where the routing caps it: softmax over the experts, σ, √log(1 +
/// eˣ), or the logits themselves.
template <class T> class RouterScores : public RowOperator<T> {
public:
  explicit RouterScores(const Routing& routing)
      : score_(routing.score),
        softcap_(static_cast<T>(routing.softcap)) {}
  Needs needs() const override { return Needs::row; }
  void apply(const TokenRows<T>& rows, Stage from, Stage to) const override;

private:
  RouterScore score_;
  T softcap_; ///< 0: none
};

/// experts of router_scores: the n with the largest score + bias, of the best groups where experts
/// are in groups; the one with the largest score, times its factor, comes first, of equal ones the
/// one that the router lists first.
template <class T> class ChosenExperts : public RowOperator<T> {
public:
  explicit ChosenExperts(const Routing& routing) : routing_(routing) {}
  Needs needs() const override { return Needs::row; }
  void prepare(const Usage&) override {
    bias_ = convert(routing_.bias, dtype_of<T>), factors_ = convert(routing_.factors, dtype_of<T>);
  }
  void release() override { bias_ = {}, factors_ = {}; }
  void apply(const TokenRows<T>& rows, Stage from, Stage to) const override;

private:
  const Routing& routing_;
  Tensor bias_, factors_; ///< in T
};

/// expert_weights of experts, from their router_scores, each times its expert's factor. Throws
/// Error where experts are patched to other numbers than theirs.
template <class T> class ExpertWeights : public RowOperator<T> {
public:
  explicit ExpertWeights(const Routing& routing) : routing_(routing) {}
  Needs needs() const override { return Needs::row; }
  void prepare(const Usage&) override { factors_ = convert(routing_.factors, dtype_of<T>); }
  void release() override { factors_ = {}; }
  void apply(const TokenRows<T>& rows, Stage from, Stage to) const override;

private:
  const Routing& routing_;
  Tensor factors_; ///< in T
};

/// shared_gate = σ(x W).
template <class T> class SharedGate : public Linear<T> {
public:
  using Linear<T>::Linear;

private:
  void finish(Matrix<T> y) const override;
};

/// Of expert_out, the sum over the chosen of weight · result, in their order.
template <class T> class ExpertSum : public RowOperator<T> {
public:
  explicit ExpertSum(const Mixture& mixture) : mixture_(mixture) {}
  Needs needs() const override { return Needs::row; }
  void apply(const TokenRows<T>& rows, Stage from, Stage to) const override;

private:
  const Mixture& mixture_;
};

/// mlp_out: the chosen experts' sum, where a norm follows it from there, then the shared experts'
/// result times its gate.
template <class T> class MixtureSum : public RowOperator<T> {
public:
  explicit MixtureSum(const Mixture& mixture) : mixture_(mixture), chosen_(mixture) {}
  Needs needs() const override { return Needs::row; }
  void apply(const TokenRows<T>& rows, Stage from, Stage to) const override;

private:
  const Mixture& mixture_;
  ExpertSum<T> chosen_;
};

} // namespace mha
