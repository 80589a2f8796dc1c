#pragma once
// Compact forms of numbers, for pages that embed them.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mha {

/// The form of a stage's rows.
enum class RowForm : std::uint8_t {
  exact,   ///< in the layer's dtype, bit for bit
  rounded, ///< 16 bits a number, between the row's smallest and largest finite one
  largest, ///< only the largest numbers of each row, as float32, with their places
  bits,    ///< a bit a column: set or not
};

/// The rows of one stage, head by head. `heads[i]` is deflated (zlib's format), and holds
///   exact:   rows × cols numbers;
///   rounded: rows × (smallest, step) as float32, then rows × cols codes of 16 bits: the number is
///            smallest + code · step, or NaN or infinity (rounded_nan …);
///   largest: rows × kept places of 32 bits, then rows × kept float32; largest first;
///   bits:    rows × ⌈cols / 8⌉ bytes, the lowest bit first.
/// Numbers, codes and places are little-endian and stored in planes (every first byte, every second
/// byte …), which deflate better.
struct PackedStage {
  RowForm form = RowForm::exact;
  std::size_t rows = 0, cols = 0, kept = 0;
  std::size_t row_factor = 1, col_factor = 1; ///< of a pooled map: queries and keys of a cell
  std::vector<std::string> heads;
};

/// Codes of the rounded form for NaN and infinity; smaller codes are numbers.
inline constexpr std::uint16_t rounded_nan = 65533, rounded_infinity = 65534,
                               rounded_minus_infinity = 65535;

/// A row's smallest number and the step between two codes.
struct RowScale {
  float smallest = 0, step = 0;
};
/// Rounds `count` numbers, `stride` apart, to codes.
template <class T>
RowScale round_row(const T* row, std::ptrdiff_t stride, std::uint16_t* codes, std::size_t count);

/// Appends every first byte of `count` elements, then every second …
void append_planes(std::string& out, const void* elements, std::size_t count, std::size_t size);
/// Deflates bytes into zlib's format.
std::string deflated(const std::string& bytes);

} // namespace mha
