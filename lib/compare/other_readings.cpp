#include <mha/compare/other_readings.hpp>

#include <mha/compare/reference.hpp>
#include <mha/layer/infer_axes.hpp>
#include <mha/tensor/parts.hpp>
#include <mha/tensor/precision.hpp>

#include <fmt/format.h>

namespace mha {

namespace {

/// What the heads give before they stand side by side.
std::optional<OtherReading> of_head_width(const Layer& layer, Stage stage, const io::Entry& entry) {
  const std::size_t axes = info_of(Stage::head_out).letters.size();
  if (stage != Stage::output || entry.shape.size() < axes || entry.shape.back() != layer.dims.d_v ||
      !fits(layer, Stage::head_out, entry.shape))
    return std::nullopt;
  return OtherReading{Stage::head_out, entry, "of head width: head_out"};
}

/// Each head's map, of one for all: (B, 1, T, S) of (B, T, S), and so on.
std::optional<OtherReading> averaged(const Layer& layer, Stage stage, const io::Entry& entry) {
  const std::size_t H = layer.dims.H;
  if (stage != Stage::weights || H < 2) return std::nullopt;
  Shape own = layer.shape_of(stage), theirs = entry.shape;
  const std::size_t heads = layer.dims.batched ? 1 : 0;
  own.erase(own.begin() + static_cast<std::ptrdiff_t>(heads));
  if (theirs.size() == own.size() + 1 && theirs[theirs.size() - 3] == 1) // averaged with keepdim
    theirs.erase(theirs.end() - 3);
  if (layer.dims.batched && layer.dims.B == 1 && theirs.size() + 1 == own.size())
    theirs.insert(theirs.begin(), 1);
  if (!layer.dims.batched && theirs.size() == own.size() + 1 && theirs[0] == 1)
    theirs.erase(theirs.begin());
  if (theirs != own) return std::nullopt;
  OtherReading reading{stage, entry, "the mean over the heads", true};
  reading.entry.shape = layer.shape_of(stage);
  reading.entry.read = [read = entry.read, shape = reading.entry.shape, own, heads, H] {
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
  const std::size_t there = entry.shape.back();
  Shape shape = entry.shape;
  shape.back() = T;
  if (there <= T || there != (T + tile - 1) / tile * tile || !fits(layer, stage, shape))
    return std::nullopt;
  OtherReading reading{stage, entry,
                       fmt::format("the first {} of {} columns; the others are padding", T, there)};
  reading.entry.shape = shape;
  reading.entry.read = [read = entry.read, axis = shape.size() - 1, T] {
    return part_of_axis(read(), axis, 0, T);
  };
  return reading;
}

} // namespace

std::optional<OtherReading> other_reading(const Layer& layer, Stage stage, const io::Entry& entry) {
  for (const auto& kind : {of_head_width, averaged, padded_rows})
    if (std::optional<OtherReading> reading = kind(layer, stage, entry)) return reading;
  return std::nullopt;
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

} // namespace mha
