#pragma once
// AMX in plain C++: bf16 × 3 products (kernels/bf16x3.hpp) are tested on machines without it.
// Written from Intel's description of the instruction (TDPBF16PS, Software Developer's Manual,
// volume 2), not from the kernels that use it.

#include <mha/kernels/bf16x3_kernels.hpp>
#include <mha/kernels/dispatch.hpp>

extern const mha::Bf16x3Kernels emulated_amx;

/// What TDPBF16PS does to full tiles: c (16 × 16) += a (16 lines of 16 pairs) · b (16 × 16 pairs,
/// a line for each pair of rows).
void multiply_tiles(const std::uint16_t* a, const std::uint16_t* b, float* c);

/// Until it goes, products can be split: by AMX where the machine has it, else by its emulation.
class WithBf16x3 {
public:
  WithBf16x3() {
    if (!mha::bf16x3_kernels()) mha::set_bf16x3_kernels(&emulated_amx);
  }
  ~WithBf16x3() { mha::set_bf16x3_kernels(nullptr); }
  WithBf16x3(const WithBf16x3&) = delete;
  WithBf16x3& operator=(const WithBf16x3&) = delete;
};

/// Until it goes, products can be split, by the emulation wherever it runs.
class WithEmulatedBf16x3 {
public:
  WithEmulatedBf16x3() { mha::set_bf16x3_kernels(&emulated_amx); }
  ~WithEmulatedBf16x3() { mha::set_bf16x3_kernels(nullptr); }
  WithEmulatedBf16x3(const WithEmulatedBf16x3&) = delete;
  WithEmulatedBf16x3& operator=(const WithEmulatedBf16x3&) = delete;
};
