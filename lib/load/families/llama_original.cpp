// LLaMA and Mistral as their makers publish them: layers.N.attention.wq … wo, (out, in). Their
// rotary embedding pairs neighbours; Hugging Face's files have the rows of q and k in another
// order.

#include <mha/load/families/namings.hpp>
#include <mha/load/families/positions.hpp>
#include <mha/load/families/windows.hpp>

namespace mha::naming {

namespace {

void translate_llama_original(const Group& group, Translation& to) {
  to.take_projections("wq", "wk", "wv", "wo");
  to.set_from_config("num_heads", {"n_heads"});
  to.set_from_config("num_kv_heads", {"n_kv_heads"});
  to.set("causal", "true");
  set_rotary(to, {.style = "interleaved"});
  // Of the feed-forward's width, which the tensors have.
  to.group().configured({"multiple_of"}), to.group().configured({"ffn_dim_multiplier"});
  if (to.is_true({"use_scaled_rope"}))
    to.warn(message(
        "use_scaled_rope: give <rope_scaling> llama3 and its factors (<rope_factor> …), which "
        "these files do not hold"));
  set_window(to, every_layer);
  to.normalises(NormKind::rms, {group.parent() + "attention_norm"}, {"norm_eps"}, 1e-5);
}

constexpr ModelRecord llama_original_record{
    .layers = "layers",
    .beside = "rope.freqs freqs_cos freqs_sin freqs_cis",
    .tokens = "tok_embeddings",
    .norm = InputNorm::rms,
    .eps_keys = "norm_eps",
    .eps = 1e-5,
    .pre_mlp_norm = "ffn_norm",
    .mlp_in = "feed_forward.w1",
    .mlp_up = "feed_forward.w3",
    .mlp_out = "feed_forward.w2",
    .mlp_bias = Bias::never,
    .activation = "silu",
    .last_norm = "norm",
    .head = "output",
};

} // namespace

const Family llama_original{"llama_original",
                            "LLaMA (original)",
                            "llama mistral mixtral",
                            "wq.weight wk.weight wv.weight wo.weight",
                            "wq.bias wk.bias wv.bias wo.bias",
                            nullptr,
                            translate_llama_original,
                            &llama_original_record,
                            nullptr,
                            "feed_forward.gate feed_forward.experts"};

} // namespace mha::naming
