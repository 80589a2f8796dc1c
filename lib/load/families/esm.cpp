// ESM of Hugging Face: BERT's names, normalised before attention by attention.LayerNorm; ESM-2 has
// a rotary embedding, ESM-1b positions that count from the padding token's number.

#include <mha/load/families/namings.hpp>
#include <mha/load/families/positions.hpp>

namespace mha::naming {

namespace {

bool is_esm(const Group& group) {
  if (group.is_model({"roberta-prelayernorm"})) return false; // BERT's kin
  return group.beside("LayerNorm.weight", 0) || group.beside("LayerNorm.gamma", 0);
}

bool is_rotary(const Group& group) {
  const std::optional<std::string> type = group.configured("position_embedding_type");
  if (type && *type != "rotary" && *type != "absolute")
    fail("{}: config.json says position_embedding_type {}: rotary or absolute expected",
         group.contents->name, *type);
  return type ? *type == "rotary" : group.has("self.rotary_embeddings.inv_freq");
}

void translate_esm(const Group& group, Translation& to) {
  to.take_projections("self.query", "self.key", "self.value", "output.dense");
  to.set_from_config("num_heads", {"num_attention_heads"});
  if (is_rotary(group)) set_rotary(to, {.style = "half"});
  group.configured("hidden_act"); // which nothing reads: it is always the exact GELU
  if (to.is_true({"is_decoder"})) to.set("causal", "true", "config.json");
  to.normalises(NormKind::layer, {group.prefix + "LayerNorm"}, {"layer_norm_eps"}, 1e-12);
}

void settle_esm(const Group& group, ModelRecord& record) {
  if (is_rotary(group))
    record.positions = "", record.counts_from_pad = false;
  else
    record.beside = "pooler classifier embeddings.position_ids esm.contact_head contact_head";
  if (group.is_true({"emb_layer_norm_before"})) record.embedding_norm = "embeddings.layer_norm";
  // A mask ratio of 0.15 · 0.8, at which it was trained.
  if (group.is_true({"token_dropout"})) record.embedding_scale = 0.88, record.drops_mask = true;
}

constexpr ModelRecord esm_record{
    .models = "esm",
    .layers = "encoder.layer",
    .always = "attention.self.query.bias attention.self.key.bias attention.self.value.bias "
              "attention.output.dense.bias attention.LayerNorm.bias|attention.LayerNorm.beta "
              "LayerNorm.bias|LayerNorm.beta",
    .beside = "pooler classifier embeddings.position_ids embeddings.position_embeddings "
              "attention.self.rotary_embeddings.inv_freq "
              "esm.contact_head contact_head lm_head.decoder.bias",
    .tokens = "embeddings.word_embeddings",
    .positions = "embeddings.position_embeddings",
    .counts_from_pad = true,
    .eps_keys = "layer_norm_eps",
    .eps = 1e-12,
    .norm_bias = Bias::always,
    .pre_mlp_norm = "LayerNorm",
    .mlp_in = "intermediate.dense",
    .mlp_out = "output.dense",
    .mlp_bias = Bias::always,
    .activation = "gelu",
    .attention_returns = Stage::residual,
    .last_norm = "encoder.emb_layer_norm_after",
    .head = "lm_head.decoder",
    .tied = true,
    .head_dense = "lm_head.dense",
    .head_norm = "lm_head.layer_norm",
    .head_bias = "lm_head.bias",
    .head_activation = "gelu",
    .causal = false,
    .settle = settle_esm,
};

} // namespace

const Family esm{"esm",
                 "ESM",
                 esm_record.models,
                 "self.query.weight self.key.weight self.value.weight output.dense.weight",
                 "self.query.bias self.key.bias self.value.bias output.dense.bias "
                 "self.rotary_embeddings.inv_freq",
                 is_esm,
                 translate_esm,
                 &esm_record};

} // namespace mha::naming
