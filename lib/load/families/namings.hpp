#pragma once
// The list of families, each defined in the file of its name.

#include <mha/load/families/family.hpp>

// A family is its own file and one line here. Where several have the same names, the first that
// recognises a group has it: the more particular stand before the more general.
// clang-format off
#define MHA_FAMILIES(family)              \
  /* layers that a graph holds */         \
  family(onnx)                            \
  /* q_proj, k_proj, v_proj, o_proj */    \
  family(gemma3)                          \
  family(gemma2)                          \
  family(gemma)                           \
  family(gpt_oss)                         \
  family(cohere)                          \
  family(glm)                             \
  family(ernie)                           \
  family(olmo)                            \
  family(smollm3)                         \
  family(exaone4)                         \
  family(qwen3)                           \
  family(olmo2)                           \
  family(qwen2)                           \
  family(llama)                           \
  family(llama_original)                  \
  family(deepseek)                        \
  family(phi)                             \
  family(phi_mixer)                       \
  family(phi3)                            \
  /* c_attn, c_proj */                    \
  family(gpt_bigcode)                     \
  family(gpt2)                            \
  family(nanogpt)                         \
  family(mingpt)                          \
  /* q_proj, k_proj, v_proj, out_proj */  \
  family(gpt_neo)                         \
  family(whisper)                         \
  family(whisper_openai)                  \
  family(clip)                            \
  family(opt)                             \
  family(gptj)                            \
  family(bart)                            \
  /* fused by head */                     \
  family(codegen)                         \
  family(gpt_neox)                        \
  family(bloom)                           \
  family(falcon)                          \
  family(mpt)                             \
  /* encoders, and both */                \
  family(esm)                             \
  family(bert)                            \
  family(modernbert)                      \
  family(albert)                          \
  family(distilbert)                      \
  family(vit)                             \
  family(timm)                            \
  family(t5)                              \
  /* libraries */                         \
  family(pytorch)                         \
  family(transformer_lens)                \
  family(keras)                           \
  family(gml)
// clang-format on

namespace mha::naming {

#define MHA_DECLARE_FAMILY(name) extern const Family name;
MHA_FAMILIES(MHA_DECLARE_FAMILY)
#undef MHA_DECLARE_FAMILY

} // namespace mha::naming
