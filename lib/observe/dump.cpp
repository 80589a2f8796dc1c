#include <mha/observe/dump.hpp>

#include <mha/system/memory.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <type_traits>

namespace mha {

namespace {

/// Consecutive runs in the file are written together, up to this many bytes.
constexpr std::size_t gather_bytes = 1 << 20;

template <class T> std::size_t infinite_in(const std::byte* values, std::size_t n) {
  const T* const numbers = reinterpret_cast<const T*>(values);
  std::size_t count = 0;
  for (std::size_t i = 0; i < n; ++i)
    if constexpr (std::is_integral_v<T>) // half precision, as bits
      count += (numbers[i] & 0x7fff) == 0x7c00;
    else
      count += std::isinf(numbers[i]);
  return count;
}

std::size_t infinite_in(const std::byte* values, DType dtype, std::size_t n) {
  return dtype == DType::f64   ? infinite_in<double>(values, n)
         : dtype == DType::f16 ? infinite_in<std::uint16_t>(values, n)
                               : infinite_in<float>(values, n);
}

} // namespace

Dump::Dump(const Layer& layer, const std::vector<Target>& targets, const Selection& selection,
           io::Writer& writer)
    : writer_(writer) {
  for (const Target& target : targets)
    destinations_.emplace(target.stage,
                          Destination{Placement(layer, target.stage, selection), target.item,
                                      target.offset, layer.dtype_of(target.stage), target.dtype});
}

StageSet Dump::wants() const {
  StageSet set;
  for (const auto& [stage, destination] : destinations_) set.add(stage);
  return set;
}

std::optional<std::size_t> Dump::batch() const {
  return destinations_.empty() ? std::nullopt : destinations_.begin()->second.placement.batch();
}

std::map<Stage, std::size_t> Dump::overflowed() const {
  std::map<Stage, std::size_t> counts;
  for (const auto& [stage, destination] : destinations_)
    if (destination.overflowed > 0) counts[stage] = destination.overflowed;
  return counts;
}

void Dump::observe(const Slice& block) {
  Destination& destination = destinations_.at(block.stage);
  const DType from_type = destination.from, to_type = destination.to;
  const std::size_t to = size_of(to_type);
  thread_local Buffer<std::byte> pending;
  std::size_t start = 0, count = 0; // the elements of the file that are pending
  std::size_t overflowed = 0;
  const auto flush = [&] {
    if (count > 0) writer_.write(destination.item, start, pending.data(), count);
    count = 0;
  };
  const auto add = [&](std::size_t offset, const std::byte* values, std::size_t n) {
    offset += destination.offset;
    if (start + count != offset || (count + n) * to > gather_bytes) flush();
    if (from_type == to_type && n * to > gather_bytes / 4) {
      flush();
      return writer_.write(destination.item, offset, values, n);
    }
    if (count == 0) start = offset;
    std::byte* const rounded = pending.room_for(gather_bytes) + count * to;
    convert(values, from_type, rounded, to_type, n);
    count += n;
    // bfloat16 reaches as far as float32, and weights are at most 1.
    if (from_type == to_type || (to_type != DType::f16 && to_type != DType::f32) ||
        block.stage == Stage::weights)
      return;
    if (const std::size_t infinite = infinite_in(rounded, to_type, n))
      overflowed += infinite - infinite_in(values, from_type, n);
  };
  destination.placement.scatter(block,
                                [&](std::size_t offset, const std::byte* values, std::size_t n) {
                                  for (const std::size_t most = gather_bytes / to; n > 0;) {
                                    const std::size_t part = std::min(n, most);
                                    add(offset, values, part);
                                    offset += part, values += part * size_of(from_type), n -= part;
                                  }
                                });
  flush();
  if (overflowed > 0) std::atomic_ref(destination.overflowed) += overflowed;
}

} // namespace mha
