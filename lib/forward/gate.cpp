#include <mha/forward/gate.hpp>

#include <mha/kernels/activations.hpp>

namespace mha {

template <class T> T activated(GateActivation activation, T x) {
  switch (activation) {
  case GateActivation::sigmoid:
    return sigmoid(x);
  case GateActivation::softplus:
    return softplus(x);
  case GateActivation::silu:
    return x * sigmoid(x);
  }
  return x;
}

template <class T> void Gate<T>::apply(const TokenRows<T>& rows, Stage from, Stage to) const {
  const std::size_t d_v = layer_.dims.d_v, d_gate = layer_.dims.d_gate;
  const Matrix<T> z = rows[from], gate = rows[Stage::gate], y = rows[to];
  for (std::size_t t = 0; t < y.rows; ++t)
    for (std::size_t h = rows.heads().first; h < rows.heads().last; ++h)
      for (std::size_t i = h * d_v; i < (h + 1) * d_v; ++i) {
        const T g = gate.row(t)[d_gate == 1 ? h : i];
        y.row(t)[i] = z.row(t)[i] * activated(layer_.settings.gate_activation, g);
      }
}

template float activated(GateActivation, float);
template double activated(GateActivation, double);
template class Gate<float>;
template class Gate<double>;

} // namespace mha
