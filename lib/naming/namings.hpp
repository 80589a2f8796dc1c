#pragma once
// The families, each defined in the file of its name.

#include "naming/family.hpp"

namespace mha::naming {

extern const Family bart, bert, bloom, clip, codegen, deepseek, distilbert, falcon, gemma, gemma2,
    gemma3, gml, gpt2, gpt_bigcode, gpt_neo, gpt_neox, gpt_oss, gptj, keras, llama, llama_original,
    mingpt, mpt, nanogpt, olmo2, phi, phi3, phi_mixer, pytorch, qwen2, qwen3, t5, timm,
    transformer_lens, vit, whisper;

} // namespace mha::naming
