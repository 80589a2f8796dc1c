// GPT-OSS: LLaMA's names with biases, one more logit a head (sinks) that joins the softmax and is
// dropped, and a window on every second layer.

#include <mha/load/families/llama_like.hpp>
#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

bool is_gpt_oss(const Group& group) {
  // In models that have none, a tensor of that name is left over.
  return group.has("sinks") && !group.is_model({"llama", "mistral", "mixtral", "qwen2", "qwen3",
                                                "gemma", "gemma2", "gemma3", "gemma3_text"});
}

void translate_gpt_oss(const Group&, Translation& to) {
  take_llama(to);
  to.take("sinks", "sinks");
  set_rotary(to, {.style = "half", .base = 150000});
  set_window(to, even_layers, 128);
}

} // namespace

const Family gpt_oss{
    "gpt_oss",  "GPT-OSS",         "gpt_oss", llama_needs, llama_knows,
    is_gpt_oss, translate_gpt_oss, nullptr,   nullptr,     "post_attention_layernorm"};

} // namespace mha::naming
