// The block types of ggml. Scales are float16. Products and sums are rounded to float32 at the same
// points as in ggml, so that the bits are the same. Floats of 8 bits are blocks of one.

#include <mha/tensor/blocks.hpp>

#include <mha/system/named.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace mha {

namespace {

/// A block's bytes as unsigned numbers.
struct Block {
  const std::byte* at;
  unsigned operator[](std::size_t i) const { return std::to_integer<unsigned>(at[i]); }
  int signed_at(std::size_t i) const { return static_cast<std::int8_t>((*this)[i]); }
  float half(std::size_t i) const {
    return from_half(static_cast<std::uint16_t>((*this)[i] | (*this)[i + 1] << 8));
  }
};

/// Whether an element's number or its step is computed; the other is not.
enum class Wanted : std::uint8_t { number, step };
template <Wanted wanted> float pick(float number, float step) {
  return wanted == Wanted::number ? number : std::fabs(step);
}
float real(int level) {
  return static_cast<float>(level);
}

// Blocks of 32 with four bits an element: the low halves of the bytes are elements 0 to 15, the
// high halves 16 to 31. `fifth` is the offset of the 32 fifth bits, bit j of element j, or 0 if
// there are none.
template <Wanted wanted, std::size_t quants, std::size_t fifth, bool has_minimum>
void nibbles(const std::byte* bytes, float* to) {
  const Block block{bytes};
  const float d = block.half(0), m = has_minimum ? block.half(2) : 0;
  constexpr int centre = has_minimum ? 0 : fifth ? 16 : 8;
  for (std::size_t j = 0; j < 32; ++j) {
    const unsigned low = j < 16 ? block[quants + j] & 15 : block[quants + j - 16] >> 4;
    const unsigned high = fifth ? block[fifth + j / 8] >> (j % 8) & 1 : 0;
    const float product = real(static_cast<int>(low | high << 4) - centre) * d;
    to[j] = pick<wanted>(has_minimum ? product + m : product, d);
  }
}

template <Wanted wanted> void q8_0(const std::byte* bytes, float* to) {
  const Block block{bytes};
  const float d = block.half(0);
  for (std::size_t j = 0; j < 32; ++j) to[j] = pick<wanted>(real(block.signed_at(2 + j)) * d, d);
}

/// E2M1 with a power of two for 32: the table holds twice the values, so the scale is half of E8M0.
template <Wanted wanted> void mxfp4(const std::byte* bytes, float* to) {
  constexpr std::array<int, 8> levels{0, 1, 2, 3, 4, 6, 8, 12}, gaps{1, 1, 1, 1, 2, 2, 4, 4};
  const Block block{bytes};
  const float scale = std::ldexp(1.0f, static_cast<int>(block[0]) - 128);
  for (std::size_t j = 0; j < 32; ++j) {
    const unsigned code = j < 16 ? block[1 + j] & 15 : block[1 + j - 16] >> 4;
    const int level = levels[code & 7];
    to[j] = pick<wanted>(real(code < 8 ? level : -level) * scale, real(gaps[code & 7]) * scale);
  }
}

// Blocks of 256: sub-blocks have scales of a few bits, which the block's own scale multiplies.

/// 16 sub-blocks of 16. 128 elements share 32 bytes, and each group of 32 takes the next two bits.
template <Wanted wanted> void q2_K(const std::byte* bytes, float* to) {
  const Block block{bytes};
  const float d = block.half(80), least = block.half(82);
  for (std::size_t sub = 0; sub < 16; ++sub, to += 16) {
    const unsigned scales = block[sub];
    const float step = d * real(static_cast<int>(scales & 15)),
                minimum = least * real(static_cast<int>(scales >> 4));
    const std::size_t first = 16 + sub / 8 * 32 + sub % 2 * 16, shift = sub % 8 / 2 * 2;
    for (std::size_t l = 0; l < 16; ++l)
      to[l] = pick<wanted>(step * real(static_cast<int>(block[first + l] >> shift & 3)) - minimum,
                           step);
  }
}

/// Like Q2_K, with scales of six bits and a third bit, whose position moves by one every 32
/// elements.
template <Wanted wanted> void q3_K(const std::byte* bytes, float* to) {
  const Block block{bytes};
  const float d = block.half(108);
  for (std::size_t sub = 0; sub < 16; ++sub, to += 16) {
    const unsigned low = block[96 + sub % 8] >> (sub / 8 * 4) & 15,
                   high = block[104 + sub % 4] >> (sub / 4 * 2) & 3;
    const float step = d * real(static_cast<int>(low | high << 4) - 32);
    const std::size_t first = 32 + sub / 8 * 32 + sub % 2 * 16, shift = sub % 8 / 2 * 2;
    for (std::size_t l = 0; l < 16; ++l) {
      const unsigned q = block[first + l] >> shift & 3, third = block[sub % 2 * 16 + l] >> sub / 2;
      to[l] = pick<wanted>(step * real(static_cast<int>(q | (third & 1) << 2) - 4), step);
    }
  }
}

/// Scale and minimum of sub-block j of Q4_K and Q5_K, six bits each, from the 12 bytes at `first`.
std::pair<int, int> scale_and_minimum(Block block, std::size_t first, std::size_t j) {
  const auto q = [&](std::size_t i) { return block[first + i]; };
  if (j < 4) return {static_cast<int>(q(j) & 63), static_cast<int>(q(j + 4) & 63)};
  return {static_cast<int>((q(j + 4) & 15) | (q(j - 4) >> 6) << 4),
          static_cast<int>(q(j + 4) >> 4 | (q(j) >> 6) << 4)};
}

/// 8 sub-blocks of 32. 64 elements share 32 bytes, low halves first. `fifth` is as in nibbles(),
/// but each byte has the bits of one position in all 8 sub-blocks.
template <Wanted wanted, std::size_t quants, std::size_t fifth>
void nibbles_K(const std::byte* bytes, float* to) {
  const Block block{bytes};
  const float d = block.half(0), least = block.half(2);
  for (std::size_t sub = 0; sub < 8; ++sub) {
    const auto [scale, minimum] = scale_and_minimum(block, 4, sub);
    const float step = d * real(scale), lowest = least * real(minimum);
    for (std::size_t l = 0; l < 32; ++l) {
      const unsigned low = block[quants + sub / 2 * 32 + l] >> (sub % 2 * 4) & 15;
      const unsigned high = fifth ? block[fifth + l] >> sub & 1 : 0;
      to[sub * 32 + l] =
          pick<wanted>(step * real(static_cast<int>(low | high << 4)) - lowest, step);
    }
  }
}

/// 16 sub-blocks of 16 with scales of eight bits. 128 elements take four bits each from 64 bytes,
/// low halves first, and two bits each from 32 bytes.
template <Wanted wanted> void q6_K(const std::byte* bytes, float* to) {
  const Block block{bytes};
  const float d = block.half(208);
  for (std::size_t sub = 0; sub < 16; ++sub, to += 16) {
    const float step = d * real(block.signed_at(192 + sub));
    const std::size_t part = sub / 8, place = sub % 8; // of the 128 elements
    const std::size_t first = part * 64 + place % 4 * 16, shift = place / 4 * 4;
    const std::size_t more = 128 + part * 32 + place % 2 * 16, upper = place / 2 * 2;
    for (std::size_t l = 0; l < 16; ++l) {
      const unsigned low = block[first + l] >> shift & 15, high = block[more + l] >> upper & 3;
      to[l] = pick<wanted>(step * real(static_cast<int>(low | high << 4) - 32), step);
    }
  }
}

/// A float of 8 bits. E4M3 has NaN where all bits are set and no infinity; E5M2 is half a float16.
template <Wanted wanted, int mantissa_bits> void float8(const std::byte* bytes, float* to) {
  constexpr int bias = mantissa_bits == 3 ? 7 : 15, first = 1 << mantissa_bits;
  const unsigned bits = Block{bytes}[0];
  const int exponent = static_cast<int>(bits & 127) >> mantissa_bits,
            mantissa = static_cast<int>(bits) & (first - 1);
  const float step = std::ldexp(1.0F, std::max(exponent, 1) - bias - mantissa_bits);
  float number = step * real(exponent == 0 ? mantissa : mantissa + first);
  if (mantissa_bits == 3 && (bits & 127) == 127) number = std::numeric_limits<float>::quiet_NaN();
  if (mantissa_bits == 2 && exponent == 31)
    number = mantissa == 0 ? std::numeric_limits<float>::infinity()
                           : std::numeric_limits<float>::quiet_NaN();
  to[0] = pick<wanted>((bits & 128) != 0 ? -number : number, step);
}

constexpr Wanted as_number = Wanted::number, as_step = Wanted::step;
constexpr std::array<BlockType, 13> all_block_types{{
    {"Q4_0", 32, 18, nibbles<as_number, 2, 0, false>, nibbles<as_step, 2, 0, false>},
    {"Q4_1", 32, 20, nibbles<as_number, 4, 0, true>, nibbles<as_step, 4, 0, true>},
    {"Q5_0", 32, 22, nibbles<as_number, 6, 2, false>, nibbles<as_step, 6, 2, false>},
    {"Q5_1", 32, 24, nibbles<as_number, 8, 4, true>, nibbles<as_step, 8, 4, true>},
    {"Q8_0", 32, 34, q8_0<as_number>, q8_0<as_step>},
    {"Q2_K", 256, 84, q2_K<as_number>, q2_K<as_step>},
    {"Q3_K", 256, 110, q3_K<as_number>, q3_K<as_step>},
    {"Q4_K", 256, 144, nibbles_K<as_number, 16, 0>, nibbles_K<as_step, 16, 0>},
    {"Q5_K", 256, 176, nibbles_K<as_number, 48, 16>, nibbles_K<as_step, 48, 16>},
    {"Q6_K", 256, 210, q6_K<as_number>, q6_K<as_step>},
    {"MXFP4", 32, 17, mxfp4<as_number>, mxfp4<as_step>},
    {"F8_E4M3", 1, 1, float8<as_number, 3>, float8<as_step, 3>},
    {"F8_E5M2", 1, 1, float8<as_number, 2>, float8<as_step, 2>},
}};

Tensor each_block(const BlockType& type, void (*of_block)(const std::byte*, float*),
                  const std::byte* data, const Shape& shape) {
  if (type.elements > 1 && (shape.empty() || shape.back() % type.elements != 0))
    fail("a row of {} is not a whole number of {}'s blocks of {}", to_string(shape), type.name,
         type.elements);
  Tensor values = Tensor::uninitialised(DType::f32, shape);
  float* to = values.as_mutable<float>().data();
  for (std::size_t i = 0; i < values.count(); i += type.elements, data += type.bytes)
    of_block(data, to + i);
  return values;
}

} // namespace

std::span<const BlockType> block_types() {
  return all_block_types;
}

const BlockType* find_block_type(std::string_view name) {
  return find_named(all_block_types, name);
}

Tensor decoded(const BlockType& type, const std::byte* data, const Shape& shape) {
  return each_block(type, type.decode, data, shape);
}
Tensor steps_of(const BlockType& type, const std::byte* data, const Shape& shape) {
  return each_block(type, type.steps, data, shape);
}

Tensor mxfp4_with_scales(const Tensor& blocks, const Tensor& scales) {
  constexpr std::array<float, 8> levels{0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  constexpr std::size_t bytes = 16, numbers = 2 * bytes;
  constexpr int bias = 127;
  const std::size_t count = scales.count();
  const std::span<const std::uint8_t> codes = blocks.as<std::uint8_t>(),
                                      exponents = scales.as<std::uint8_t>();
  if (codes.size() != count * bytes)
    fail("{} scales {} for blocks {}: one for 16 bytes expected", count, to_string(scales.shape()),
         to_string(blocks.shape()));
  Tensor values =
      Tensor::uninitialised(DType::bf16, {scales.shape()[0], scales.shape()[1] * numbers});
  std::uint16_t* to = values.as_mutable<std::uint16_t>().data();
  for (std::size_t b = 0; b < count; ++b) {
    const int exponent = static_cast<int>(exponents[b]) - bias;
    for (std::size_t i = 0; i < bytes; ++i) {
      const unsigned both = codes[b * bytes + i];
      for (const unsigned code : {both & 15, both >> 4}) {
        const float level = std::ldexp(levels[code & 7], exponent);
        *to++ = to_bfloat16(code < 8 ? level : -level);
      }
    }
  }
  return values;
}

} // namespace mha
