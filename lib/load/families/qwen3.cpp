// Qwen3: LLaMA's names, and RMS normalisation of each head's queries and keys before the rotation.
// H · d may differ from the model's width.

#include <mha/load/families/llama_like.hpp>
#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

bool is_qwen3(const Group& group) {
  // Of one head, q_norm is as wide as the whole projection.
  if (group.configured("model_type"))
    return group.is_model(
        {"qwen3", "qwen3_moe", "qwen3_vl", "qwen3_vl_moe", "qwen3_vl_text", "qwen3_vl_moe_text"});
  return qk_norm_is_per_head(group);
}

void translate_qwen3(const Group& group, Translation& to) {
  take_llama(to);
  require_qk_norm(group);
  // Qwen3-VL's three rows of positions take turns, whether its config says so or not.
  if (group.is_model({"qwen3_vl", "qwen3_vl_moe", "qwen3_vl_text", "qwen3_vl_moe_text"}))
    to.set("mrope_interleaved", "true");
  // Published models have 1e6, which their configs say; Transformers' own default is 10000.
  set_rotary(to, {.style = "half", .base = group.configured("model_type") ? 10000 : 1e6});
  set_window(to, upper_layers, 4096);
}

constexpr ModelRecord qwen3_record = llama_model("qwen3");

} // namespace

const Family qwen3{"qwen3",
                   "Qwen3",
                   "qwen3 qwen3_moe qwen3_vl qwen3_vl_moe qwen3_vl_text qwen3_vl_moe_text",
                   llama_needs,
                   llama_knows,
                   is_qwen3,
                   translate_qwen3,
                   &qwen3_record};

} // namespace mha::naming
