// LLaMA, Mistral and what is named like them: q_proj, k_proj, v_proj, o_proj, (out, in).

#include <mha/load/families/llama_like.hpp>
#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

void translate_llama(const Group&, Translation& to) {
  // "attention-only": this project's own example layers.
  to.expect_models({"llama", "mistral", "mixtral", "granite", "granitemoe", "ministral", "stablelm",
                    "starcoder2", "attention-only"});
  take_llama(to);
  // Hugging Face's layout pairs dimension i with i + d/2.
  set_rotary(to, {.style = "half"});
  set_window(to, every_layer);
}

constexpr ModelRecord llama_record = llama_model("llama mistral ministral");

} // namespace

const Family llama{"llama", "LLaMA",         llama_needs,  llama_knows,
                   nullptr, translate_llama, &llama_record};

} // namespace mha::naming
