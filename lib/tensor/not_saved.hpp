#pragma once
// Elements of a stage that a reference did not save: the tokens before the last one, columns of
// logits. A stage that is saved in part keeps its shape, with a marker in each missing element.

#include <bit>
#include <cstdint>

namespace mha {

namespace not_saved_detail {
/// A quiet NaN with its payload in bits that float32 keeps: arithmetic and conversions preserve it,
/// and no computation produces it.
constexpr std::uint64_t bits = 0x7ff8'5a5a'6000'0000;
constexpr std::uint64_t without_sign = 0x7fff'ffff'ffff'ffff;
} // namespace not_saved_detail

/// The marker of an element that was not saved.
inline double not_saved() {
  return std::bit_cast<double>(not_saved_detail::bits);
}
inline bool is_not_saved(double value) {
  return (std::bit_cast<std::uint64_t>(value) & not_saved_detail::without_sign) ==
         not_saved_detail::bits;
}

} // namespace mha
