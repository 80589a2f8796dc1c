#pragma once
// Which instruction sets this machine runs, and may use: the environment variable MHA_CPU
// (portable, avx2, avx512, amx) says what is used at most; an Error if it is another word.

namespace mha {

/// AVX2 with FMA and F16C.
bool runs_avx2();
/// AVX-512 F, DQ, BW and VL.
bool runs_avx512();
/// AMX in bfloat16, and Linux lends the tile registers on request.
bool runs_amx();

} // namespace mha
