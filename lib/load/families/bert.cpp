// BERT, RoBERTa and their relatives: attention.self.{query,key,value}, attention.output.dense,
// (out, in), all with biases. The normalisation comes after attention.

#include <mha/load/families/namings.hpp>
#include <mha/load/families/positions.hpp>

namespace mha::naming {

namespace {

/// A vector for every distance, in every layer: position_embedding_type relative_key, which q is
/// multiplied with, or relative_key_query: k, too.
void take_relative_key(const Group& group, Translation& to) {
  const std::optional<std::string> type = position_embedding_type(group);
  if (!group.has("self.distance_embedding.weight")) {
    if (type && type->starts_with("relative_key"))
      fail("{}: {}self.distance_embedding.weight is missing, though config.json says {}",
           group.contents->name, group.prefix, *type);
    return;
  }
  if (type == "absolute")
    return to.pass_over_with_warning("self.distance_embedding.weight",
                                     "config.json says position_embedding_type absolute");
  to.take("relative_key", "self.distance_embedding.weight");
  if (!type)
    to.warn(message("config.json does not say position_embedding_type: taken as relative_key; "
                    "<relative_key_query> chooses the other"));
  else
    to.set("relative_key_query", *type == "relative_key_query" ? "true" : "false", "config.json");
}

void translate_bert(const Group& group, Translation& to) {
  to.expect_models({"bert", "roberta", "xlm-roberta", "camembert", "electra", "data2vec-text",
                    "xlm-roberta-xl"});
  to.refuse({"self.relative_position_bias_table"}, "a learned relative position in two dimensions");
  take_relative_key(group, to);
  to.take_projections("self.query", "self.key", "self.value", "output.dense");
  to.set_from_config("num_heads", {"num_attention_heads"});
  const bool cross = group.within({"crossattention"});
  if (to.is_true({"is_decoder"}) && !cross) to.set("causal", "true", "config.json");
  if (cross) to.note("cross-attention: X_kv is the encoder's output");
  to.set_post_norm();
}

constexpr std::string_view
    bert_beside_relative = "embeddings.position_embeddings pooler embeddings.position_ids "
                           "embeddings.token_type_ids cls.seq_relationship classifier qa_outputs "
                           "lm_head.decoder.bias cls.predictions.decoder.bias",
    bert_beside = bert_beside_relative.substr(bert_beside_relative.find(' ') + 1);

/// ELECTRA's tables may be narrower than the model; the generator has a head, the discriminator one
/// that is no language model's.
void settle_electra(const Group& group, ModelRecord& record) {
  record.beside = "embeddings.position_ids embeddings.token_type_ids discriminator_predictions "
                  "classifier qa_outputs sequence_summary generator_lm_head.weight";
  const std::string model = group.prefix.substr(0, group.prefix.find("encoder.layer."));
  if (group.elsewhere(model + "embeddings_project.weight"))
    record.embedding_linear = "embeddings_project", record.embedding_linear_bias = Bias::always;
  record.head = "generator_lm_head", record.head_bias = "generator_lm_head.bias";
  record.head_dense = "generator_predictions.dense";
  record.head_norm = "generator_predictions.LayerNorm", record.head_activation = "gelu";
}

/// RoBERTa and its kin count positions from the padding token's number, and name their head so.
void settle_bert(const Group& group, ModelRecord& record) {
  // Relative positions replace the learned ones, whose table stays in the file.
  if (position_embedding_type(group).value_or("absolute") != "absolute")
    record.beside = bert_beside_relative, record.positions = "";
  if (group.prefix.find("electra.") != std::string::npos || group.is_model({"electra"}))
    return settle_electra(group, record);
  if (group.prefix.find("roberta.") == std::string::npos &&
      !group.is_model({"roberta", "xlm-roberta", "camembert"}))
    return;
  record.counts_from_pad = true;
  // Published models have 1e-5, which their configs say; Transformers' own default is BERT's.
  if (!group.configured("model_type")) record.eps = 1e-5;
  record.head = "lm_head.decoder", record.head_dense = "lm_head.dense";
  record.head_norm = "lm_head.layer_norm", record.head_bias = "lm_head.bias";
  record.head_activation = "gelu";
}

constexpr ModelRecord bert_record{
    .models = "bert roberta xlm-roberta camembert electra",
    .layers = "encoder.layer",
    .always = "attention.self.query.bias attention.self.key.bias attention.self.value.bias "
              "attention.output.dense.bias attention.output.LayerNorm.bias|"
              "attention.output.LayerNorm.beta output.LayerNorm.bias|output.LayerNorm.beta",
    .beside = bert_beside,
    .tokens = "embeddings.word_embeddings",
    .positions = "embeddings.position_embeddings",
    .types = "embeddings.token_type_embeddings",
    .embedding_norm = "embeddings.LayerNorm",
    .shape = BlockShape::post,
    .eps_keys = "layer_norm_eps",
    .eps = 1e-12,
    .norm_bias = Bias::always,
    .pre_mlp_norm = "attention.output.LayerNorm",
    .post_block_norm = "output.LayerNorm",
    .mlp_in = "intermediate.dense",
    .mlp_out = "output.dense",
    .mlp_bias = Bias::always,
    .activation_keys = "hidden_act",
    .activation = "gelu",
    .head = "cls.predictions.decoder",
    .tied = true,
    .head_dense = "cls.predictions.transform.dense",
    .head_norm = "cls.predictions.transform.LayerNorm",
    .head_bias = "cls.predictions.bias",
    .causal = false,
    .settle = settle_bert,
};

} // namespace

const Family bert{"bert",
                  "BERT",
                  "self.query.weight self.key.weight self.value.weight output.dense.weight",
                  "self.query.bias self.key.bias self.value.bias output.dense.bias "
                  "self.distance_embedding.weight self.relative_position_bias_table",
                  nullptr,
                  translate_bert,
                  &bert_record};

} // namespace mha::naming
