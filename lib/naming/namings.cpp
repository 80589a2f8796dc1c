#include "naming/namings.hpp"

#include <array>

namespace mha::naming {

namespace {

// A family is its own file and one line here. Where several have the same names, the first that
// recognises a group has it: the more particular stand before the more general.
const std::array list{
    // q_proj, k_proj, v_proj, o_proj
    &gemma3,
    &gemma2,
    &gemma,
    &gpt_oss,
    &qwen3,
    &olmo2,
    &qwen2,
    &llama,
    &llama_original,
    &deepseek,
    &phi,
    &phi_mixer,
    &phi3,
    // c_attn, c_proj
    &gpt_bigcode,
    &gpt2,
    &nanogpt,
    &mingpt,
    // q_proj, k_proj, v_proj, out_proj
    &gpt_neo,
    &whisper,
    &clip,
    &gptj,
    &bart,
    // fused by head
    &codegen,
    &gpt_neox,
    &bloom,
    &falcon,
    &mpt,
    // encoders, and both
    &bert,
    &distilbert,
    &vit,
    &timm,
    &t5,
    // libraries
    &pytorch,
    &transformer_lens,
    &keras,
    &gml,
};

} // namespace

std::span<const Family* const> families() {
  return list;
}

const Family& family_named(std::string_view name) {
  std::vector<std::string_view> names;
  std::string choices;
  for (const Family* family : families()) {
    if (family->name == name) return *family;
    names.push_back(family->name);
    choices += fmt::format("{}{}", choices.empty() ? "" : ", ", family->name);
  }
  const std::string meant = did_you_mean(name, names);
  fail("no naming is called '{}'{}", name, meant.empty() ? "; there are " + choices : meant);
}

} // namespace mha::naming
