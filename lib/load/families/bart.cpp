// BART, M2M100, MBart, Marian, Pegasus, OPT: {self_attn,encoder_attn}.{q,k,v,out}_proj, (out, in),
// all with biases. config.json decides between pre-norm and post-norm. XGLM is a decoder without
// saying so in its names; ESM-2 of fairseq rotates queries and keys, and is pre-norm.

#include <mha/load/families/bart.hpp>

#include <mha/load/families/namings.hpp>
#include <mha/load/families/positions.hpp>

namespace mha::naming {

namespace {

void translate_bart(const Group& group, Translation& to) {
  take_bart(to);
  const bool opt = group.is_model({"opt"}), is_rotary = group.has("rot_emb.inv_freq");
  if (group.is_model({"bart", "marian", "blenderbot-small"}) ||
      (opt && !to.is_true({"do_layer_norm_before"}, true)))
    to.set_post_norm();
  else if (opt || group.is_model({"mbart", "m2m_100", "pegasus", "blenderbot", "xglm"}))
    set_bart_pre_norm(to);
  else if (is_rotary)
    set_rotary(to, {.style = "half"}), set_bart_pre_norm(to);
}

} // namespace

void take_bart(Translation& to) {
  const Group& group = to.group();
  to.take_projections("q_proj", "k_proj", "v_proj", "out_proj");
  const bool decoder = group.within({"decoder."}) || group.is_model({"xglm", "biogpt"}),
             cross = group.within({"encoder_attn"});
  // Without a number of heads of its own, the stack has that of num_attention_heads.
  if (!to.set_from_config("num_heads",
                          {decoder ? "decoder_attention_heads" : "encoder_attention_heads"}))
    to.set_from_config("num_heads",
                       {"num_attention_heads", "attention_heads", "model.encoder_attention_heads"});
  if (decoder && !cross) to.set("causal", "true");
  if (cross) to.note("cross-attention: X_kv is the encoder's output");
}

void set_bart_pre_norm(Translation& to) {
  const Group& group = to.group();
  const char* norm =
      group.within({"encoder_attn"}) ? "encoder_attn_layer_norm" : "self_attn_layer_norm";
  to.normalises(NormKind::layer, {group.parent() + norm}, {}, 1e-5);
}

const Family bart{"bart",
                  "BART",
                  "bart mbart m2m_100 marian pegasus blenderbot blenderbot-small xglm",
                  bart_needs,
                  "q_proj.bias k_proj.bias v_proj.bias out_proj.bias rot_emb.inv_freq",
                  nullptr,
                  translate_bart,
                  nullptr,
                  nullptr,
                  bart_beside};

} // namespace mha::naming
