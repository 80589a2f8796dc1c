// BERT, RoBERTa and their relatives: attention.self.{query,key,value}, attention.output.dense,
// (out, in), all with biases. The normalisation comes after attention.

#include <mha/load/families/namings.hpp>
#include <mha/load/families/positions.hpp>

#include <algorithm>
#include <cmath>

namespace mha::naming {

namespace {

/// BERT's kin that normalise before attention and before the feed-forward, by the names of norms.
struct PreNorm {
  std::string_view model, attention, mlp, last, embedding, always;
};
#define MHA_BIASES_OF_BERT                                                                         \
  "attention.self.query.bias attention.self.key.bias attention.self.value.bias "                   \
  "attention.output.dense.bias "
constexpr PreNorm pre_norms[]{
    {"megatron-bert", "ln", "ln", "encoder.ln", "", MHA_BIASES_OF_BERT "attention.ln.bias ln.bias"},
    {"xlm-roberta-xl", "self_attn_layer_norm", "LayerNorm", "encoder.LayerNorm", "",
     MHA_BIASES_OF_BERT "attention.self_attn_layer_norm.bias LayerNorm.bias"},
    {"roberta-prelayernorm", "LayerNorm", "intermediate.LayerNorm", "LayerNorm",
     "embeddings.LayerNorm",
     MHA_BIASES_OF_BERT "attention.LayerNorm.bias intermediate.LayerNorm.bias"},
};
const PreNorm* pre_norm_of(const Group& group) {
  const auto* const found = std::ranges::find_if(
      pre_norms, [&](const PreNorm& one) { return group.is_model({one.model}); });
  return found == std::end(pre_norms) ? nullptr : found;
}

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

/// RoFormer's table of sines and cosines lies in the file, and could be another.
void check_table_of_roformer(Translation& to) {
  const Group& group = to.group();
  const io::Entry* const entry = group.elsewhere(
      group.prefix.substr(0, group.prefix.find("layer.")) + "embed_positions.weight");
  if (!entry || entry->shape.size() != 2 || !is_floating(entry->dtype)) return;
  const Tensor table = group.read(*entry);
  const std::size_t dims = entry->shape[1], half = dims / 2;
  for (std::size_t i = 0; !group.outline && i < std::min<std::size_t>(4, entry->shape[0]) * dims;
       ++i) {
    const std::size_t column = i % dims, pair = column % std::max<std::size_t>(half, 1);
    const double angle =
        static_cast<double>(i / dims) *
        std::pow(10000, -2.0 * static_cast<double>(pair) / static_cast<double>(dims));
    if (std::abs(value_at(table, i) - (column < half ? std::sin(angle) : std::cos(angle))) < 0.01)
      continue;
    return to.warn(fmt::format("{}: {} is not the sines and cosines of 10000^(-2i/{}), which are "
                               "computed with",
                               group.contents->name, entry->name, dims));
  }
}

/// Where config.json is silent.
double usual_eps(const Group& group) {
  return group.is_model({"xlm-roberta-xl"}) ? 1e-5 : 1e-12;
}

void translate_bert(const Group& group, Translation& to) {
  to.refuse({"self.relative_position_bias_table"}, "a learned relative position in two dimensions");
  take_relative_key(group, to);
  to.take_projections("self.query", "self.key", "self.value", "output.dense");
  to.set_from_config("num_heads", {"num_attention_heads"});
  const bool cross = group.within({"crossattention"});
  if (to.is_true({"is_decoder"}) && !cross) to.set("causal", "true", "config.json");
  if (cross) to.note("cross-attention: X_kv is the encoder's output");
  if (group.is_model({"roformer"})) {
    set_rotary(to, {.style = "interleaved"});
    check_table_of_roformer(to);
  }
  if (const PreNorm* const pre = pre_norm_of(group))
    to.normalises(NormKind::layer, {group.prefix + std::string(pre->attention)}, {"layer_norm_eps"},
                  usual_eps(group));
  else
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

void settle_pre_norm(const PreNorm& pre, ModelRecord& record) {
  record.shape = BlockShape::pre;
  record.always = pre.always;
  record.embedding_norm = pre.embedding;
  record.pre_mlp_norm = pre.mlp, record.post_block_norm = "", record.last_norm = pre.last;
  record.attention_returns = Stage::residual;
}

/// RemBERT's tables are narrower than the model, its head's are wider and its own.
void settle_rembert(const Group& group, ModelRecord& record) {
  for (const char* key : {"input_embedding_size", "output_embedding_size"})
    group.configured(key); // which the tensors have
  record.embedding_linear = "encoder.embedding_hidden_mapping_in";
  record.embedding_linear_bias = Bias::always;
  record.head_dense = "cls.predictions.dense", record.head_norm = "cls.predictions.LayerNorm";
  record.tied = false;
}

/// RoFormer rotates queries and keys, by a table that stays in the file.
void settle_roformer(const Group& group, ModelRecord& record) {
  if (group.is_true({"rotary_value"}))
    fail("{}: config.json says rotary_value, which is not covered as a whole model",
         group.contents->name);
  record.positions = "";
  record.beside = "encoder.embed_positions pooler embeddings.token_type_ids cls.seq_relationship "
                  "classifier qa_outputs cls.predictions.decoder.bias";
  const std::string model = group.prefix.substr(0, group.prefix.find("encoder.layer."));
  if (group.elsewhere(model + "embeddings_project.weight"))
    record.embedding_linear = "embeddings_project", record.embedding_linear_bias = Bias::always;
}

/// RoBERTa and its kin count positions from the padding token's number, and name their head so.
void settle_bert(const Group& group, ModelRecord& record) {
  record.eps = usual_eps(group);
  // Relative positions replace the learned ones, whose table stays in the file.
  if (position_embedding_type(group).value_or("absolute") != "absolute")
    record.beside = bert_beside_relative, record.positions = "";
  if (group.prefix.find("electra.") != std::string::npos || group.is_model({"electra"}))
    return settle_electra(group, record);
  if (group.is_model({"rembert"})) return settle_rembert(group, record);
  if (group.is_model({"roformer"})) return settle_roformer(group, record);
  if (group.is_model({"ernie"}) && group.is_true({"use_task_id"}))
    fail("{}: config.json says use_task_id, which is not covered as a whole model",
         group.contents->name);
  group.configured("task_type_vocab_size"); // of these task ids
  if (const PreNorm* const pre = pre_norm_of(group)) settle_pre_norm(*pre, record);
  if (group.prefix.find("roberta.") == std::string::npos &&
      !group.is_model(
          {"roberta", "xlm-roberta", "camembert", "data2vec-text", "roberta-prelayernorm"}))
    return;
  record.counts_from_pad = true;
  // Published models have 1e-5, which their configs say; Transformers' own default is BERT's.
  if (!group.configured("model_type")) record.eps = 1e-5;
  record.head = "lm_head.decoder", record.head_dense = "lm_head.dense";
  record.head_norm = "lm_head.layer_norm", record.head_bias = "lm_head.bias";
  record.head_activation = "gelu";
}

#define MHA_WHOLE_BERT                                                                             \
  "bert roberta xlm-roberta camembert electra data2vec-text ernie megatron-bert rembert "          \
  "roberta-prelayernorm roformer xlm-roberta-xl"
constexpr std::string_view bert_models =
    MHA_WHOLE_BERT " bert-generation dpr layoutlm markuplm roc_bert splinter tapas visual_bert";

constexpr ModelRecord bert_record{
    .models = MHA_WHOLE_BERT,
    .layers = "encoder.layer",
    .always = MHA_BIASES_OF_BERT
    "attention.output.LayerNorm.bias|"
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
    .head_has_bias = Bias::if_there,
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
                  bert_models,
                  "self.query.weight self.key.weight self.value.weight output.dense.weight",
                  "self.query.bias self.key.bias self.value.bias output.dense.bias "
                  "self.distance_embedding.weight self.relative_position_bias_table",
                  nullptr,
                  translate_bert,
                  &bert_record,
                  nullptr,
                  "crossattention"};

} // namespace mha::naming
