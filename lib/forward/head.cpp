#include <mha/forward/head.hpp>

#include <mha/forward/feed_forward.hpp>
#include <mha/forward/norm.hpp>
#include <mha/kernels/rows.hpp>

namespace mha {

namespace {

/// h = norm(act(x W + b)), in place of x.
template <class T>
Matrix<const T> transformed(const ModelHead& head, Matrix<const T> x, Stream<T>& run) {
  if (!head.dense.present()) return x;
  const Matrix<T> h = run.scratch_product(x, head.dense), activated = run.scratch_like(h);
  const Norm norm = in_precision(head.norm, run.dtype());
  run.tiles(h.rows, [&](std::size_t first, std::size_t count) {
    activate<T>(head.activation, h.rows_from(first, count), activated.rows_from(first, count));
    norm_rows<T>(norm, activated.rows_from(first, count), activated.rows_from(first, count));
  });
  return activated;
}

} // namespace

template <class T> void end_model(const ModelEnds& ends, Stream<T>& run) {
  using enum Stage;
  const Norm norm = in_precision(ends.final, run.dtype());
  run.show(embed);
  run.rows(final, [&](const auto& r) { norm_rows<T>(norm, r[resid_post], r.to); });
  if (!run.computes(logits)) return;
  const ModelHead& head = ends.head;
  run.product_of(logits, transformed<T>(head, run[final], run), head.decoder, [&](Matrix<T> rows) {
    for (std::size_t t = 0; t < rows.rows; ++t) {
      if (head.scale != 1) row_scale(rows.row(t), rows.cols, static_cast<T>(head.scale));
      if (head.softcap != 0) row_softcap(rows.row(t), rows.cols, static_cast<T>(head.softcap));
    }
  });
}

template void end_model(const ModelEnds&, Stream<float>&);
template void end_model(const ModelEnds&, Stream<double>&);

} // namespace mha
