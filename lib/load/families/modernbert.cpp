// ModernBERT: attn.Wqkv and attn.Wo, (out, in); most layers see a window to both sides, and rotate
// with a base of their own. The first layer has no norm before attention: it is the embedding's.

#include <mha/load/families/namings.hpp>
#include <mha/load/families/positions.hpp>
#include <mha/load/families/windows.hpp>

namespace mha::naming {

namespace {

bool sees_window(const Group& group, std::size_t layer) {
  const std::size_t every = group.configured_count({"global_attn_every_n_layers"}, 1).value_or(3);
  return layer % every != 0;
}

void translate_modernbert(const Group& group, Translation& to) {
  to.take_fused("Wqkv", "qkv"), to.take_output("Wo");
  to.set_from_config("num_heads", {"num_attention_heads"});
  const bool window = is_sliding(group, sees_window).value_or(false);
  // A local base of null is the global one.
  const double whole = to.positive_number({"global_rope_theta"}).value_or(160000);
  to.positive_number({"local_rope_theta"});
  set_rotary(to, {.style = "half",
                  .base_keys = {window ? "local_rope_theta" : "global_rope_theta"},
                  .base = !window || group.says("local_rope_theta") ? whole : 10000,
                  .layer_type = window ? "sliding_attention" : "full_attention"});
  if (const std::size_t width = group.configured_count({"local_attention"}, 1).value_or(128);
      window) {
    to.set("window_left", std::to_string(width / 2), "config.json");
    to.set("window_right", std::to_string(width / 2), "config.json");
  }
  if (group.number() == 0 && !group.beside("attn_norm.weight"))
    to.set_post_norm();
  else
    to.normalises(NormKind::layer, {group.parent() + "attn_norm"}, {"norm_eps"}, 1e-5);
}

/// The head's activation has a key of its own; what the others say, the tensors have.
void settle_modernbert(const Group& group, ModelRecord& record) {
  const std::string act = group.configured("classifier_activation").value_or("gelu");
  for (const std::string_view known : {"gelu", "relu", "silu", "gelu_new", "gelu_pytorch_tanh"})
    if (act == known) record.head_activation = known;
  if (record.head_activation != act)
    fail("{}: config.json says classifier_activation {}, which is not known here",
         group.contents->name, act);
  for (const char* key : {"norm_bias", "decoder_bias", "classifier_bias", "layer_norm_eps"})
    group.configured(key);
}

constexpr ModelRecord modernbert_record{
    .models = "modernbert",
    .layers = "layers",
    .not_in_all = "attn_norm.weight attn_norm.bias",
    .beside = "classifier",
    .tokens = "embeddings.tok_embeddings",
    .embedding_norm = "embeddings.norm",
    .eps_keys = "norm_eps",
    .eps = 1e-5,
    .pre_mlp_norm = "mlp_norm",
    .mlp_gate_up = "mlp.Wi",
    .mlp_out = "mlp.Wo",
    .activation_keys = "hidden_activation",
    .activation = "gelu",
    .last_norm = "final_norm",
    .head = "decoder",
    .tied = true,
    .head_dense = "head.dense",
    .head_dense_bias = Bias::if_there,
    .head_norm = "head.norm",
    .head_bias = "decoder.bias",
    .head_activation = "gelu",
    .causal = false,
    .settle = settle_modernbert,
};

} // namespace

const Family modernbert{
    "modernbert",        "ModernBERT", modernbert_record.models, "Wqkv.weight Wo.weight",
    "Wqkv.bias Wo.bias", nullptr,      translate_modernbert,     &modernbert_record};

} // namespace mha::naming
