#include <mha/compare/captures.hpp>
#include <mha/compare/names.hpp>

#include <catch2/catch.hpp>

using namespace mha;

namespace {

/// Blocks as families have them.
TransformerBlock block_of(BlockShape shape, bool gated) {
  TransformerBlock block;
  block.shape = shape;
  block.mlp.in.W = block.mlp.out.W = Tensor(DType::f32, {1, 1});
  if (gated) block.mlp.up.W = Tensor(DType::f32, {1, 1});
  return block;
}

} // namespace

TEST_CASE("captures: one table of porters' names, read as each family means them") {
  using enum Stage;
  const TransformerBlock gpt2 = block_of(BlockShape::pre, false),
                         llama = block_of(BlockShape::pre, true),
                         bert = block_of(BlockShape::post, false),
                         gemma = block_of(BlockShape::sandwich, true),
                         neox = block_of(BlockShape::parallel, false);
  struct Case {
    const TransformerBlock* block;
    std::string_view name;
    std::optional<std::size_t> layer;
    std::vector<Stage> stages;
  };
  const Case cases[]{
      // llama.cpp
      {&llama, "ffn_inp-3", 3, {residual}},
      {&llama, "l_out-11", 11, {resid_post}},
      {&llama, "attn_norm-0", 0, {x}},
      {&llama, "ffn_norm-0", 0, {mlp_x}},
      {&llama, "ffn_gate-0", 0, {mlp_pre}},
      {&llama, "ffn_up-0", 0, {mlp_up}},
      {&gpt2, "ffn_up-0", 0, {mlp_pre}},
      {&llama, "ffn_swiglu-0", 0, {mlp_act}},
      {&llama, "ffn_gate_par-0", 0, {mlp_act}},
      {&llama, "ffn_silu-0", 0, {}},
      {&gpt2, "ffn_gelu-0", 0, {mlp_act}},
      {&llama, "ffn_out-0", 0, {mlp_out}},
      {&llama, "Qcur-2 (reshaped)", 2, {q, q_rope}},
      {&llama, "kqv_out-2", 2, {concat, output}},
      {&llama, "inp_embd", std::nullopt, {embed}},
      {&llama, "result_norm", std::nullopt, {final}},
      {&llama, "result_output", std::nullopt, {logits}},
      {&llama, "norm-2", 2, {}},
      // modules of Hugging Face's, hooked or by nnsight
      {&llama, "model.layers.3", 3, {resid_post}},
      {&llama, "model.layers.3.output", 3, {resid_post}},
      {&llama, "model.layers.3.input", 3, {resid_pre}},
      {&llama, "model.layers.3.output.0", 3, {resid_post}},
      {&llama, "model.layers[3].output[0]", 3, {resid_post}},
      {&llama, "model.layers.3.mlp", 3, {mlp_out}},
      {&llama, "model.layers.3.mlp.input", 3, {mlp_x}},
      {&llama, "model.layers.3.mlp.gate_proj", 3, {mlp_pre}},
      {&llama, "model.layers.3.mlp.up_proj.output", 3, {mlp_up}},
      {&llama, "model.layers.3.mlp.down_proj", 3, {mlp_out}},
      {&llama, "model.layers.3.mlp.down_proj.input.0", 3, {mlp_act}},
      {&llama, "model.layers.3.mlp.act_fn", 3, {}},
      {&llama, "model.layers.3.input_layernorm", 3, {x}},
      {&llama, "model.layers.3.input_layernorm.input", 3, {resid_pre}},
      {&llama, "model.layers.3.post_attention_layernorm", 3, {mlp_x}},
      {&llama, "model.layers.3.post_attention_layernorm.input", 3, {residual}},
      {&gemma, "model.layers.3.post_attention_layernorm", 3, {attn_add}},
      {&gemma, "model.layers.3.pre_feedforward_layernorm", 3, {mlp_x}},
      {&gemma, "model.layers.3.post_feedforward_layernorm", 3, {mlp_add}},
      {&llama, "model.layers.3.self_attn.o_proj", 3, {output}},
      {&llama, "model.layers.3.self_attn.o_proj.input", 3, {concat}},
      {&llama, "model.layers.3.self_attn.output.0", 3, {weights, output}},
      {&llama, "model.layers.3.self_attn.q_proj.input", 3, {x}},
      {&llama, "model.norm", std::nullopt, {final}},
      {&llama, "lm_head", std::nullopt, {logits}},
      {&llama, "lm_head.input", std::nullopt, {final}},
      {&gpt2, "transformer.h.3.mlp.c_proj", 3, {mlp_out}},
      {&gpt2, "transformer.h.3.attn.c_proj", 3, {output}},
      {&gpt2, "transformer.h.3.mlp.c_fc", 3, {mlp_pre}},
      {&gpt2, "transformer.h.3.ln_2", 3, {mlp_x}},
      {&gpt2, "transformer.drop", std::nullopt, {embed}},
      {&gpt2, "transformer.ln_f", std::nullopt, {final}},
      {&neox, "gpt_neox.layers.3.post_attention_layernorm.input", 3, {resid_pre}},
      {&bert, "bert.encoder.layer.3.attention.self.query", 3, {q, q_rope}},
      {&bert, "bert.encoder.layer.3.attention.self", 3, {concat}},
      {&bert, "bert.encoder.layer.3.attention.output.dense", 3, {output}},
      {&bert, "bert.encoder.layer.3.attention.output.LayerNorm", 3, {mlp_x}},
      {&bert, "bert.encoder.layer.3.intermediate.dense", 3, {mlp_pre}},
      {&bert, "bert.encoder.layer.3.intermediate", 3, {mlp_act}},
      {&bert, "bert.encoder.layer.3.output.dense", 3, {mlp_out}},
      {&bert, "bert.encoder.layer.3.output.LayerNorm", 3, {resid_post}},
      {&bert, "bert.encoder.layer.3.output", 3, {resid_post}},
      {&bert, "bert.embeddings", std::nullopt, {embed}},
      // modules that hand on what they get, where nothing is dropped
      {&gpt2, "transformer.h.3.attn.attn_dropout", 3, {weights}},
      {&gpt2, "transformer.h.3.attn.resid_dropout", 3, {output}},
      {&gpt2, "transformer.h.3.mlp.dropout", 3, {mlp_out}},
      {&bert, "bert.encoder.layer.3.attention.self.dropout", 3, {weights}},
      {&bert, "bert.encoder.layer.3.attention.output.dropout", 3, {output}},
      {&bert, "bert.encoder.layer.3.output.dropout", 3, {mlp_out}},
      {&bert, "distilbert.transformer.layer.3.ffn.dropout", 3, {mlp_out}},
      {&neox, "gpt_neox.layers.3.post_attention_dropout", 3, {output}},
      {&neox, "gpt_neox.layers.3.post_mlp_dropout", 3, {mlp_out}},
      {&neox, "gpt_neox.emb_dropout", std::nullopt, {embed}},
      {&bert, "vocab_projector", std::nullopt, {logits}},
      {&bert, "cls.predictions.transform.LayerNorm", std::nullopt, {}},
      // TransformerLens
      {&gpt2, "blocks.3.hook_resid_mid", 3, {residual}},
      {&gpt2, "blocks.3.ln2.hook_normalized", 3, {mlp_x}},
      {&gpt2, "blocks.3.mlp.hook_post", 3, {mlp_act}},
      {&gpt2, "blocks.3.ln1.hook_scale", 3, {}},
      {&gemma, "blocks.3.hook_attn_out", 3, {attn_add}},
      {&gpt2, "ln_final.hook_normalized", std::nullopt, {final}},
      // ours
      {&llama, "layers.3.output", 3, {output}},
      {&llama, "layers.3.mlp_act", 3, {mlp_act}},
      {&llama, "logits", std::nullopt, {logits}},
      {&llama, "optimizer.state", std::nullopt, {}},
  };
  for (const Case& one : cases) {
    Surroundings model;
    model.block = one.block;
    const Capture capture = capture_of(one.name, model);
    INFO(one.name << ": " << capture.why);
    CHECK(capture.layer == one.layer);
    CHECK(capture.stages == one.stages);
  }
}

TEST_CASE("captures: what enters the last norm is the last layer's; fused tensors are several") {
  using enum Stage;
  const Capture last = capture_of("model.norm.input", {});
  CHECK(last.of_last);
  CHECK(last.stages == std::vector{resid_post});
  CHECK(capture_of("model.norm.1", {}).of_last); // of a norm that adds: the sum
  CHECK(capture_of("model.layers.2.self_attn.qkv_proj", {}).side_by_side == std::vector{q, k, v});
  CHECK(capture_of("h.2.attn.c_attn", {}).side_by_side == std::vector{q, k, v});
  CHECK(capture_of("model.layers.2.mlp.gate_up_proj", {}).side_by_side ==
        std::vector{mlp_pre, mlp_up});
}

TEST_CASE("captures: the rows of an embedding that adds positions are not embed") {
  Surroundings gpt2;
  gpt2.bare_embedding = false;
  const Capture rows = capture_of("transformer.wte", gpt2);
  CHECK(rows.stages.empty());
  CHECK_FALSE(rows.why.empty());
  CHECK(capture_of("model.embed_tokens", {}).stages == std::vector{Stage::embed});
}

TEST_CASE("captures: of a lone layer, too, the module above is part of the name") {
  CHECK(result_stages("transformer.h.3.mlp.c_proj") == std::vector{Stage::mlp_out});
  CHECK(result_stages("h.3.attn.c_proj") == std::vector{Stage::output});
  CHECK(result_stages("bert.encoder.layer.3.intermediate.dense") == std::vector{Stage::mlp_pre});
  CHECK(result_stages("c_proj") == std::vector{Stage::output});
}

TEST_CASE("captures: modules whose results a family adds up, or does not norm") {
  using enum Stage;
  const TransformerBlock pre = block_of(BlockShape::pre, false),
                         post = block_of(BlockShape::post, false);
  Surroundings bloom, distilbert;
  bloom.block = &pre, bloom.attention_returns = residual, bloom.mlp_returns = resid_post;
  distilbert.block = &post, distilbert.attention_returns = output;
  const auto stages = [](const Surroundings& model, const char* name) {
    return capture_of(name, model).stages;
  };
  CHECK(stages(bloom, "transformer.h.3.self_attention") == std::vector{weights, residual});
  CHECK(stages(bloom, "transformer.h.3.self_attention.0") == std::vector{weights, residual});
  CHECK(stages(bloom, "transformer.h.3.self_attention.dense") == std::vector{output});
  CHECK(stages(bloom, "transformer.h.3.mlp") == std::vector{resid_post});
  CHECK(stages(bloom, "transformer.h.3.mlp.dense_4h_to_h") == std::vector{mlp_out});
  CHECK(stages(bloom, "ffn_out-3") == std::vector{mlp_out});
  CHECK(stages(distilbert, "distilbert.transformer.layer.3.attention.0") ==
        std::vector{weights, output});
  CHECK(stages(distilbert, "distilbert.transformer.layer.3.ffn") == std::vector{mlp_out});
  const Capture fused = capture_of("gpt_neox.layers.2.attention.query_key_value", bloom);
  CHECK(fused.side_by_side == std::vector{q, k, v});
  CHECK(fused.by_group);
}
