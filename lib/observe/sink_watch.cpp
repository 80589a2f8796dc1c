#include <mha/observe/sink_watch.hpp>

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

void SinkWatch::share(const Layer&, const Plan&, ShareBytes& bytes) {
  std::uint64_t sum = sum_, rows = rows_, longest = longest_;
  bytes.field(sum), bytes.field(rows), bytes.field(longest);
  if (bytes.writes()) return;
  sum_ += sum, rows_ += rows;
  raise(longest_, longest);
}

std::optional<double> SinkWatch::share(std::size_t least) const {
  if (longest_ < least) return std::nullopt;
  return static_cast<double>(sum_) / unit / static_cast<double>(rows_);
}

} // namespace mha
