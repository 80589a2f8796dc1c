// LLaMA and Mistral as their makers publish them: layers.N.attention.wq … wo, (out, in). Their
// rotary embedding pairs neighbours; Hugging Face's files have the rows of q and k in another
// order.

#include <mha/load/families/namings.hpp>
#include <mha/load/families/positions.hpp>

namespace mha::naming {

namespace {

void translate_llama_original(const Group& group, Translation& to) {
  to.take_projections("wq", "wk", "wv", "wo");
  to.set_from_config("num_heads", {"n_heads"});
  to.set_from_config("num_kv_heads", {"n_kv_heads"});
  to.set("causal", "true");
  set_rotary(to, {.style = "interleaved"});
  if (to.is_true({"use_scaled_rope"}))
    to.warn("use_scaled_rope: give --rope-scaling llama3 and its factors (--rope-factor …), which "
            "these files do not hold");
  set_window(to, every_layer);
  to.normalises(NormKind::rms, {group.parent() + "attention_norm"}, {"norm_eps"}, 1e-5);
}

} // namespace

const Family llama_original{"llama_original",
                            "LLaMA (original)",
                            "wq.weight wk.weight wv.weight wo.weight",
                            "wq.bias wk.bias wv.bias wo.bias",
                            nullptr,
                            translate_llama_original};

} // namespace mha::naming
