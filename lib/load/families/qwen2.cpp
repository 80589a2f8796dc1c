// Qwen2, and the text part of Qwen2-VL and Qwen2.5-VL: LLaMA's names with biases on q, k and v,
// none on o. The latter have three rows of positions (mrope_section).

#include <mha/load/families/llama_like.hpp>
#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

bool is_qwen2(const Group& group) {
  if (group.configured("model_type"))
    return group.is_model(
        {"qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl", "qwen2_vl_text", "qwen2_5_vl_text"});
  return group.has("q_proj.bias") && !group.has("o_proj.bias") && !group.has("q_norm.weight");
}

void translate_qwen2(const Group&, Translation& to) {
  take_llama(to);
  set_rotary(to, {.style = "half"});
  // use_sliding_window is usually false; the lower layers see everything even if it is true.
  set_window(to, upper_layers, 4096);
}

constexpr ModelRecord qwen2_record = llama_model("qwen2");

} // namespace

const Family qwen2{"qwen2",
                   "Qwen2",
                   "qwen2 qwen2_moe qwen2_vl qwen2_5_vl qwen2_vl_text qwen2_5_vl_text",
                   llama_needs,
                   llama_knows,
                   is_qwen2,
                   translate_qwen2,
                   &qwen2_record};

} // namespace mha::naming
