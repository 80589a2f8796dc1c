// OLMo 2 and 3, OLMoE: q_norm and k_norm work on the whole projection, before it is split into
// heads. OLMo 2 and 3 normalise after attention, OLMoE before.

#include <mha/load/families/llama_like.hpp>
#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

bool is_olmo2(const Group& group) {
  if (group.configured("model_type")) return group.is_model({"olmo2", "olmo3", "olmoe"});
  return group.has("q_norm.weight") && !qk_norm_is_per_head(group);
}

void translate_olmo2(const Group& group, Translation& to) {
  take_llama(to);
  require_qk_norm(group, false);
  // OLMo 3 stretches the positions of the layers that see everything alone.
  const bool sliding =
      group.configured("sliding_window") && is_sliding(group, all_but_every_fourth).value_or(false);
  set_rotary(to, {.style = "half", .scaled = !sliding});
  set_window(to, all_but_every_fourth);
  if (!group.beside("input_layernorm.weight")) to.set_post_norm();
}

constexpr ModelRecord olmo2_record = llama_model_normed_after("olmo2 olmo3");

} // namespace

const Family olmo2{"olmo2",     "OLMo 2", "olmo2 olmo3 olmoe", llama_needs,
                   llama_knows, is_olmo2, translate_olmo2,     &olmo2_record};

} // namespace mha::naming
