#include <mha/schedule/padding.hpp>

#include <cstring>

namespace mha {

void BlankPadding::observe(const Slice& block) {
  const StageInfo& info = info_of(block.stage);
  Slice own = block;
  own.length = lengths_[block.batch];
  const Shape& shape = block.values.shape;
  const bool with_heads = info.letters.size() == 3 || info.kind == Kind::row;
  const std::size_t heads = with_heads ? shape[0] : 1, rows = shape[with_heads ? 1 : 0],
                    width = info.kind == Kind::row ? 1 : shape.back();
  const bool keys = info.kind == Kind::map && block.stage != Stage::masked &&
                    block.stage != Stage::shifted && own.length < dims_.S;
  // What is attended to may begin with earlier keys, which no text pads.
  const bool of_all_keys = info.kind == Kind::token && dims_.past > 0 &&
                           (block.stage == Stage::k_all || block.stage == Stage::v_all);
  const std::size_t end = own.length + (of_all_keys ? dims_.past : 0);
  if (block.token + rows <= end && !keys) return observer_.observe(own);

  Tensor copy = copy_of(block.values);
  const std::size_t element = size_of(copy.dtype()), row = width * element;
  std::byte* to = copy.raw_mutable();
  for (std::size_t h = 0; h < heads; ++h)
    for (std::size_t i = 0; i < rows; ++i, to += row)
      if (block.token + i >= end)
        std::memset(to, 0, row);
      else if (keys)
        std::memset(to + (dims_.past + own.length) * element, 0, (dims_.S - own.length) * element);
  own.values = view_of(copy);
  observer_.observe(own);
}

} // namespace mha
