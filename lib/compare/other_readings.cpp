#include <mha/compare/other_readings.hpp>

#include <mha/compare/reference.hpp>
#include <mha/naming/infer_axes.hpp>
#include <mha/tensor/not_saved.hpp>
#include <mha/tensor/parts.hpp>
#include <mha/tensor/precision.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <tuple>

namespace mha {

namespace {

/// The axis of a stage's heads; nothing if they are side by side, or there are none.
std::optional<std::size_t> axis_of_heads(const Layer& layer, Stage stage) {
  const Axis first = axis_of(info_of(stage).letters[0]);
  if (first != Axis::head && first != Axis::kv_head) return std::nullopt;
  return layer.dims.batched ? 1 : 0;
}

/// An output that is the heads' own, before they are concatenated.
std::optional<OtherReading> of_head_width(const Layer& layer, Stage stage, const io::Entry& entry) {
  const std::size_t axes = info_of(Stage::head_out).letters.size();
  if (stage != Stage::output || entry.shape.size() < axes || entry.shape.back() != layer.dims.d_v ||
      !fits(layer, Stage::head_out, entry.shape))
    return std::nullopt;
  return OtherReading{Stage::head_out, entry, "of head width: head_out"};
}

/// A stage without its axis of heads, copied to each head: (B, H, T, S) from (B, T, S). Weights may
/// have an axis of one in its place (keepdim); in other stages such an axis is one of heads.
std::optional<OtherReading> without_heads(const Layer& layer, Stage stage, const io::Entry& entry) {
  const std::optional<std::size_t> heads = axis_of_heads(layer, stage);
  if (!heads) return std::nullopt;
  Shape own = layer.shape_of(stage), theirs = entry.shape;
  const std::size_t H = own[*heads];
  if (H < 2) return std::nullopt;
  own.erase(own.begin() + static_cast<std::ptrdiff_t>(*heads));
  const bool mean = stage == Stage::weights;
  if (!mean && theirs.size() > own.size()) return std::nullopt;
  if (theirs.size() == own.size() + 1 && theirs[theirs.size() - 3] == 1) // averaged with keepdim
    theirs.erase(theirs.end() - 3);
  if (layer.dims.batched && layer.dims.B == 1 && theirs.size() + 1 == own.size())
    theirs.insert(theirs.begin(), 1);
  if (!layer.dims.batched && theirs.size() == own.size() + 1 && theirs[0] == 1)
    theirs.erase(theirs.begin());
  if (theirs != own) return std::nullopt;
  OtherReading reading{stage, entry, "", mean, true};
  reading.entry.shape = layer.shape_of(stage);
  reading.entry.read = [read = entry.read, shape = reading.entry.shape, own, heads = *heads, H] {
    Shape one = own;
    one.insert(one.begin() + static_cast<std::ptrdiff_t>(heads), 1);
    return at_positions(read().reshaped(one), heads, std::vector<std::size_t>(H, 0))
        .reshaped(shape);
  };
  return reading;
}

/// Flash kernels give each row of log-sum-exps room for whole tiles of queries.
std::optional<OtherReading> padded_rows(const Layer& layer, Stage stage, const io::Entry& entry) {
  constexpr std::size_t tile = 128;
  const std::size_t T = layer.dims.T;
  if (info_of(stage).kind != Kind::row || entry.shape.empty()) return std::nullopt;
  const std::size_t columns = entry.shape.back();
  Shape shape = entry.shape;
  shape.back() = T;
  if (columns <= T || columns != (T + tile - 1) / tile * tile || !fits(layer, stage, shape))
    return std::nullopt;
  OtherReading reading{
      stage, entry, fmt::format("the first {} of {} columns; the others are padding", T, columns)};
  reading.entry.shape = shape;
  reading.entry.read = [read = entry.read, axis = shape.size() - 1, T] {
    return part_of_axis(read(), axis, 0, T);
  };
  return reading;
}

} // namespace

std::optional<OtherReading> other_reading(const Layer& layer, Stage stage, const io::Entry& entry) {
  for (const auto& kind : {of_head_width, without_heads, padded_rows})
    if (std::optional<OtherReading> reading = kind(layer, stage, entry)) return reading;
  return std::nullopt;
}

namespace {

/// The distance of numbers: the count of those that only one side masks, then the sum of squares.
struct Distance {
  std::size_t hidden = 0;
  double squares = 0;

  void add(double a, double b) {
    constexpr double mask_constant = -1e3;
    const bool ours = !(a > mask_constant), theirs = !(b > mask_constant); // NaN counts as masked
    if (ours || theirs)
      hidden += ours != theirs ? 1 : 0;
    else
      squares += (a - b) * (a - b);
  }
  auto operator<=>(const Distance&) const = default;
};

} // namespace

std::optional<std::size_t> nearest_head(const Layer& layer, const ReferenceStage& reference,
                                        const Tensor& ours) {
  const Shape& shape = ours.shape(); // (B,) H, …
  const std::size_t heads = *axis_of_heads(layer, reference.stage), H = shape[heads],
                    texts = heads == 0 ? 1 : shape[0], n = ours.count() / (texts * H);
  const Tensor saved = as_saved(reference, ours);
  std::vector<Distance> apart(H);
  Distance of_mean;
  for (std::size_t i = 0; i < ours.count(); ++i) {
    const double theirs = value_at(reference.value, i);
    apart[i / n % H].add(value_at(ours, i), theirs);
    if (reference.mean_of_heads && i / n % H == 0) of_mean.add(value_at(saved, i), theirs);
  }
  const auto nearest = std::min_element(apart.begin(), apart.end());
  if (reference.mean_of_heads && of_mean <= *nearest) return std::nullopt;
  return static_cast<std::size_t>(nearest - apart.begin());
}

Tensor of_head_alone(const Layer& layer, Stage stage, const Tensor& value, std::size_t head) {
  const Shape& shape = value.shape();
  const std::size_t heads = *axis_of_heads(layer, stage), H = shape[heads],
                    texts = heads == 0 ? 1 : shape[0], n = value.count() / (texts * H);
  Tensor alone = copy_of(view_of(value));
  by_precision(value.dtype(), [&]<class N>(N) {
    const auto numbers = alone.as_mutable<N>();
    for (std::size_t i = 0; i < numbers.size(); ++i)
      if (i / n % H != head) numbers[i] = static_cast<N>(not_saved());
  });
  return alone;
}

Tensor as_saved(const ReferenceStage& reference, const Tensor& ours) {
  if (!reference.mean_of_heads) return ours;
  const Shape& shape = ours.shape(); // (B,) H, T, S
  const std::size_t axes = shape.size(), H = shape[axes - 3],
                    map = shape[axes - 2] * shape[axes - 1];
  Tensor mean = Tensor::uninitialised(ours.dtype(), shape);
  by_precision(ours.dtype(), [&]<class N>(N) {
    const auto values = ours.as<N>();
    const auto means = mean.as_mutable<N>();
    for (std::size_t first = 0; first < values.size(); first += H * map)
      for (std::size_t i = 0; i < map; ++i) {
        double sum = 0;
        for (std::size_t h = 0; h < H; ++h) sum += static_cast<double>(values[first + h * map + i]);
        for (std::size_t h = 0; h < H; ++h)
          means[first + h * map + i] = static_cast<N>(sum / static_cast<double>(H));
      }
  });
  return mean;
}

Tensor with_other_pairs(const Tensor& value, const Settings& settings) {
  const std::size_t d = value.shape().back(), first = settings.rope_first,
                    n = settings.rope_dims > 0 ? settings.rope_dims : d - first;
  const std::size_t element = size_of(value.dtype());
  Tensor other = Tensor::uninitialised(value.dtype(), value.shape());
  std::memcpy(other.raw_mutable(), value.raw(), value.bytes());
  const auto copy = [&](std::size_t row, std::size_t to, std::size_t from) {
    std::memcpy(other.raw_mutable() + (row * d + first + to) * element,
                value.raw() + (row * d + first + from) * element, element);
  };
  for (std::size_t row = 0; row < value.count() / d; ++row)
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t half = i % 2 * (n / 2) + i / 2; // the place of neighbour i among halves
      if (settings.rope == Rope::half)
        copy(row, half, i);
      else
        copy(row, i, half);
    }
  return other;
}

void multiply(ReferenceStage& stage, double factor, const std::string& name) {
  std::vector<std::pair<std::string, Tensor>> ways{{stage.rearranged, stage.value}};
  std::ranges::move(stage.other_axes, std::back_inserter(ways));
  stage.other_axes.clear();
  for (const auto& [how, value] : ways) {
    const std::string before = how.empty() ? "" : how + ", ";
    std::vector<double> numbers(value.count());
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = factor * value_at(value, i);
    const Tensor product = convert(Tensor::of<double>(value.shape(), numbers), value.dtype());
    stage.other_axes.emplace_back(before + "times " + name, product);
    stage.other_axes.emplace_back(before + name + " is in it", value);
  }
  stage.resolution *= std::abs(factor), stage.multiplied = true;
  std::tie(stage.rearranged, stage.value) = stage.other_axes.front();
  stage.other_axes.erase(stage.other_axes.begin());
}

} // namespace mha
