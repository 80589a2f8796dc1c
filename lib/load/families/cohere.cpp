// Cohere's Command R and R+ (Cohere) and R7B, A (Cohere 2): LLaMA's names; pairs (2i, 2i + 1)
// rotate, layer normalisations without biases, of each head of queries and keys in Command R+.
// Cohere 2's layers with a window rotate, the others do not.

#include <mha/load/families/llama_like.hpp>
#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

bool is_cohere(const Group& group) {
  return group.is_model({"cohere", "cohere2"});
}

void translate_cohere(const Group& group, Translation& to) {
  take_llama(to);
  const bool normed = group.has("q_norm.weight");
  if (group.is_true({"use_qk_norm"}, normed) && !normed)
    fail("{}: {}q_norm.weight is missing, though config.json says use_qk_norm",
         group.contents->name, group.prefix);
  if (normed) take_qk_norm(to, true);
  if (!group.is_model({"cohere2"})) {
    set_rotary(to, {.style = "interleaved"});
    return;
  }
  const std::optional<bool> sliding = is_sliding(group, all_but_every_fourth);
  if (sliding.value_or(true))
    set_rotary(to, {.style = "interleaved"});
  else
    set_no_rotary(to);
  if (!sliding)
    to.warn(message(
        "layers of this model without a window do not rotate, and no number says which layer "
        "this is: taken as one that rotates; <rope> none chooses"));
  set_window(to, all_but_every_fourth, 4096);
}

/// Logits are multiplied by logit_scale.
void settle_cohere(const Group& group, ModelRecord& record) {
  record.head_scale = group.configured_number({"logit_scale"}).value_or(0.0625);
}

constexpr ModelRecord of_cohere() {
  ModelRecord record = llama_model("cohere cohere2");
  record.shape = BlockShape::parallel;
  record.norm = InputNorm::layer;
  record.eps_keys = "layer_norm_eps";
  record.eps = 1e-5;
  record.pre_mlp_norm = "input_layernorm";
  record.tied = true;
  record.settle = settle_cohere;
  return record;
}
constexpr ModelRecord cohere_record = of_cohere();

} // namespace

const Family cohere{"cohere",    "Cohere",  cohere_record.models, llama_needs,
                    llama_knows, is_cohere, translate_cohere,     &cohere_record};

} // namespace mha::naming
