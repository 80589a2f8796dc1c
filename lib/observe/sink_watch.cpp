#include <mha/observe/sink_watch.hpp>

#include <mha/observe/share_bytes.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

namespace {
constexpr double unit = 0x1p32;

void raise(std::atomic<std::uint64_t>& number, std::uint64_t to) {
  for (std::uint64_t seen = number; seen < to && !number.compare_exchange_weak(seen, to);) {
  }
}
} // namespace

void SinkWatch::observe(const Slice& block) {
  std::uint64_t sum = 0, rows = 0;
  for (std::size_t i = 0; i < block.values.shape[1] && block.token + i < block.length; ++i) {
    if (block.token + i == 0) continue;
    const std::ptrdiff_t place = static_cast<std::ptrdiff_t>(i) * block.values.strides[1];
    const double weight =
        block.values.dtype == DType::f64
            ? reinterpret_cast<const double*>(block.values.data)[place]
            : static_cast<double>(reinterpret_cast<const float*>(block.values.data)[place]);
    if (!std::isfinite(weight)) continue;
    sum += static_cast<std::uint64_t>(std::clamp(weight, 0.0, 1.0) * unit), ++rows;
  }
  sum_ += sum, rows_ += rows;
  if (rows > 0) raise(longest_, block.token + rows);
}

std::string SinkWatch::part_bytes(const Layer&, const Plan&) const {
  ShareWriter bytes;
  bytes.add(sum_.load());
  bytes.add(rows_.load());
  bytes.add(longest_.load());
  return bytes.take();
}

void SinkWatch::merge_part(const Layer&, const Plan&, std::string_view bytes) {
  ShareReader reader(bytes);
  sum_ += reader.take<std::uint64_t>();
  rows_ += reader.take<std::uint64_t>();
  raise(longest_, reader.take<std::uint64_t>());
  reader.end();
}

std::optional<double> SinkWatch::share(std::size_t least) const {
  if (longest_ < least) return std::nullopt;
  return static_cast<double>(sum_) / unit / static_cast<double>(rows_);
}

} // namespace mha
