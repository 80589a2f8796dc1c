#include <mha/compare/captures.hpp>

#include <mha/compare/names.hpp>
#include <mha/layer/words.hpp>

#include <algorithm>

namespace mha {

namespace {

/// The blocks in which a row of the table holds.
enum class When : std::uint8_t { any, sequential, parallel, post, inner, gated, plain, bare };

struct CaptureMeaning {
  When when;
  std::string_view words; ///< the last one to three words of a module's path
  std::vector<Stage> output, input;
  std::string_view why = {};
};

constexpr std::string_view tokens_alone =
    "the tokens' rows alone: embed has what the model adds to them";
constexpr std::string_view no_step = "no step of the model";

// Found in Transformers' modules (hooks, nnsight), llama.cpp's graph, vLLM, SGLang,
// TransformerLens, MLX, candle, nanoGPT and LLaMA's own code. The first row that holds wins; longer
// words before shorter ones.
// clang-format off
const std::vector<CaptureMeaning>& layer_meanings() {
  using enum Stage;
  using enum When;
  static const std::vector<CaptureMeaning> table{
  {post, "attention.output.LayerNorm sa_layer_norm self_attn_layer_norm attn_out_norm norm1 ln_1", {mlp_x}, {residual}},
  {post, "output.LayerNorm output_layer_norm final_layer_norm layer_out_norm norm2 ln_2", {resid_post}, {}},
  {post, "attention", {weights, mlp_x}, {resid_pre}},
  {any, "attention.self.dropout attn_dropout attention_dropout attention.dropout", {weights}, {weights}},
  {any, "attention.output.dropout attention.output_dropout resid_dropout resid_attn_dropout post_attention_dropout", {output}, {output}},
  {any, "output.dropout mlp.dropout ffn.dropout resid_mlp_dropout post_mlp_dropout", {mlp_out}, {mlp_out}},
  {any, "attention.self self_attn.attn attn.attn attention.attn", {concat}, {x}},
  {any, "attention.output.dense attention.dense self_attention.dense attn.c_proj attn.out_proj attn.proj self_attn.o_proj self_attn.out_proj self_attn.dense attention.wo attention.out_proj attention.out_lin", {output}, {concat}},
  {any, "input_layernorm attn_norm attention_norm pre_attention_layernorm pre_attention_norm ln_1 ln1 norm1 self_attn_layer_norm ln1.hook_normalized", {x}, {resid_pre}},
  {inner, "post_attention_layernorm post_attention_norm attn_post_norm ln1_post ln1_post.hook_normalized hook_attn_out", {attn_add}, {output}},
  {inner, "pre_feedforward_layernorm ffn_norm ln2.hook_normalized ln2", {mlp_x}, {residual}},
  {inner, "post_feedforward_layernorm ffn_post_norm post_ffw_norm ln2_post ln2_post.hook_normalized hook_mlp_out", {mlp_add}, {mlp_out}},
  {parallel, "post_attention_layernorm ffn_norm mlp_norm ln_2 ln2 norm2 ln2.hook_normalized", {mlp_x}, {resid_pre}},
  {sequential, "post_attention_layernorm ffn_norm mlp_norm ffn_layernorm pre_mlp_layernorm pre_feedforward_layernorm final_layer_norm post_attention_norm ln_2 ln2 norm2 ln2.hook_normalized", {mlp_x}, {residual}},
  {any, "ffn_inp sa_out", {residual}, {}},
  {any, "l_out layer_out", {resid_post}, {}},
  {gated, "gate_proj ffn_gate feed_forward.w1 mlp.w1 w1 mlp.gate", {mlp_pre}, {mlp_x}},
  {gated, "up_proj ffn_up ffn_up_b feed_forward.w3 mlp.w3 w3 mlp.up", {mlp_up}, {mlp_x}},
  {plain, "mlp.c_fc c_fc mlp.fc1 fc1 mlp.fc_in fc_in mlp.dense_h_to_4h dense_h_to_4h intermediate.dense ffn.lin1 lin1 up_proj ffn_up ffn_up_b", {mlp_pre}, {mlp_x}},
  {plain, "intermediate mlp.act mlp.gelu_impl ffn.activation act_fn activation_fn mlp.gelu intermediate.intermediate_act_fn intermediate_act_fn ffn_gelu ffn_relu ffn_silu ffn_relu_sqr ffn_act", {mlp_act}, {mlp_pre}},
  {gated, "act_fn mlp.act mlp.act_fn activation_fn ffn_silu ffn_gelu ffn_relu", {}, {mlp_pre}, "the activation without the gated product's other factor"},
  {any, "ffn_swiglu ffn_geglu ffn_reglu ffn_gate_par", {mlp_act}, {}},
  {any, "mlp.down_proj down_proj mlp.c_proj mlp.fc2 fc2 mlp.fc_out fc_out mlp.dense_4h_to_h dense_4h_to_h output.dense ffn.lin2 lin2 feed_forward.w2 mlp.w2 w2 mlp.proj ffn_down ffn_down_b", {mlp_out}, {mlp_act}},
  {any, "ffn_out", {mlp_out}, {}},
  {any, "mlp feed_forward ffn", {mlp_out}, {mlp_x}},
  {any, "self_attn attn attention self_attention attention.attention", {weights, output}, {x}},
  {any, "q_proj k_proj v_proj query key value q_lin k_lin v_lin wq wk wv c_attn qkv_proj Wqkv wqkv", {}, {x}},
  {any, "o_proj out_proj c_proj wo out_lin", {output}, {concat}},
  {any, "query_key_value", {}, {x}},
  {any, "ln1.hook_scale ln2.hook_scale hook_scale norm rotary_emb cos sin freqs_cis hook_attn_in hook_mlp_in hook_q_input hook_k_input hook_v_input lengths", {}, {}, no_step},
  };
  return table;
}

const std::vector<CaptureMeaning>& model_meanings() {
  using enum Stage;
  using enum When;
  static const std::vector<CaptureMeaning> table{
  {any, "embeddings embeddings.LayerNorm embeddings.dropout drop embd_drop emb_dropout word_embeddings_layernorm emb_ln inpL inp_norm inp_scaled embedding_output", {embed}, {}},
  {bare, "embed_tokens wte tok_embeddings token_embd word_embeddings embed_in hook_embed inp_embd inputs_embeds", {embed}, {}},
  {any, "embed_tokens wte tok_embeddings token_embd word_embeddings embed_in hook_embed inp_embd inputs_embeds", {}, {}, tokens_alone},
  {any, "wpe embed_positions position_embeddings pos_embd hook_pos_embed token_type_embeddings", {}, {}, "one part of embed alone"},
  {any, "norm ln_f final_layernorm final_layer_norm ln_final norm_f last_norm result_norm final_norm output_norm ln_final.hook_normalized", {final}, {resid_post}},
  {any, "last_hidden_state encoder distilbert.transformer model.decoder", {final}, {}},
  {any, "lm_head embed_out result_output prediction_scores prediction_logits cls cls.predictions cls.predictions.decoder lm_head.decoder vocab_projector generator_lm_head logits_processor output", {logits}, {final}},
  {any, "predictions.transform transform.dense transform.LayerNorm transform.transform_act_fn lm_head.dense lm_head.layer_norm vocab_transform vocab_layer_norm generator_predictions pooler pooler.dense pooler.activation", {}, {}, "a step within the head, or of another head"},
  {any, "input_ids ids attention_mask position_ids cache_position cos sin rotary_emb freqs_cis inp_tokens inp_pos causal_mask KQ_mask inp_out_ids lengths seq_lens positions loss", {}, {}, no_step},
  };
  return table;
}
// clang-format on

bool holds(When when, const Surroundings& model) {
  if (when == When::any) return true;
  if (when == When::bare) return model.bare_embedding;
  if (!model.block) return when != When::post && when != When::inner && when != When::parallel;
  switch (when) {
  case When::parallel:
    return model.block->shape == BlockShape::parallel;
  case When::post:
    return model.block->shape == BlockShape::post;
  case When::inner:
    return model.block->shape == BlockShape::sandwich ||
           model.block->shape == BlockShape::post_inside;
  case When::sequential:
    return model.block->shape == BlockShape::pre;
  case When::gated:
    return model.block->mlp.gated();
  case When::plain:
    return !model.block->mlp.gated();
  default:
    return true;
  }
}

bool is_number(std::string_view part) {
  return !part.empty() && part.size() < 9 &&
         part.find_first_not_of("0123456789") == std::string_view::npos;
}

/// 3 of "3" and "layer_3".
std::optional<std::size_t> number_of(std::string_view part) {
  const std::size_t line = part.rfind('_');
  if (!is_number(part) && line != std::string_view::npos) part = part.substr(line + 1);
  if (!is_number(part)) return std::nullopt;
  std::size_t value = 0;
  for (char digit : part) value = value * 10 + static_cast<std::size_t>(digit - '0');
  return value;
}

/// The words of a path; "h[3].output[0]" has h, 3, output and 0.
std::vector<std::string> words_of_path(std::string_view name) {
  std::vector<std::string> words;
  std::string word;
  for (char c : name)
    if (c == '.' || c == '/' || c == '[' || c == ']') {
      if (!word.empty()) words.push_back(std::move(word));
      word.clear();
    } else {
      word += c;
    }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

std::string tail_of(const std::vector<std::string>& words, std::size_t count) {
  std::string tail;
  for (std::size_t i = words.size() - count; i < words.size(); ++i)
    tail += (tail.empty() ? "" : ".") + words[i];
  return tail;
}

/// The row of a path's last words, longer ones before shorter ones.
const CaptureMeaning* meaning_of(const std::vector<CaptureMeaning>& table,
                                 const std::vector<std::string>& words, const Surroundings& model,
                                 std::size_t fewest = 1) {
  for (std::size_t n = std::min<std::size_t>(words.size(), 3); n >= fewest; --n) {
    const std::string tail = tail_of(words, n);
    for (const CaptureMeaning& row : table)
      if (holds(row.when, model) && has_word(row.words, tail)) return &row;
  }
  return nullptr;
}

std::optional<Stage> own_name(std::string_view word) {
  for (const StageInfo& info : stages())
    if (info.name == word) return info.stage;
  return std::nullopt;
}

/// Whether the words before a number are one of the model's ends: lm_head.output.0 is of no layer.
bool is_end_of_model(std::vector<std::string> words, std::size_t count) {
  words.resize(count);
  return !words.empty() && meaning_of(model_meanings(), words, {}) != nullptr;
}

/// What a path ends with besides its module: the side, and an element of what it returns.
struct Side {
  bool input = false;
  std::optional<std::size_t> element;
};

Side take_side(std::vector<std::string>& words) {
  Side side;
  while (!words.empty() && is_number(words.back())) {
    side.element = number_of(words.back());
    words.pop_back();
  }
  if (words.empty()) return side;
  if (has_word("input inputs args", words.back()))
    side.input = true;
  else if (!has_word("output outputs", words.back()))
    return side;
  words.pop_back();
  return side;
}

/// What a module of the table returns.
void take_output(const CaptureMeaning& row, const Side& side, const Surroundings& model,
                 Capture& capture) {
  capture.stages = row.output, capture.why = row.why;
  const auto returns = [&](std::initializer_list<Stage> usual, std::optional<Stage> here) {
    if (here && capture.stages == std::vector(usual)) capture.stages.back() = *here;
  };
  using enum Stage;
  if (capture.layer && row.input.size() == 1) { // the module of a whole sublayer
    returns({weights, output}, model.attention_returns);
    returns({weights, mlp_x}, model.attention_returns);
    if (row.input[0] == mlp_x) returns({mlp_out}, model.mlp_returns);
  }
  if (side.element == 1 && capture.stages == std::vector{Stage::weights, Stage::output})
    capture.stages = {Stage::weights};
  if (!capture.layer && capture.stages == std::vector{Stage::final} && !model.last_norm)
    capture.stages = {Stage::resid_post}, capture.of_last = true;
}

/// A name that no row of the table has.
void take_name(const std::vector<std::string>& words, Capture& capture) {
  if (has_word("c_attn qkv_proj Wqkv wqkv qkv", words.back()))
    capture.side_by_side = {Stage::q, Stage::k, Stage::v};
  else if (words.back() == "query_key_value")
    capture.side_by_side = {Stage::q, Stage::k, Stage::v}, capture.by_group = true;
  else if (has_word("gate_up_proj gate_up", words.back()))
    capture.side_by_side = {Stage::mlp_pre, Stage::mlp_up};
  else if (const auto stage = own_name(words.back()))
    capture.stages = {*stage};
  else
    capture.stages = result_stages(tail_of(words, 1));
  capture.anywhere = !capture.layer && (!capture.stages.empty() || !capture.side_by_side.empty());
}

} // namespace

Capture capture_of(std::string_view name, const Surroundings& model) {
  Capture capture;
  const auto [plain, suffix] = without_layer_suffix(name);
  std::vector<std::string> words = words_of_path(plain);
  std::size_t behind = 0; // the words before a layer's number
  capture.layer = suffix;
  for (std::size_t i = 0; i < words.size() && !capture.layer; ++i)
    if (const auto number = number_of(words[i]); number && !is_end_of_model(words, i))
      capture.layer = number, behind = i + 1;
  // A dump of our own: layers.3.output is attention's, not the layer's.
  const bool own_form = words.size() == 3 && words[0] == "layers" && behind == 2;
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(behind));
  if (own_form || words.size() == 1)
    if (const auto stage = own_name(words.back());
        stage && (own_form || *stage != Stage::output || (!capture.layer && model.one_layer))) {
      capture.stages = {*stage};
      capture.anywhere = !capture.layer && !is_of_model(*stage);
      return capture;
    }
  const std::vector<std::string> whole = words;
  const Side side = take_side(words);
  capture.element = side.element;
  if (words.empty() && !capture.layer) words = whole; // "output": the head of LLaMA's own code
  if (words.empty()) {
    capture.is_layer = true;
    capture.stages = {side.input          ? Stage::resid_pre
                      : side.element == 1 ? Stage::residual
                                          : Stage::resid_post};
    return capture;
  }
  if (!capture.layer && words.size() == 1 &&
      has_word("model transformer gpt_neox bert roberta distilbert", words[0]))
    words[0] = "last_hidden_state"; // what the module of all layers returns
  const CaptureMeaning* row =
      meaning_of(capture.layer ? layer_meanings() : model_meanings(), words, model);
  // What a norm that also adds returns beside its result is what it normed.
  const bool norms = row && !row->output.empty() &&
                     (row->output[0] == Stage::x || row->output[0] == Stage::mlp_x ||
                      row->output[0] == Stage::final);
  if (side.input || (norms && side.element == 1)) {
    if (row) capture.stages = row->input;
    capture.of_last = !capture.layer && capture.stages == std::vector{Stage::resid_post};
    if (capture.stages.empty()) capture.why = "the input of a module that is not known";
    return capture;
  }
  if (row && (!row->output.empty() || !row->why.empty())) {
    take_output(*row, side, model, capture);
    return capture;
  }
  take_name(words, capture);
  return capture;
}

std::vector<Stage> stages_below_module(std::string_view name) {
  const std::vector<std::string> words = words_of_path(without_layer_suffix(name).first);
  const CaptureMeaning* row = meaning_of(layer_meanings(), words, {}, 2);
  return row ? row->output : std::vector<Stage>{};
}

std::vector<CaptureRow> capture_rows() {
  std::vector<CaptureRow> rows;
  for (const CaptureMeaning& row : layer_meanings())
    rows.push_back({row.words, row.output, row.input, false});
  for (const CaptureMeaning& row : model_meanings())
    rows.push_back({row.words, row.output, row.input, true});
  return rows;
}

} // namespace mha
