#include <mha/load/draft_naming.hpp>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <fmt/format.h>

// Drafts of descriptions, of names and shapes as projects publish them.

namespace {

using Names = std::vector<std::pair<std::string, mha::Shape>>;
using Json = nlohmann::json;

struct Model {
  const char* title;
  std::string layers; ///< with {} for the number
  Names of_layer, others;
  std::vector<std::pair<const char*, const char*>> says; ///< a JSON pointer, its value
  std::vector<std::pair<std::string, std::string>> config = {};
};

constexpr std::size_t d = 24, ff = 40, words = 31, length = 16, heads = 4;

/// A weight (out, in), and its bias.
Names linear(const std::string& name, std::size_t out, std::size_t in, bool bias = true) {
  Names names{{name + ".weight", {out, in}}};
  if (bias) names.push_back({name + ".bias", {out}});
  return names;
}
Names norm(const std::string& name) {
  return {{name + ".weight", {d}}, {name + ".bias", {d}}};
}

Names all(std::initializer_list<Names> parts) {
  Names names;
  for (const Names& part : parts) names.insert(names.end(), part.begin(), part.end());
  return names;
}

Names heads_of_their_own() {
  Names names;
  for (std::size_t h = 0; h < heads; ++h)
    for (const char* role : {"key", "query", "value"})
      names.push_back({fmt::format("sa.heads.{}.{}.weight", h, role), {d / heads, d}});
  for (std::size_t h = 0; h < heads; ++h)
    names.push_back({fmt::format("sa.heads.{}.tril", h), {length, length}});
  return names;
}

/// A decoder's layer beside an encoder's: four matrices and more.
Names decoder_layer(std::size_t n) {
  const std::string at = fmt::format("decoder.layers.{}.", n);
  return all({linear(at + "q_proj", ff, ff), linear(at + "k_proj", ff, d),
              linear(at + "v_proj", ff, d), linear(at + "out_proj", ff, ff),
              linear(at + "fc1", ff, ff)});
}

Json drafted(const Model& model) {
  mha::io::Contents file;
  const auto add = [&](const std::string& name, const mha::Shape& shape) {
    mha::io::Entry entry;
    entry.name = name, entry.shape = shape, entry.dtype = mha::DType::f32;
    file.tensors.push_back(std::move(entry));
  };
  for (const auto& [name, shape] : model.others) add(name, shape);
  for (std::size_t n = 0; n < 3; ++n)
    for (const auto& [name, shape] : model.of_layer)
      add(fmt::format(fmt::runtime(model.layers), n) + name, shape);
  for (const auto& [key, value] : model.config) file.config[key] = value;
  const std::optional<std::string> text = mha::draft_naming(file);
  return text ? Json::parse(*text) : Json();
}

const Names own_projections =
    all({linear("q_proj", d, d), linear("k_proj", d, d), linear("v_proj", d, d)});

const std::vector<Model> models{
    {"a tensor a head",
     "blocks.{}.",
     all({heads_of_their_own(), linear("sa.proj", d, d), linear("ffwd.net.0", ff, d),
          linear("ffwd.net.2", d, ff), norm("ln1"), norm("ln2")}),
     all({{{"token_embedding_table.weight", {words, d}},
           {"position_embedding_table.weight", {length, d}},
           {"lm_head.weight", {words, d}}},
          norm("ln_f")}),
     {{"/tensors/W_q", "\"sa.heads.{head}.query.weight\""},
      {"/tensors/W_v", "\"sa.heads.{head}.value.weight\""},
      {"/tensors/mlp.in", "\"ffwd.net.0.weight\""},
      {"/tensors/mlp.out", "\"ffwd.net.2.weight\""},
      {"/settings/num_heads", "4"},
      {"/ignore/0", "\"blocks.{layer}.sa.heads.0.tril\""}}},
    {"norms of alpha and bias",
     "encoder.layers.{}.",
     all({linear("self_attention_block.w_q", d, d, false),
          linear("self_attention_block.w_k", d, d, false),
          linear("self_attention_block.w_v", d, d, false),
          linear("self_attention_block.w_o", d, d, false),
          linear("feed_forward_block.linear_1", ff, d),
          linear("feed_forward_block.linear_2", d, ff),
          {{"residual_connections.0.norm.alpha", {d}},
           {"residual_connections.0.norm.bias", {d}},
           {"residual_connections.1.norm.alpha", {d}},
           {"residual_connections.1.norm.bias", {d}}}}),
     {{"src_embed.embedding.weight", {words, d}},
      {"src_pos.pe", {1, length, d}},
      {"encoder.norm.alpha", {d}},
      {"encoder.norm.bias", {d}}},
     {{"/norm/kind", "\"std\""},
      {"/tensors/norm", "\"residual_connections.0.norm.alpha\""},
      {"/tensors/mlp.norm", "\"residual_connections.1.norm.alpha\""},
      {"/final_norm", "\"encoder.norm.alpha\""}}},
    {"norms before attention, and none at the end",
     "transformer.layers.{}.",
     all({norm("0.norm"), linear("0.fn.to_qkv", 3 * d, d, false), linear("0.fn.to_out.0", d, d),
          norm("1.norm"), linear("1.fn.net.0", ff, d), linear("1.fn.net.3", d, ff)}),
     {{"pos_embedding", {1, length, d}}},
     {{"/block", "\"pre\""}}},
    {"biases of queries and values beside a fused weight",
     "blocks.{}.",
     all({norm("norm1"),
          {{"attn.q_bias", {d}}, {"attn.v_bias", {d}}, {"gamma_1", {d}}, {"gamma_2", {d}}},
          linear("attn.qkv", 3 * d, d, false),
          linear("attn.proj", d, d),
          norm("norm2"),
          linear("mlp.fc1", ff, d),
          linear("mlp.fc2", d, ff)}),
     {{"pos_embed", {1, length, d}}},
     {{"/tensors/b_q", "\"attn.q_bias\""},
      {"/tensors/b_v", "\"attn.v_bias\""},
      {"/tensors/W_o/times", "\"gamma_1\""},
      {"/tensors/b_k", "null"}}},
    {"each head's queries, keys and values together",
     "encoder.layers.{}.",
     all({linear("self_attention.query_key_value", 3 * d, d), linear("self_attention.dense", d, d),
          norm("input_layernorm"), norm("post_attention_layernorm"),
          linear("mlp.dense_h_to_4h", ff, d), linear("mlp.dense_4h_to_h", d, ff)}),
     all({{{"embedding.word_embeddings.weight", {words, d}},
           {"embedding.position_embeddings.weight", {length, d}}},
          norm("encoder.final_layernorm")}),
     {{"/tensors/W_qkv/name", "\"self_attention.query_key_value.weight\""},
      {"/tensors/W_qkv/by", "\"head\""},
      {"/settings/rope", "null"}}},
    {"a list of three projections, norms of a_2",
     "blocks.{}.",
     all({linear("attention.linear_layers.0", d, d),
          linear("attention.linear_layers.1", d, d),
          linear("attention.linear_layers.2", d, d),
          linear("attention.output_linear", d, d),
          linear("feed_forward.w_1", ff, d),
          linear("feed_forward.w_2", d, ff),
          {{"input_sublayer.norm.a_2", {d}},
           {"input_sublayer.norm.b_2", {d}},
           {"output_sublayer.norm.a_2", {d}},
           {"output_sublayer.norm.b_2", {d}}}}),
     {{"embedding.token.weight", {words, d}}, {"embedding.position.pe.weight", {length, d}}},
     {{"/tensors/W_v", "\"attention.linear_layers.2.weight\""},
      {"/tensors/W_o", "\"attention.output_linear.weight\""},
      {"/norm/kind", "\"std\""}}},
    {"a gate behind its factor, RMS norms, rotary",
     "layers.{}.",
     all({{{"0.0.g", {d}}},
          linear("1.to_q", d, d, false),
          linear("1.to_k", d, d, false),
          linear("1.to_v", d, d, false),
          linear("1.to_out", d, d, false),
          {{"2.0.g", {d}}},
          linear("3.ff.0.proj", 2 * ff, d),
          linear("3.ff.2", d, ff)}),
     {{"token_emb.emb.weight", {words, d}},
      {"to_logits.weight", {words, d}},
      {"rotary_pos_emb.inv_freq", {3}},
      {"final_norm.g", {d}}},
     {{"/tensors/mlp.in_up/split", "\"up,in\""},
      {"/tensors/mlp.out", "\"3.ff.2.weight\""},
      {"/norm/kind", "\"rms\""},
      {"/settings/rope", "\"half\""}}},
    {"a gate before its factor, tokens without places",
     "layers.{}.",
     all({linear("attention.wqkv", 2 * d, d, false),
          linear("attention.wo", d, d, false),
          linear("feed_forward.gate_up", 2 * ff, d, false),
          linear("feed_forward.w2", d, ff, false),
          {{"attention_norm.weight", {d}}, {"ffn_norm.weight", {d}}}}),
     {{"tok_embeddings.weight", {words, d}}, {"norm.weight", {d}}, {"output.weight", {words, d}}},
     {{"/tensors/W_qkv", "\"attention.wqkv.weight\""},
      {"/tensors/mlp.in_up/split", "\"in,up\""},
      {"/settings/num_kv_heads", "\"HOW MANY?\""},
      {"/settings/rope", "\"HALF, INTERLEAVED OR NONE?\""}}},
    {"rows of positions before the first",
     "decoder.layers.{}.",
     all({own_projections, linear("out_proj", d, d), norm("self_attn_layer_norm"),
          linear("fc1", ff, d), linear("fc2", d, ff), norm("final_layer_norm")}),
     all({{{"decoder.embed_tokens.weight", {words, d}},
           {"decoder.embed_positions.weight", {length + 2, d}}},
          norm("decoder.layer_norm")}),
     {{"/embed/1/first", "2"}},
     {{"max_position_embeddings", "16"}}},
    {"a table of positions that config.json does not mean, a head's bias",
     "encoder.layer.{}.",
     all({linear("self.query", d, d),
          linear("self.key", d, d),
          linear("self.value", d, d),
          linear("attention.output.dense", d, d),
          norm("attention.LayerNorm"),
          linear("intermediate.dense", ff, d),
          linear("output.dense", d, ff),
          norm("LayerNorm"),
          {{"self.rotary_embeddings.inv_freq", {3}}}}),
     all({{{"embeddings.word_embeddings.weight", {words, d}},
           {"embeddings.position_embeddings.weight", {length, d}},
           {"lm_head.decoder.weight", {words, d}},
           {"lm_head.bias", {words}}},
          linear("lm_head.dense", d, d),
          norm("lm_head.layer_norm"),
          norm("encoder.emb_layer_norm_after")}),
     {{"/embed/1", "null"}, {"/head/bias", "\"lm_head.bias\""}, {"/settings/rope", "\"half\""}},
     {{"position_embedding_type", "rotary"}}},
    {"a convolution is no table of positions, and is not ignored",
     "encoder.layers.{}.",
     all({own_projections, linear("out_proj", d, d), norm("layer_norm"), linear("fc1", ff, d),
          linear("fc2", d, ff), norm("final_layer_norm")}),
     all({{{"encoder.pos_conv_embed.conv.weight_g", {1, 1, 5}},
           {"encoder.pos_conv_embed.conv.weight_v", {d, 6, 5}}},
          norm("encoder.layer_norm")}),
     {{"/embed/0", "null"}, {"/ignore", "null"}}},
    {"patches into an encoder, tokens into a decoder",
     "encoder.encoder.layer.{}.",
     all({own_projections, linear("o_proj", d, d), linear("fc1", ff, d), linear("fc2", d, ff),
          norm("norm1"), norm("norm2")}),
     all({{{"encoder.embeddings.cls_token", {1, 1, d}},
           {"encoder.embeddings.position_embeddings", {1, length, d}},
           {"encoder.embeddings.patch_embeddings.projection.weight", {d, 3, 4, 4}}},
          norm("encoder.layernorm"),
          linear("encoder.pooler.dense", d, d),
          {{"decoder.embed_tokens.weight", {words, ff}},
           {"decoder.embed_positions.weight", {length, ff}}},
          decoder_layer(0),
          decoder_layer(1),
          linear("decoder.output_projection", words, ff)}),
     {{"/embed/0/linear", "\"encoder.embeddings.patch_embeddings.projection.weight\""},
      {"/embed/1/prepend", "\"encoder.embeddings.cls_token\""},
      {"/embed/2/table", "\"encoder.embeddings.position_embeddings\""},
      {"/embed/3", "null"},
      {"/final_norm", "\"encoder.layernorm.weight\""},
      {"/head", "null"},
      {"/ignore/0", "\"decoder.*\""}}},
    {"patches, and a table of tokens that is another part's",
     "encoder.blocks.{}.",
     all({linear("attn.qkv", 3 * d, d), linear("attn.proj", d, d), linear("mlp.fc1", ff, d),
          linear("mlp.fc2", d, ff), norm("norm1"), norm("norm2")}),
     all({{{"encoder.pos_embed", {1, length, d}},
           {"encoder.patch_embed.proj.weight", {d, 3, 4, 8}}},
          norm("encoder.norm"),
          {{"text_embed.embedding.weight", {words, d}}},
          linear("head", words, d)}),
     {{"/embed/0/linear", "\"encoder.patch_embed.proj.weight\""},
      {"/embed/1/table", "\"encoder.pos_embed\""},
      {"/head/name", "\"head.weight\""},
      {"/settings/causal", "false"}}},
    {"a head that only its shape tells, and one norm a layer",
     "layers.{}.",
     all({own_projections, linear("out_proj", d, d), linear("fc_in", ff, d),
          linear("fc_out", d, ff), norm("ln")}),
     all({{{"embedding.weight", {words, d}}, {"mask", {length, length}}},
          norm("ln_f"),
          linear("fc", words, d)}),
     {{"/block", "\"parallel\""},
      {"/head/name", "\"fc.weight\""},
      {"/settings/causal", "true"},
      {"/ignore/0", "\"mask\""}}},
    {"a table of distances in the layers, whose blocks are lists",
     "encoder.block.{}.",
     all({{{"layer.0.SelfAttention.q.weight", {d, d}},
           {"layer.0.SelfAttention.k.weight", {d, d}},
           {"layer.0.SelfAttention.v.weight", {d, d}},
           {"layer.0.SelfAttention.o.weight", {d, d}},
           {"layer.0.SelfAttention.relative_attention_bias.weight", {8, heads}},
           {"layer.0.layer_norm.weight", {d}},
           {"layer.1.DenseReluDense.wi.weight", {ff, d}},
           {"layer.1.DenseReluDense.wo.weight", {d, ff}},
           {"layer.1.layer_norm.weight", {d}}}}),
     {{"shared.weight", {words, d}}, {"encoder.final_layer_norm.weight", {d}}},
     {{"/tensors/mlp.in", "\"layer.1.DenseReluDense.wi.weight\""},
      {"/tensors/mlp.out", "\"layer.1.DenseReluDense.wo.weight\""},
      {"/norm/kind", "\"rms\""}}},
    {"another map's bias is not the head's, and a square map is no head",
     "layers.{}.",
     all({own_projections, linear("out_proj", d, d), linear("ff.0", ff, d), linear("ff.2", d, ff),
          norm("norm1"), norm("norm2")}),
     all({linear("init_embed", d, 2), {{"project_out.weight", {d, d}}}}),
     {{"/embed/0/linear", "\"init_embed.weight\""}, {"/head", "null"}}},
    {"a class that predicts the next token, with the table as its head",
     "model.layers.{}.",
     all({own_projections, linear("o_proj", d, d), linear("fc1", ff, d), linear("fc2", d, ff),
          norm("norm1"), norm("norm2")}),
     all({{{"model.embed_tokens.weight", {words, d}}}, norm("model.norm")}),
     {{"/head/tied", "true"}, {"/settings/causal", "true"}},
     {{"architectures", "OtherForCausalLM"}}},
    {"more matrices in attention's module, and a norm of the heads",
     "blocks.layers.{}.",
     all({linear("attention.query_projection", d, d),
          linear("attention.key_projection", d, d),
          linear("attention.value_projection", d, d),
          linear("attention.out_projection", d, d),
          {{"attention.inner_attention.feature_map.omega", {d / heads, d}}},
          linear("linear1", ff, d),
          linear("linear2", d, ff),
          norm("norm1"),
          norm("norm2")}),
     all({{{"tok_emb.weight", {words, d}},
           {"final_head_layer_norm.weight", {heads}},
           {"final_head_layer_norm.bias", {heads}},
           {"lm_head.weight", {words, d}}},
          linear("lm_head.dense", d, d),
          norm("lm_head.layer_norm"),
          norm("blocks.norm")}),
     {{"/tensors/mlp.in", "\"linear1.weight\""},
      {"/tensors/mlp.out", "\"linear2.weight\""},
      {"/head/norm", "\"lm_head.layer_norm.weight\""},
      {"/final_norm", "\"blocks.norm.weight\""}}},
    {"a rotation's base in config.json",
     "model.layers.{}.",
     all({linear("attention.wqkv", d + d, d, false),
          linear("attention.wo", d, d, false),
          linear("feed_forward.w1", ff, d, false),
          linear("feed_forward.w3", ff, d, false),
          linear("feed_forward.w2", d, ff, false),
          {{"attention_norm.weight", {d}}},
          {{"ffn_norm.weight", {d}}}}),
     {{"model.tok_embeddings.weight", {words, d}},
      {"model.norm.weight", {d}},
      {"output.weight", {words, d}}},
     {{"/settings/rope_base", "\"config:rope_theta\""}},
     {{"rope_theta", "1000000"}, {"num_attention_heads", "4"}, {"num_key_value_heads", "2"}}},
    {"what pickled modules say",
     "layers.{}.",
     all({{{"self_attn.in_proj_weight", {3 * d, d}}, {"self_attn.in_proj_bias", {3 * d}}},
          linear("self_attn.out_proj", d, d),
          linear("linear1", ff, d),
          linear("linear2", d, ff),
          norm("norm1"),
          norm("norm2")}),
     norm("norm"),
     {{"/block", "\"post\""},
      {"/activation", "\"config:layers.0.activation\""},
      {"/norm/eps", "\"config:layers.0.norm1.eps\""},
      {"/settings/num_heads", "\"config:layers.0.self_attn.num_heads\""}},
     {{"layers.0.self_attn.num_heads", "3"},
      {"layers.0.norm_first", "false"},
      {"layers.0.norm1.eps", "1e-06"},
      {"layers.0.activation", "relu"}}},
};

} // namespace

TEST_CASE("a draft of a description says which tensor is which") {
  for (const Model& model : models) {
    INFO(model.title);
    const Json draft = drafted(model);
    INFO(draft.dump(1));
    REQUIRE(draft.is_object());
    for (const auto& [where, value] : model.says) {
      INFO(where);
      const Json::json_pointer at(where);
      CHECK((draft.contains(at) ? draft.at(at) : Json()) == Json::parse(value));
    }
  }
}
