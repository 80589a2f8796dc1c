// LLaMA, Mistral and what is named like them: q_proj, k_proj, v_proj, o_proj, (out, in).

#include <mha/load/families/llama_like.hpp>
#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

void translate_llama(const Group& group, Translation& to) {
  take_llama(to);
  if (group.is_model({"eurobert"})) to.set("causal", "false");
  if (group.is_model({"baichuan"}) && group.configured_count({"num_hidden_layers"}) == 40)
    fail("{}: Baichuan of 40 layers has ALiBi in the place of a rotation, which is not supported",
         group.contents->name);
  // LLaMA and Granite have no window, whatever their configs say; Mistral has one unless its config
  // says null, and so may a model that is not known here.
  const LlamaTraits* const model = llama_traits(group);
  const LlamaTraits traits = model ? *model : LlamaTraits{.models = "", .slides = every_layer};
  if (group.is_model({"stablelm"}))
    set_rotary(to, {.style = traits.rope,
                    .part = traits.rope_part,
                    .part_keys = {"partial_rotary_factor", "rope_pct"}});
  else
    set_rotary(to, {.style = traits.rope, .part = traits.rope_part, .base = traits.rope_base});
  if (group.is_model({"nemotron"})) to.norm.one_plus = true;
  if (group.is_model({"ministral3"})) rope_number(to, "max_position_embeddings"); // of no effect
  if (traits.slides) set_window(to, traits.slides, traits.window_width);
}

/// Granite multiplies the tokens' rows, what each sublayer adds, and divides the logits.
void settle_granite(const Group& group, ModelRecord& record) {
  const auto factor = [&](std::string_view key) {
    const double value = group.configured_number({key}).value_or(1);
    if (!(value > 0)) fail("config.json: {} is {}: a number above 0 expected", key, value);
    return value;
  };
  record.embedding_scale = factor("embedding_multiplier");
  record.residual_scale = factor("residual_multiplier");
  // HyperCLOVA X multiplies the logits, and may normalise what each sublayer adds.
  const bool clova = group.is_model({"hyperclovax"});
  record.head_scale = clova ? factor("logits_scaling") : 1 / factor("logits_scaling");
  if (!clova || !group.is_true({"use_post_norm"}, true)) return;
  record.shape = BlockShape::sandwich;
  record.post_attention_norm = "post_norm1", record.post_mlp_norm = "post_norm2";
}

/// Arcee, Nemotron, Jais 2: a feed-forward without a gate; the last two have layer norms.
void settle_without_gate(const Group& group, ModelRecord& record) {
  record.mlp_in = "mlp.up_proj", record.mlp_up = "";
  record.activation = "relu2";
  if (group.is_model({"arcee"})) return;
  record.norm = InputNorm::layer;
  record.norm_bias = Bias::always;
  record.one_plus = group.is_model({"nemotron"});
}

/// StableLM: layer norms, attention and feed-forward one after the other or, with one norm for
/// both, beside each other.
void settle_stablelm(const Group& group, ModelRecord& record) {
  record.norm = InputNorm::layer;
  record.norm_bias = Bias::always;
  // GGUF's key is not always right, llama.cpp looks at the norms.
  const bool alone = !group.beside("post_attention_layernorm.weight");
  if (group.contents->format == "gguf" ? !alone : !group.is_true({"use_parallel_residual"})) return;
  record.shape = BlockShape::parallel;
  record.pre_mlp_norm = "input_layernorm";
}

/// StarCoder 2: layer norms, and a feed-forward without a gate.
void settle_starcoder2(const Group& group, ModelRecord& record) {
  record.norm = InputNorm::layer;
  record.norm_bias = Bias::always;
  record.mlp_in = "mlp.c_fc", record.mlp_up = "", record.mlp_out = "mlp.c_proj";
  record.mlp_bias = group.is_true({"use_bias"}, true) ? Bias::always : Bias::never;
  record.activation = "gelu_pytorch_tanh";
  record.tied = true;
}

/// LLaMA's mlp_bias; Mistral's feed-forward has none.
void settle_llama(const Group& group, ModelRecord& record) {
  take_epsilon(group, record);
  record.causal = !group.is_model({"eurobert"});
  if (group.is_model({"granite", "hyperclovax"})) settle_granite(group, record);
  if (group.is_model({"arcee", "nemotron", "jais2"})) settle_without_gate(group, record);
  if (group.is_model({"stablelm"})) settle_stablelm(group, record);
  if (group.is_model({"starcoder2"})) return settle_starcoder2(group, record);
  if (group.contents->format == "gguf") return; // which does not say it
  if (!group.configured("model_type") && !group.configured("mlp_bias")) return;
  const LlamaTraits* const model = llama_traits(group);
  record.mlp_bias = model && is_biased(group, model->mlp_bias) ? Bias::always : Bias::never;
}

#define MHA_WHOLE_LLAMA                                                                            \
  "llama mistral ministral granite stablelm starcoder2 arcee cwm eurobert helium hyperclovax "     \
  "jais2 ministral3 nemotron seed_oss"
// "attention-only": this project's own example layers.
constexpr std::string_view llama_models =
    MHA_WHOLE_LLAMA " mixtral granitemoe granitemoeshared minicpm xverse baichuan attention-only";

constexpr ModelRecord of_llama() {
  ModelRecord record = llama_model(MHA_WHOLE_LLAMA);
  record.mlp_bias = Bias::if_there;
  record.settle = settle_llama;
  return record;
}
constexpr ModelRecord llama_record = of_llama();

} // namespace

const Family llama{"llama",     "LLaMA", llama_models,    llama_needs,
                   llama_knows, nullptr, translate_llama, &llama_record};

} // namespace mha::naming
