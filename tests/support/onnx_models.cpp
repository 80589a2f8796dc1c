#include "support/onnx_models.hpp"

#include "support/onnx_modules.hpp"

#include <algorithm>

namespace onnx {

namespace {

ModelForm gpt2() {
  Builder b("gpt2", {.D = 8});
  const Sizes& s = b.s;
  std::string x =
      b.sum("transformer", b.gather("transformer.wte", {s.vocabulary, s.D}, "input_ids"),
            b.gather("transformer.wpe", {most_positions, s.D}, b.positions()));
  for (const std::string n : {"0", "1"}) {
    const std::string h = "transformer.h." + n;
    const std::string fused =
        b.conv1d(h + ".attn.c_attn", b.layer_norm(h + ".ln_1", x, 1e-5), s.D, 3 * s.D);
    b.in(h + ".attn");
    std::vector<std::string> parts;
    for (std::int64_t i = 0; i < 3; ++i)
      parts.push_back(b.heads(b.g.add("Slice", {fused, b.g.integers({i * s.D}),
                                                b.g.integers({(i + 1) * s.D}), b.g.integers({2})}),
                              s.H));
    const std::string heads =
        b.attention(h + ".attn", parts[0], parts[1], parts[2], b.scale(), true);
    x = b.sum(h, b.conv1d(h + ".attn.c_proj", heads, s.D, s.D), x);
    const std::string in =
        b.conv1d(h + ".mlp.c_fc", b.layer_norm(h + ".ln_2", x, 1e-5), s.D, s.wide);
    x = b.sum(h, x, b.conv1d(h + ".mlp.c_proj", b.gelu_tanh(h + ".mlp.act", in), s.wide, s.D));
  }
  x = b.layer_norm("transformer.ln_f", x, 1e-5);
  b.in("lm_head");
  const std::string head = b.g.add("Transpose", {"transformer.wte.weight"}, {{"perm", Dims{1, 0}}});
  return b.done(
      b.g.add("MatMul", {x, head}),
      R"({"model_type": "gpt2", "n_head": 2, "n_embd": 8, "n_layer": 2, "vocab_size": 17})");
}

constexpr const char* config_of_llama =
    R"({"model_type": "llama", "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 12,
                    "intermediate_size": 20, "num_hidden_layers": 2, "vocab_size": 17, "rms_norm_eps": 1e-5,
                    "rope_theta": 10000, "hidden_act": "silu", "tie_word_embeddings": false})";

ModelForm llama() {
  Builder b("llama", {.H = 4, .kv = 2});
  const Sizes& s = b.s;
  std::string x = b.gather("model.embed_tokens", {s.vocabulary, s.D}, "input_ids");
  for (const std::string n : {"0", "1"}) {
    const std::string h = "model.layers." + n, at = h + ".self_attn";
    const std::string X = b.rms_norm(h + ".input_layernorm", x, 1e-5, s.D);
    const std::string q = b.linear(at + ".q_proj", X, s.D, s.H * s.d, false),
                      k = b.linear(at + ".k_proj", X, s.D, s.kv * s.d, false),
                      v = b.linear(at + ".v_proj", X, s.D, s.kv * s.d, false);
    b.in(at);
    const std::string heads =
        b.attention(at, b.rotated(b.heads(q, s.H), s.d), b.rotated(b.heads(k, s.kv), s.d),
                    b.heads(v, s.kv), b.scale(), true);
    x = b.sum(h, x, b.linear(at + ".o_proj", heads, s.H * s.d, s.D, false));
    const std::string y = b.rms_norm(h + ".post_attention_layernorm", x, 1e-5, s.D);
    const std::string gate =
        b.silu(h + ".mlp.act_fn", b.linear(h + ".mlp.gate_proj", y, s.D, s.wide, false));
    const std::string up = b.linear(h + ".mlp.up_proj", y, s.D, s.wide, false);
    b.in(h + ".mlp");
    const std::string product = b.g.add("Mul", {gate, up});
    x = b.sum(h, x, b.linear(h + ".mlp.down_proj", product, s.wide, s.D, false));
  }
  x = b.rms_norm("model.norm", x, 1e-5, s.D);
  return b.done(b.linear("lm_head", x, s.D, s.vocabulary, false), config_of_llama);
}

ModelForm bert() {
  Builder b("bert", {.D = 8});
  const Sizes& s = b.s;
  b.g.inputs.push_back({"attention_mask", {"batch", "sequence"}, i64});
  b.g.inputs.push_back({"token_type_ids", {"batch", "sequence"}, i64});
  b.form.has_types = b.form.has_mask = true;
  const std::string e = "bert.embeddings";
  std::string x = b.gather(e + ".word_embeddings", {s.vocabulary, s.D}, "input_ids");
  x = b.sum(e, x, b.gather(e + ".token_type_embeddings", {2, s.D}, "token_type_ids"));
  x = b.sum(e, x, b.gather(e + ".position_embeddings", {most_positions, s.D}, b.positions()));
  x = b.spelt_layer_norm(e + ".LayerNorm", x, 1e-12);
  for (const std::string n : {"0", "1"}) {
    const std::string h = "bert.encoder.layer." + n, at = h + ".attention";
    const std::string q = b.linear(at + ".self.query", x, s.D, s.D, true),
                      k = b.linear(at + ".self.key", x, s.D, s.D, true),
                      v = b.linear(at + ".self.value", x, s.D, s.D, true);
    b.in(at + ".self");
    const std::string heads = b.attention(at + ".self", b.heads(q, s.H), b.heads(k, s.H),
                                          b.heads(v, s.H), b.scale(), false);
    const std::string out = b.linear(at + ".output.dense", heads, s.D, s.D, true);
    x = b.spelt_layer_norm(at + ".output.LayerNorm", b.sum(at + ".output", out, x), 1e-12);
    const std::string in = b.gelu(h + ".intermediate.intermediate_act_fn",
                                  b.linear(h + ".intermediate.dense", x, s.D, s.wide, true));
    const std::string made = b.linear(h + ".output.dense", in, s.wide, s.D, true);
    x = b.spelt_layer_norm(h + ".output.LayerNorm", b.sum(h + ".output", made, x), 1e-12);
  }
  const std::string t = "cls.predictions.transform";
  x = b.gelu(t + ".transform_act_fn", b.linear(t + ".dense", x, s.D, s.D, true));
  x = b.spelt_layer_norm(t + ".LayerNorm", x, 1e-12);
  b.in("cls.predictions.decoder");
  const std::string head =
      b.g.add("Transpose", {"bert.embeddings.word_embeddings.weight"}, {{"perm", Dims{1, 0}}});
  const std::string y = b.g.add("MatMul", {x, head});
  return b.done(
      b.g.add("Add", {y, b.param("cls.predictions.bias", {s.vocabulary})}),
      R"({"model_type": "bert", "num_attention_heads": 2, "hidden_size": 8, "num_hidden_layers": 2,
                    "intermediate_size": 20, "vocab_size": 17, "max_position_embeddings": 32, "type_vocab_size": 2})");
}

ModelForm neox() {
  Builder b("gpt_neox", {.d = 8, .D = 16});
  const Sizes& s = b.s;
  std::string x = b.gather("gpt_neox.embed_in", {s.vocabulary, s.D}, "input_ids");
  for (const std::string n : {"0", "1"}) {
    const std::string h = "gpt_neox.layers." + n, at = h + ".attention";
    const std::string fused = b.linear(
        at + ".query_key_value", b.layer_norm(h + ".input_layernorm", x, 1e-5), s.D, 3 * s.D, true);
    b.in(at);
    const std::string cut = b.g.add("Reshape", {fused, b.g.integers({0, 0, s.H, 3 * s.d})});
    std::vector<std::string> parts;
    for (std::int64_t i = 0; i < 3; ++i)
      parts.push_back(
          b.g.add("Transpose",
                  {b.g.add("Slice", {cut, b.g.integers({i * s.d}), b.g.integers({(i + 1) * s.d}),
                                     b.g.integers({3})})},
                  {{"perm", Dims{0, 2, 1, 3}}}));
    const std::string heads =
        b.attention(at, b.rotated(parts[0], 2), b.rotated(parts[1], 2), parts[2], b.scale(), true);
    const std::string out = b.linear(at + ".dense", heads, s.D, s.D, true);
    const std::string in =
        b.gelu(h + ".mlp.act",
               b.linear(h + ".mlp.dense_h_to_4h",
                        b.layer_norm(h + ".post_attention_layernorm", x, 1e-5), s.D, s.wide, true));
    x = b.sum(h, b.sum(h, b.linear(h + ".mlp.dense_4h_to_h", in, s.wide, s.D, true), out), x);
  }
  x = b.layer_norm("gpt_neox.final_layer_norm", x, 1e-5);
  return b.done(
      b.linear("embed_out", x, s.D, s.vocabulary, false),
      R"({"model_type": "gpt_neox", "num_attention_heads": 2, "hidden_size": 16, "num_hidden_layers": 2,
                    "intermediate_size": 20, "vocab_size": 17, "rotary_pct": 0.25, "rotary_emb_base": 10000,
                    "use_parallel_residual": true, "hidden_act": "gelu"})");
}

/// Norms before and after both parts, or after alone; of heads, or of all heads together; logits
/// that are capped, or not.
ModelForm normed_behind(const std::string& name) {
  const bool gemma = name != "olmo2", third = name == "gemma3";
  Builder b(name, {.H = 4, .kv = gemma ? 2 : 4});
  const Sizes& s = b.s;
  std::string x = b.gather("model.embed_tokens", {s.vocabulary, s.D}, "input_ids");
  if (gemma) x = b.g.add("Mul", {x, b.g.number(std::sqrt(static_cast<float>(s.D)))});
  const double eps = gemma ? 1e-6 : 1e-5;
  for (const std::string n : {"0", "1"}) {
    const std::string h = "model.layers." + n, at = h + ".self_attn";
    const auto norm = [&](const std::string& module, const std::string& of) {
      return b.rms_norm(h + "." + module, of, eps, s.D, gemma);
    };
    const std::string X = gemma ? norm("input_layernorm", x) : x;
    std::string q = b.linear(at + ".q_proj", X, s.D, s.H * s.d, false),
                k = b.linear(at + ".k_proj", X, s.D, s.kv * s.d, false);
    const std::string v = b.linear(at + ".v_proj", X, s.D, s.kv * s.d, false);
    if (!gemma) {
      q = b.rms_operator(at + ".q_norm", q, eps, s.H * s.d);
      k = b.rms_operator(at + ".k_norm", k, eps, s.kv * s.d);
    }
    b.in(at);
    q = b.heads(q, s.H), k = b.heads(k, s.kv);
    if (third) {
      q = b.rms_norm(at + ".q_norm", q, eps, s.d, true);
      k = b.rms_norm(at + ".k_norm", k, eps, s.d, true);
    }
    b.in(at);
    const std::string heads =
        b.attention(at, b.rotated(q, s.d), b.rotated(k, s.d), b.heads(v, s.kv), b.scale(), true,
                    gemma && !third ? 50 : 0);
    const std::string out = b.linear(at + ".o_proj", heads, s.H * s.d, s.D, false);
    x = b.sum(h, x, norm("post_attention_layernorm", out));
    const std::string y = gemma ? norm("pre_feedforward_layernorm", x) : x;
    const std::string in = b.linear(h + ".mlp.gate_proj", y, s.D, s.wide, false);
    const std::string gate =
        gemma ? b.gelu_tanh(h + ".mlp.act_fn", in) : b.silu(h + ".mlp.act_fn", in);
    const std::string up = b.linear(h + ".mlp.up_proj", y, s.D, s.wide, false);
    b.in(h + ".mlp");
    const std::string made =
        b.linear(h + ".mlp.down_proj", b.g.add("Mul", {gate, up}), s.wide, s.D, false);
    x = b.sum(h, x, norm("post_feedforward_layernorm", made));
  }
  x = b.rms_norm("model.norm", x, eps, s.D, gemma);
  if (!gemma)
    return b.done(
        b.linear("lm_head", x, s.D, s.vocabulary, false),
        R"({"model_type": "olmo2", "num_attention_heads": 4, "num_key_value_heads": 4, "hidden_size": 12,
                      "intermediate_size": 20, "num_hidden_layers": 2, "vocab_size": 17, "rms_norm_eps": 1e-5,
                      "rope_theta": 10000, "hidden_act": "silu", "tie_word_embeddings": false})");
  b.in("lm_head");
  const std::string head =
      b.g.add("Transpose", {"model.embed_tokens.weight"}, {{"perm", Dims{1, 0}}});
  b.in("");
  std::string logits = b.g.add("MatMul", {x, head});
  const std::string config =
      R"("num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 12,
      "intermediate_size": 20, "num_hidden_layers": 2, "vocab_size": 17, "head_dim": 4, "rms_norm_eps": 1e-6,
      "rope_theta": 10000, "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 4,
      "sliding_window": 4096)";
  if (third)
    return b.done(logits, R"({"model_type": "gemma3_text", "rope_local_base_freq": 10000, )" +
                              config + "}");
  logits =
      b.g.add("Mul", {b.g.add("Tanh", {b.g.add("Div", {logits, b.g.number(30)})}), b.g.number(30)});
  return b.done(
      logits,
      R"({"model_type": "gemma2", "attn_logit_softcapping": 50, "final_logit_softcapping": 30, )" +
          config + "}");
}

/// The nodes of onnxruntime-genai's builder (src/python/py/models/builders/base.py).
struct GenaiBuilder : Builder {
  bool fused;
  GenaiBuilder(Sizes sizes, bool fuses) : Builder("genai", sizes), fused(fuses) {}

  std::string of_runtime(const std::string& op, std::vector<std::string> inputs,
                         std::map<std::string, Attribute> attributes) {
    const std::string made = g.add(op, std::move(inputs), std::move(attributes));
    g.nodes.back().domain = "com.microsoft";
    return made;
  }
  std::string product(const std::string& module, const std::string& x, std::int64_t from,
                      std::int64_t to) {
    in(module);
    return g.add("MatMul", {x, param(module + ".MatMul.weight", {from, to}, 0.5)});
  }
  /// The norm of x + `added`, which x becomes.
  std::string skip_norm(const std::string& module, std::string& x, const std::string& added) {
    if (!fused) {
      x = sum(module, x, added);
      return rms_operator(module, x, 1e-5, s.D);
    }
    in(module);
    const std::string weight = param(module + ".weight", {s.D}, 0.3, 1);
    const std::string y =
        of_runtime("SkipSimplifiedLayerNormalization", {x, added, weight}, {{"epsilon", 1e-5F}});
    g.nodes.back().outputs = {y, "", "", x = y + "_sum"};
    return y;
  }
  std::string grouped(const std::string& module, const std::string& n, const std::string& q,
                      const std::string& k, const std::string& v) {
    if (!fused)
      return attention(module, rotated(heads(q, s.H), s.d), rotated(heads(k, s.kv), s.d),
                       heads(v, s.kv), scale(), true);
    in(module);
    for (const char* part : {"key", "value"})
      g.inputs.push_back(
          {"past_key_values." + n + "." + part, {"batch_size", s.kv, "past_sequence_length", s.d}});
    return of_runtime("GroupQueryAttention",
                      {q, k, v, "past_key_values." + n + ".key", "past_key_values." + n + ".value",
                       "seqlens_k", "total", "cos_cache", "sin_cache"},
                      {{"num_heads", s.H},
                       {"kv_num_heads", s.kv},
                       {"scale", static_cast<float>(scale())},
                       {"local_window_size", std::int64_t{-1}},
                       {"softcap", 0.0F},
                       {"do_rotary", std::int64_t{1}},
                       {"rotary_interleaved", std::int64_t{0}}});
  }
  /// What the operator reads of the mask, and its rotation's tables.
  void preprocess() {
    if (!fused) return;
    in("model.attn_mask_reformat.attn_mask_subgraph");
    g.inputs.push_back({"attention_mask", {"batch_size", "total_sequence_length"}, i64});
    const std::string seen = g.add("ReduceSum", {"attention_mask", g.integers({1})});
    g.add("Cast", {g.add("Sub", {seen, g.integers({1})})}, {{"to", std::int64_t{6}}});
    g.nodes.back().outputs = {"seqlens_k"};
    const std::string all = g.add("Gather", {g.add("Shape", {"attention_mask"}), g.integers({1})},
                                  {{"axis", std::int64_t{0}}});
    g.add("Cast", {all}, {{"to", std::int64_t{6}}});
    g.nodes.back().outputs = {"total"};
    for (const bool cosine : {true, false}) {
      Value table{{most_positions, s.d / 2}, {}};
      for (std::int64_t t = 0; t < most_positions; ++t)
        for (std::int64_t i = 0; i < s.d / 2; ++i) {
          const double angle =
              static_cast<double>(t) *
              std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(s.d));
          table.data.push_back(
              static_cast<double>(static_cast<float>(cosine ? std::cos(angle) : std::sin(angle))));
        }
      g.constants[cosine ? "cos_cache" : "sin_cache"] = std::move(table);
    }
  }
};

} // namespace

ModelForm genai_form(bool fused) {
  GenaiBuilder b({.H = 4, .kv = 2}, fused);
  const Sizes& s = b.s;
  b.preprocess();
  std::string x = b.gather("model.embed_tokens", {s.vocabulary, s.D}, "input_ids"), added;
  for (const std::string n : {"0", "1"}) {
    const std::string h = "model.layers." + n, norm = h + ".input_layernorm";
    std::string y;
    if (!added.empty())
      y = b.skip_norm(norm, x, added);
    else
      y = b.rms_operator(norm, x, 1e-5, s.D);
    if (fused && added.empty()) b.g.nodes.back().op = "SimplifiedLayerNormalization";
    const std::string q = b.product(h + ".attn.q_proj", y, s.D, s.H * s.d),
                      k = b.product(h + ".attn.k_proj", y, s.D, s.kv * s.d),
                      v = b.product(h + ".attn.v_proj", y, s.D, s.kv * s.d);
    added = b.product(h + ".attn.o_proj", b.grouped(h + ".attn", n, q, k, v), s.H * s.d, s.D);
    y = b.skip_norm(h + ".post_attention_layernorm", x, added);
    const std::string gate =
        b.silu(h + ".mlp.act_fn", b.product(h + ".mlp.gate_proj", y, s.D, s.wide));
    const std::string up = b.product(h + ".mlp.up_proj", y, s.D, s.wide);
    b.in(h + ".mlp");
    added = b.product(h + ".mlp.down_proj", b.g.add("Mul", {gate, up}), s.wide, s.D);
  }
  const std::string y = b.skip_norm("model.layers.2.final_norm_layernorm", x, added);
  return b.done(b.product("lm_head", y, s.D, s.vocabulary), config_of_llama);
}

std::vector<ModelForm> model_forms() {
  std::vector<ModelForm> forms;
  forms.push_back(gpt2());
  forms.push_back(llama());
  forms.push_back(bert());
  forms.push_back(neox());
  for (const char* name : {"gemma2", "gemma3", "olmo2"}) forms.push_back(normed_behind(name));
  return forms;
}

ModelForm as_dynamo_exports(ModelForm form) {
  std::vector<Node> nodes = std::move(form.graph.nodes);
  form.graph.nodes.clear();
  std::size_t number = 0;
  const auto name = [&](const std::string& op) {
    return "node_" + op + "_" + std::to_string(++number);
  };
  for (Node& node : nodes) {
    if (node.op == "MatMul" && node.inputs[1].starts_with("onnx::")) {
      std::string weight = node.name.substr(1, node.name.rfind('/')) + "weight";
      std::ranges::replace(weight, '/', '.');
      const Value& own = form.graph.constants.at(node.inputs[1]);
      Value turned{{own.shape[1], own.shape[0]}, {}};
      for (std::int64_t out = 0; out < own.shape[1]; ++out)
        for (std::int64_t in = 0; in < own.shape[0]; ++in)
          turned.data.push_back(own.data[static_cast<std::size_t>(in * own.shape[1] + out)]);
      form.graph.constants.erase(node.inputs[1]);
      form.graph.constants[weight] = std::move(turned);
      node.inputs[1] = weight + "_t";
      form.graph.nodes.push_back(
          {"Transpose", {weight}, {node.inputs[1]}, {{"perm", Dims{1, 0}}}, name("t"), ""});
    }
    node.name = name(node.op);
    form.graph.nodes.push_back(std::move(node));
  }
  return form;
}

std::optional<Value> logits_of(const ModelForm& form, const std::vector<int>& ids) {
  const auto T = static_cast<std::int64_t>(ids.size());
  std::map<std::string, Value> given{{"input_ids", {{1, T}, {ids.begin(), ids.end()}, i64}}};
  if (form.has_mask) given["attention_mask"] = {{1, T}, std::vector<double>(ids.size(), 1), i64};
  if (form.has_types) given["token_type_ids"] = {{1, T}, std::vector<double>(ids.size(), 0), i64};
  const auto values = evaluate(form.graph, std::move(given));
  const auto found = values.find(form.graph.outputs[0]);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

} // namespace onnx
