// LLaMA, Mistral and what is named like them: q_proj, k_proj, v_proj, o_proj, (out, in).

#include <mha/load/families/llama_like.hpp>
#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

void translate_llama(const Group& group, Translation& to) {
  // "attention-only": this project's own example layers.
  to.expect_models({"llama", "mistral", "mixtral", "granite", "granitemoe", "ministral", "stablelm",
                    "starcoder2", "attention-only"});
  take_llama(to);
  // Hugging Face's layout pairs dimension i with i + d/2.
  if (group.is_model({"stablelm"}))
    set_rotary(
        to, {.style = "half", .part = 0.25, .part_keys = {"partial_rotary_factor", "rope_pct"}});
  else
    set_rotary(to, {.style = "half"});
  // LLaMA and Granite have no window, whatever their configs say; Mistral has one unless its config
  // says null.
  if (!group.is_model({"llama", "granite", "granitemoe", "stablelm"}))
    set_window(to, every_layer, group.is_model({"mistral", "ministral"}) ? 4096 : 0);
}

/// LLaMA's mlp_bias; Mistral's feed-forward has none.
void settle_llama(const Group& group, ModelRecord& record) {
  if (group.contents->format == "gguf") return; // which does not say it
  if (!group.configured("model_type") && !group.configured("mlp_bias")) return;
  const bool biased = group.is_model({"llama"}) && group.is_true({"mlp_bias"});
  record.mlp_bias = biased ? Bias::always : Bias::never;
}

constexpr ModelRecord of_llama() {
  ModelRecord record = llama_model("llama mistral ministral");
  record.mlp_bias = Bias::if_there;
  record.settle = settle_llama;
  return record;
}
constexpr ModelRecord llama_record = of_llama();

} // namespace

const Family llama{"llama", "LLaMA",         llama_needs,  llama_knows,
                   nullptr, translate_llama, &llama_record};

} // namespace mha::naming
