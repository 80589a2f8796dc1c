#include <mha/forward/rotary.hpp>

#include <mha/forward/rotary_kinds.hpp>
#include <mha/maths/functions.hpp>

#include <algorithm>

namespace mha {

template <class T>
RotaryTable<T> rotary_table(const Layer& layer, std::size_t rows, std::int64_t first) {
  const RotaryFrequencies theta = rotary_frequencies(layer, rows, first);
  const std::size_t pairs = theta.frequencies.size();
  RotaryTable<T> table;
  table.pairs = pairs;
  table.cosines.resize(rows * pairs);
  table.sines.resize(rows * pairs);
  for (std::size_t i = 0; i < pairs; ++i)
    for (std::size_t t = 0; t < rows; ++t) {
      const double angle = rotary_position(layer, first, t, i) * theta.frequencies[i];
      const auto [sine, cosine] = maths::sin_cos(angle);
      table.cosines[t * pairs + i] = static_cast<T>(cosine * theta.attention_factor);
      table.sines[t * pairs + i] = static_cast<T>(sine * theta.attention_factor);
    }
  return table;
}

template <class T> void rotate(const T* x, const T* cosines, const T* sines, std::size_t n,
                               std::size_t dims, bool interleaved, T* out) {
  const std::size_t pairs = dims / 2;
  for (std::size_t i = 0; i < pairs; ++i) {
    const std::size_t first = interleaved ? 2 * i : i, second = interleaved ? 2 * i + 1 : i + pairs;
    const T a = x[first], b = x[second];
    out[first] = a * cosines[i] - b * sines[i];
    out[second] = b * cosines[i] + a * sines[i];
  }
  std::copy(x + 2 * pairs, x + n, out + 2 * pairs);
}

template <class T> void Rotary<T>::prepare(const Usage&) {
  if (!tables_.empty()) return;
  const Dims& dims = layer_.dims;
  const std::int64_t first = layer_.first_position();
  if (layer_.lengths.empty() || !turns_by_length(layer_.settings))
    tables_.push_back(rotary_table<T>(layer_, std::max(dims.T, dims.S), first));
  else
    for (const std::size_t length : layer_.lengths)
      tables_.push_back(rotary_table<T>(layer_, length, first));
}

template <class T> void Rotary<T>::apply(const TokenRows<T>& rows, Stage from, Stage to) const {
  const RotaryTable<T>& table = tables_[tables_.size() == 1 ? 0 : rows.batch()];
  const std::size_t d_k = layer_.dims.d_k, pairs = table.pairs;
  const std::size_t before = layer_.settings.rope_first; // they pass through
  const Matrix<const T> x = rows[from];
  const Matrix<T> y = rows[to];
  for (std::size_t i = 0; i < x.rows; ++i)
    for (std::size_t h = rows.heads().first; h < rows.heads().last; ++h) {
      const T* head = x.row(i) + h * d_k;
      T* turned = std::copy_n(head, before, y.row(i) + h * d_k);
      rotate(head + before, table.cosines.data() + (rows.first() + i) * pairs,
             table.sines.data() + (rows.first() + i) * pairs, d_k - before, 2 * pairs,
             layer_.settings.rope == Rope::interleaved, turned);
    }
}

template RotaryTable<float> rotary_table(const Layer&, std::size_t, std::int64_t);
template RotaryTable<double> rotary_table(const Layer&, std::size_t, std::int64_t);
template void rotate(const float*, const float*, const float*, std::size_t, std::size_t, bool,
                     float*);
template void rotate(const double*, const double*, const double*, std::size_t, std::size_t, bool,
                     double*);

template class Rotary<float>;
template class Rotary<double>;

} // namespace mha
