#pragma once
// The supplement to the stream that a layer makes of the tokens' embedding for it.

#include <mha/forward/norm.hpp>
#include <mha/schedule/linear.hpp>

namespace mha {

/// to = norm((act(h W_in) · layer_embed) W_out), h = residual + from.
template <class T> class SupplementOf : public RowOperator<T> {
public:
  SupplementOf(const Layer& layer, const Supplement& part)
      : layer_(layer), part_(part), norm_(part.norm) {}
  Needs needs() const override { return Needs::row; }
  void prepare(const Usage& usage) override;
  void release() override { in_ = {}, out_ = {}, norm_.release(); }
  void apply(const TokenRows<T>& rows, Stage from, Stage to) const override;

private:
  const Layer& layer_;
  const Supplement& part_;
  WeightInUse<T> in_, out_;
  NormOf<T> norm_;
};

} // namespace mha
