#include "observe/dump.hpp"

#include "memory.hpp"

#include <algorithm>

namespace mha {

namespace {

/// Runs that follow each other in the file are written together, up to this many bytes.
constexpr std::size_t gather_bytes = 1 << 20;

} // namespace

Dump::Dump(const Layer& layer, const std::vector<Target>& targets, const Selection& selection,
           DType dtype, io::Writer& writer)
    : from_(layer.dtype), to_(dtype), writer_(writer) {
  for (const Target& target : targets)
    streamed_.emplace(target.stage,
                      Streamed{Placement(layer, target.stage, selection), target.item});
}

StageSet Dump::wants() const {
  StageSet set;
  for (const auto& [stage, streamed] : streamed_) set.set(index_of(stage));
  return set;
}

void Dump::observe(const Block& block) {
  const Streamed& streamed = streamed_.at(block.stage);
  const std::size_t to = size_of(to_);
  thread_local Buffer<std::byte> pending;
  std::size_t start = 0, count = 0; // the elements of the file that are pending
  const auto flush = [&] {
    if (count > 0) writer_.write(streamed.item, start, pending.data(), count);
    count = 0;
  };
  const auto add = [&](std::size_t offset, const std::byte* values, std::size_t n) {
    if (start + count != offset || (count + n) * to > gather_bytes) flush();
    if (from_ == to_ && n * to > gather_bytes / 4) {
      flush();
      return writer_.write(streamed.item, offset, values, n);
    }
    if (count == 0) start = offset;
    convert(values, from_, pending.room_for(gather_bytes) + count * to, to_, n);
    count += n;
  };
  streamed.placement.scatter(block,
                             [&](std::size_t offset, const std::byte* values, std::size_t n) {
                               for (const std::size_t most = gather_bytes / to; n > 0;) {
                                 const std::size_t part = std::min(n, most);
                                 add(offset, values, part);
                                 offset += part, values += part * size_of(from_), n -= part;
                               }
                             });
  flush();
}

} // namespace mha
