#pragma once
// The instruction sets that this machine has and may use. The environment variable MHA_CPU limits
// them: portable, avx2, avx512 or amx on x86-64, portable or neon on AArch64, portable elsewhere.
// Any other value is an Error, the words of another architecture included: such a limit would limit
// nothing, unnoticed.

namespace mha {

/// AVX2 with FMA and F16C.
bool runs_avx2();
/// AVX-512 F, DQ, BW and VL.
bool runs_avx512();
/// AMX in bfloat16. Asks Linux for the tile registers, which it grants on request only.
bool runs_amx();
/// NEON, which every AArch64 has.
bool runs_neon();

} // namespace mha
