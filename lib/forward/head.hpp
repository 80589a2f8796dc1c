#pragma once
// From the last layer's stream to logits.

#include <mha/kernels/rows.hpp>
#include <mha/schedule/linear.hpp>

namespace mha {

/// logits = x W_U + b_U, scaled and capped where the model does so.
template <class T> class Unembedding : public Linear<T> {
public:
  Unembedding(const Routines& routines, const Layer& layer, const ModelHead& head)
      : Linear<T>(routines, layer, head.decoder), head_(head) {}

private:
  void finish(Matrix<T> z) const override {
    for (std::size_t t = 0; t < z.rows; ++t) {
      if (head_.scale != 1) row_scale(z.row(t), z.cols, static_cast<T>(head_.scale));
      if (head_.softcap != 0) row_softcap(z.row(t), z.cols, static_cast<T>(head_.softcap));
    }
  }

  const ModelHead& head_;
};

} // namespace mha
