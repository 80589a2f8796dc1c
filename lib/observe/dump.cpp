#include "observe/dump.hpp"

#include <algorithm>
#include <vector>

namespace mha {

namespace {

/// Runs that follow each other in the file are written together, up to this many bytes.
constexpr std::size_t gather_bytes = 4 << 20;

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
  std::vector<std::byte> pending;
  std::size_t start = 0; // the element of the file that pending begins with
  const auto flush = [&] {
    if (!pending.empty()) writer_.write(streamed.item, start, pending.data(), pending.size() / to);
    pending.clear();
  };
  streamed.placement.scatter(
      block, [&](std::size_t offset, const std::byte* values, std::size_t count) {
        if (pending.size() >= gather_bytes || start + pending.size() / to != offset) flush();
        if (pending.empty()) start = offset;
        pending.resize(pending.size() + count * to);
        convert(values, from_, pending.data() + pending.size() - count * to, to_, count);
      });
  flush();
}

} // namespace mha
