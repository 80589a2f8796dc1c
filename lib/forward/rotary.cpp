#include <mha/forward/rotary.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

namespace {

/// Llama 3.1's scaling: low frequencies divided by the factor, high ones kept, a ramp between.
double llama3_scaled(double frequency, const Settings& s) {
  const double wavelength = 2 * M_PI / frequency;
  const double low = s.rope_original_length / s.rope_low_freq_factor;
  const double high = s.rope_original_length / s.rope_high_freq_factor;
  if (wavelength < high) return frequency;
  if (wavelength > low) return frequency / s.rope_factor;
  const double smooth = (s.rope_original_length / wavelength - s.rope_low_freq_factor) /
                        (s.rope_high_freq_factor - s.rope_low_freq_factor);
  return (1 - smooth) * frequency / s.rope_factor + smooth * frequency;
}

} // namespace

template <class T>
RotaryTable<T> rotary_table(const Layer& layer, std::size_t rows, std::int64_t first) {
  const Settings& s = layer.settings;
  const std::size_t dims = s.rope_dims == 0 ? layer.dims.d_k : s.rope_dims;
  RotaryTable<T> table;
  table.pairs = dims / 2;
  table.cosines.resize(rows * table.pairs);
  table.sines.resize(rows * table.pairs);
  for (std::size_t i = 0; i < table.pairs; ++i) {
    double frequency =
        std::pow(s.rope_base, -2.0 * static_cast<double>(i) / static_cast<double>(dims));
    if (s.rope_scaling == RopeScaling::linear) frequency /= s.rope_factor;
    if (s.rope_scaling == RopeScaling::llama3) frequency = llama3_scaled(frequency, s);
    for (std::size_t t = 0; t < rows; ++t) {
      const double position = layer.positions.empty()
                                  ? static_cast<double>(first + static_cast<std::int64_t>(t))
                                  : layer.positions.as<double>()[t];
      table.cosines[t * table.pairs + i] = static_cast<T>(std::cos(position * frequency));
      table.sines[t * table.pairs + i] = static_cast<T>(std::sin(position * frequency));
    }
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

template <class T> void Rotary<T>::prepare(std::size_t, std::size_t) {
  const Dims& dims = layer_.dims;
  if (table_.cosines.empty())
    table_ =
        rotary_table<T>(layer_, std::max(dims.T, dims.S),
                        layer_.settings.rope_offset.value_or(static_cast<std::int64_t>(dims.past)));
}

template <class T> void Rotary<T>::apply(const TokenRows<T>& rows, Stage from, Stage to) const {
  const std::size_t d_k = layer_.dims.d_k, pairs = table_.pairs;
  const Matrix<const T> x = rows[from];
  const Matrix<T> y = rows[to];
  for (std::size_t i = 0; i < x.rows; ++i)
    for (std::size_t h = rows.heads().first; h < rows.heads().last; ++h)
      rotate(x.row(i) + h * d_k, table_.cosines.data() + (rows.first() + i) * pairs,
             table_.sines.data() + (rows.first() + i) * pairs, d_k, 2 * pairs,
             layer_.settings.rope == Rope::interleaved, y.row(i) + h * d_k);
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
