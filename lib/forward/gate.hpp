#pragma once
// The gate of the heads' results, before W_o.

#include <mha/layer/layer.hpp>
#include <mha/schedule/tokens.hpp>

namespace mha {

/// σ(x), log(1 + eˣ) or x σ(x).
template <class T> T activated(GateActivation activation, T x);

/// gated = z · act(gate): of each element its own number of the gate, or of a head its one. Qiu et
/// al. 2025, "Gated attention for large language models", eq. 5.
template <class T> class Gate : public RowOperator<T> {
public:
  explicit Gate(const Layer& layer) : layer_(layer) {}
  void apply(const TokenRows<T>& rows, Stage from, Stage to) const override;

private:
  const Layer& layer_;
};

} // namespace mha
