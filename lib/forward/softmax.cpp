#include <mha/forward/attention.hpp>

#include <mha/forward/mask.hpp>
#include <mha/kernels/rows.hpp>
#include <mha/maths/functions.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mha {

namespace {

/// The larger one; NaN if either is.
template <class T> T larger(T max, T sink) {
  return std::isnan(sink) || sink > max ? sink : max;
}

/// What a key of a row without any allowed key weighs.
template <class T> T weight_of_masked(MaskedRows policy, std::size_t keys) {
  return policy == MaskedRows::zero  ? T(0)
         : policy == MaskedRows::nan ? std::numeric_limits<T>::quiet_NaN()
                                     : T(1) / static_cast<T>(keys);
}

} // namespace

template <class T> void softmax(const Layer& layer, const PositionBias<T>& bias, Row<T>& row) {
  using enum Stage;
  using K = Keys<T>;
  constexpr T infinity = std::numeric_limits<T>::infinity();
  const RowPlace at = row.place();
  const T sink = layer.sinks.empty() ? -infinity : layer.sinks.template as<T>()[at.head];
  const bool naive = layer.settings.softmax == Softmax::naive;
  const auto max_of = [&](K keys) {
    return larger(mha::row_max(keys.begin(), keys.size()) * row.factor(), sink);
  };

  row.step(scores, [](K) {});               // q kᵀ, a product of the band's
  row.scale(static_cast<T>(layer.scale() * layer.temperature_of(at.query))); // scores · scale
  row.step(capped, [&](K keys) {            // softcap · tanh(scaled / softcap)
    row_softcap(keys.begin(), keys.size(), static_cast<T>(layer.settings.softcap));
  });
  row.step(biased, [&](K keys) { bias.add(at, keys, row); });               // + position bias
  row.step(masked, -infinity, [&](K keys) { add_masks(layer, at, keys); }); // −∞ where hidden

  const T max = row.value(row_max, max_of);
  // A masked row stays at −∞: its exponentials are zeros. Scores that all overflow to −∞ make none:
  // IEEE's NaN marks them.
  const T shift = naive || (max == -infinity && masks_every_key<T>(layer, at)) ? T(0) : max;
  const T exp_sum = row.exp_sum(shift); // Σ exp(masked − shift)
  const T sum = row.value(row_sum, [&](K) {
    return layer.sinks.empty() ? exp_sum : exp_sum + maths::exp(sink - shift);
  });
  row.value(logsumexp, [&](K) { return (naive ? T(0) : max) + maths::log(sum); });

  const bool masked_row = sum == 0 && masks_every_key<T>(layer, at);
  row.step(weights, std::isnan(sum) ? sum : T(0), [&](K keys) { // exp / row_sum
    if (masked_row)
      std::ranges::fill(keys, weight_of_masked<T>(layer.settings.masked_rows, row.all_keys()));
    else
      row_divide(keys.begin(), keys.size(), sum);
  });
}

template void softmax(const Layer&, const PositionBias<float>&, Row<float>&);
template void softmax(const Layer&, const PositionBias<double>&, Row<double>&);

} // namespace mha
