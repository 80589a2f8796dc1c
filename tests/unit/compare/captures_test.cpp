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
      // nodes of exported graphs: torch.onnx, ONNX Runtime GenAI
      {&llama, "/model/layers.3/self_attn/o_proj/MatMul_output_0", 3, {output}},
      {&llama, "/model/layers.3/self_attn/o_proj/MatMul/output_0", 3, {output}},
      {&llama, "/model/layers.3/attn/q_proj/Add/output_0", 3, {q}},
      {&llama, "/model/layers.3/self_attn/Softmax_output_0", 3, {weights}},
      {&llama, "/model/layers.3/self_attn/MatMul_output_0", 3, {scores, scaled}},
      {&llama, "/model/layers.3/self_attn/MatMul_1_output_0", 3, {head_out}},
      {&llama, "/model/layers.3/self_attn/Add_1_output_0", 3, {k_rope}},
      {&llama, "/model/layers.3/self_attn/Reshape_4_output_0", 3, {}},
      {&llama, "/model/layers.3/attn/k_rotary/RotaryEmbedding/output_0", 3, {k_rope}},
      {&llama, "/model/layers.3/attn/GroupQueryAttention/output_0", 3, {concat}},
      {&llama, "/model/layers.3/mlp/act_fn/Mul_output_0", 3, {}},
      {&llama, "/model/layers.3/mlp/act_fn/Sigmoid_output_0", 3, {}},
      {&llama, "/model/layers.3/mlp/Mul_output_0", 3, {mlp_act}},
      {&llama, "/model/layers.3/input_layernorm/Mul_1_output_0", 3, {x}},
      {&llama, "/model/layers.3/input_layernorm/Mul_output_0", 3, {}},
      {&llama, "/model/layers.3/input_layernorm/SkipLayerNorm/output_3", 3, {resid_pre}},
      {&llama, "/model/layers.3/post_attention_layernorm/SkipLayerNorm/output_0", 3, {mlp_x}},
      {&llama, "/model/layers.3/post_attention_layernorm/SkipLayerNorm/output_3", 3, {residual}},
      {&llama, "/model/layers.3/Add_output_0", 3, {residual}},
      {&llama, "/model/layers.3/Add_1_output_0", 3, {resid_post}},
      {&neox, "/gpt_neox/layers.3/Add_output_0", 3, {}},
      {&neox, "/gpt_neox/layers.3/Add_1_output_0", 3, {resid_post}},
      {&gpt2, "/transformer/h.3/attn/c_proj/Add_output_0", 3, {output}},
      {&gpt2, "/transformer/h.3/attn/c_proj/Reshape_output_0", 3, {}},
      {&gpt2, "/transformer/h.3/attn/c_proj/Reshape_1_output_0", 3, {output}},
      {&gpt2, "/transformer/h.3/mlp/act/Tanh_output_0", 3, {}},
      {&gpt2, "/transformer/h.3/ln_1/LayerNormalization_output_0", 3, {x}},
      {&bert, "/bert/encoder/layer.3/attention/output/Add_output_0", 3, {residual}},
      {&bert, "/bert/encoder/layer.3/output/Add_output_0", 3, {}},
      {&bert,
       "/bert/encoder/layer.3/intermediate/intermediate_act_fn/Mul_1_output_0",
       3,
       {mlp_act}},
      {&bert, "/bert/embeddings/LayerNorm/LayerNormalization_output_0", std::nullopt, {embed}},
      {&llama,
       "/model/layers.32/final_norm_layernorm/SkipLayerNorm/output_0",
       std::nullopt,
       {final}},
      {&llama, "/model/norm/Mul_1_output_0", std::nullopt, {final}},
      {&llama, "/lm_head/MatMul_output_0", std::nullopt, {logits}},
      {&llama, "/model/Add_output_0", std::nullopt, {}},
      // caches
      {&llama, "present.3.key", 3, {k_rope}},
      {&llama, "past_key_values.3.value", 3, {v}},
      {&llama, "past_key_values_3_key", 3, {k_rope}},
      {&llama, "past_key_values.3.1", 3, {v}},
      {&llama, "key_cache.3", 3, {k_rope}},
      {&llama, "v_cache_3", 3, {v}},
      {&llama, "cache.3.keys", 3, {k_rope}},
      {&llama, "cache_v_l3", 3, {v}},
      {&llama, "layers.3.attention.cache_k", 3, {k_rope}},
      // underscores for separators: torch.fx, torch.compile, files of a program's own
      {&llama, "model_layers_3_self_attn_q_proj", 3, {q}},
      {&llama, "model_layers_3_mlp_down_proj", 3, {mlp_out}},
      {&llama, "model_layers_3", 3, {resid_post}},
      {&llama, "L__self___model_layers_3_self_attn_o_proj", 3, {output}},
      {&llama,
       "l_self_modules_model_modules_layers_modules_3_modules_mlp_modules_up_proj",
       3,
       {mlp_up}},
      {&gpt2, "transformer_h_3_ln_1", 3, {x}},
      {&gpt2, "transformer_h_3_attn_c_proj", 3, {output}},
      {&bert, "bert_encoder_layer_3_attention_output_layer_norm", 3, {mlp_x}},
      {&bert, "bert_encoder_layer_3_output_dropout", 3, {mlp_out}},
      {&llama, "_model_layers.3_mlp_down_proj_MatMul_output_0", 3, {mlp_out}},
      {&llama, "layer_3_q_rope", 3, {q_rope}},
      {&llama, "layer3_mlp_out", 3, {mlp_out}},
      {&llama, "block3_out", 3, {resid_post}},
      {&llama, "mlp_out_3", 3, {mlp_out}},
      {&llama, "lm_head", std::nullopt, {logits}},
      {&llama, "model_norm", std::nullopt, {final}},
      // Flax's intermediates, TensorRT-LLM
      {&llama, "intermediates/model/layers/3/mlp/__call__/0", 3, {mlp_out}},
      {&llama, "intermediates/layers_3/__call__/0", 3, {resid_post}},
      {&llama, "intermediates/model/norm/__call__/0", std::nullopt, {final}},
      {&llama, "transformer.layers.3.attention.dense", 3, {output}},
      {&llama, "transformer.layers.3.post_layernorm", 3, {mlp_x}},
      {&llama, "transformer.layers.3.mlp.fc", 3, {mlp_pre}},
      {&llama, "transformer.layers.3.mlp.gate", 3, {mlp_pre, mlp_up}},
      {&gpt2, "transformer.layers.3.mlp.fc", 3, {mlp_pre}},
      {&llama, "transformer.vocab_embedding", std::nullopt, {embed}},
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

TEST_CASE("captures: a product of an exported graph is one before its bias") {
  CHECK(capture_of("/model/layers.2/mlp/up_proj/MatMul_output_0", {}).product);
  CHECK(capture_of("/model/layers.2/mlp/up_proj/MatMul/output_0", {}).product);
  CHECK_FALSE(capture_of("/h.2/mlp/c_fc/Gemm_output_0", {}).product);
  CHECK_FALSE(capture_of("/h.2/mlp/c_fc/Add_output_0", {}).product);
  CHECK(capture_of("/h.2/attn/c_attn/Gemm_output_0", {}).side_by_side.size() == 3);
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
  CHECK(fused.groups == 0);
}
