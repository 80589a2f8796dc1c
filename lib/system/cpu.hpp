#pragma once
// The instruction sets that this machine has and may use. The environment variable MHA_CPU
// (portable, avx2, avx512, amx) limits them; any other value is an Error.

namespace mha {

/// AVX2 with FMA and F16C.
bool runs_avx2();
/// AVX-512 F, DQ, BW and VL.
bool runs_avx512();
/// AMX in bfloat16. Asks Linux for the tile registers, which it grants on request only.
bool runs_amx();

} // namespace mha
