#include <mha/schedule/padding.hpp>

#include <mha/system/memory.hpp>

#include <algorithm>
#include <cstring>

namespace mha {

namespace {

/// Copies `count` elements that lie `stride` apart.
void copy_elements(const std::byte* from, std::ptrdiff_t stride, std::size_t count,
                   std::size_t element, std::byte* to) {
  if (stride == 1) {
    std::memcpy(to, from, count * element);
    return;
  }
  const std::ptrdiff_t step = stride * static_cast<std::ptrdiff_t>(element);
  for (std::size_t i = 0; i < count; ++i)
    std::memcpy(to + i * element, from + static_cast<std::ptrdiff_t>(i) * step, element);
}

} // namespace

void BlankPadding::observe(const Block& block) {
  const StageInfo& info = info_of(block.stage);
  Block own = block;
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

  const std::size_t element = size_of(block.values.dtype), row = width * element;
  thread_local Buffer<std::byte> memory;
  std::byte* const copy = memory.room_for(heads * rows * row);
  const auto stride = [&](std::size_t axis) { return block.values.strides[axis]; };
  const std::size_t tokens = with_heads ? 1 : 0;
  for (std::size_t h = 0; h < heads; ++h)
    for (std::size_t i = 0; i < rows; ++i) {
      std::byte* const to = copy + (h * rows + i) * row;
      if (block.token + i >= end) {
        std::memset(to, 0, row);
        continue;
      }
      const std::ptrdiff_t at = (with_heads ? static_cast<std::ptrdiff_t>(h) * stride(0) : 0) +
                                static_cast<std::ptrdiff_t>(i) * stride(tokens);
      copy_elements(block.values.data + at * static_cast<std::ptrdiff_t>(element),
                    info.kind == Kind::row ? 1 : stride(tokens + 1), width, element, to);
      if (keys)
        std::memset(to + (dims_.past + own.length) * element, 0, (dims_.S - own.length) * element);
    }
  own.values.data = copy;
  std::ptrdiff_t step = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    own.values.strides[axis] = step;
    step *= static_cast<std::ptrdiff_t>(shape[axis]);
  }
  observer_.observe(own);
}

} // namespace mha
