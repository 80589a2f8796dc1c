// Epsilons of norms: which key of config.json has them, what they are where it is silent, and that
// all norms of a model have the same. Defaults and keys are those of Transformers' configuration
// classes, or of PyTorch's LayerNorm in models that hand it none.

#include "support/checkpoint.hpp"
#include "support/files.hpp"
#include "support/run.hpp"

#include <mha/model/opened_model.hpp>
#include <mha/system/words.hpp>

#include <catch2/catch.hpp>

#include <filesystem>
#include <set>

using namespace mha;

namespace {

constexpr std::string_view keys[] = {"rms_norm_eps",      "layer_norm_eps", "layer_norm_epsilon",
                                     "norm_eps",          "norm_epsilon",   "eps",
                                     "layernorm_epsilon", "norm_layer_eps"};

/// Of some model_types: the key, "" where no config has another, and what is taken without it.
struct Epsilon {
  std::string_view models, key;
  double otherwise;
};
constexpr Epsilon table[]{
    {"llama gemma gemma2 gemma3 gemma3_text vaultgemma granite granitemoe hyperclovax mistral "
     "ministral qwen2 qwen2_moe qwen3 qwen3_moe qwen3_vl qwen3_vl_moe seed_oss smollm3 "
     "deepseek_v2 deepseek_v3 kimi_k2",
     "rms_norm_eps", 1e-6},
    {"arcee cwm ernie4_5 ernie4_5_moe eurobert exaone4 glm4_moe gpt_oss ministral3 mixtral olmo2 "
     "olmo3 olmoe phi3 qwen2_vl qwen2_5_vl",
     "rms_norm_eps", 1e-5},
    {"glm glm4", "rms_norm_eps", 1.5625e-7},
    {"helium", "rms_norm_eps", 1e-8},
    {"clip cohere cohere2 gpt_neox gpt_neox_japanese jais2 persimmon phi stablelm xlm-roberta-xl",
     "layer_norm_eps", 1e-5},
    {"siglip siglip2 dinov2 vit_msn", "layer_norm_eps", 1e-6},
    {"albert bert camembert data2vec-text deit electra ernie esm ijepa megatron-bert rembert "
     "roberta roberta-prelayernorm roformer vit vit_mae xlm-roberta",
     "layer_norm_eps", 1e-12},
    {"bloom codegen falcon RefinedWeb RefinedWebModel gpt2 gpt_bigcode gpt_neo gptj mpt openai-gpt",
     "layer_norm_epsilon", 1e-5},
    {"mt5 t5 umt5", "layer_norm_epsilon", 1e-6},
    {"nemotron modernbert", "norm_eps", 1e-5},
    {"starcoder2", "norm_epsilon", 1e-5},
    {"biogpt blenderbot m2m_100 mbart olmo opt pegasus whisper xglm", "", 1e-5},
    {"distilbert", "", 1e-12},
};

Epsilon epsilon_of(const std::string& model_type) {
  for (const Epsilon& row : table)
    for (std::string_view one : words_of(row.models))
      if (one == model_type) return {one, row.key, row.otherwise};
  FAIL("no epsilon is written down for " << model_type);
  return {};
}

/// The epsilons of a whole model's norms, those of attention's input and of queries and keys too.
std::set<double> epsilons_of(const io::Contents& model) {
  RunRequest request;
  request.in_memory = {model};
  request.text.ids = {"5,9,31"};
  OpenedModel opened(std::move(request));
  opened.threads = 1;
  std::set<double> found;
  const auto take = [&](const Norm& norm) {
    if (norm.kind == InputNorm::rms || norm.kind == InputNorm::layer) found.insert(norm.eps);
  };
  for (const std::string& id : opened.texts()->layers()) {
    const Layer layer = opened.outline(id).layer;
    const TransformerBlock& block = *layer.block;
    for (const Norm* norm : {&block.post_attention_norm, &block.pre_mlp_norm, &block.post_mlp_norm,
                             &block.post_block_norm})
      take(*norm);
    const Settings& s = layer.settings;
    if (s.input_norm != InputNorm::none) found.insert(s.input_norm_eps);
    if (!layer.q_norm_weight.empty()) found.insert(s.qk_norm_eps);
  }
  const WholeModel& whole = opened.texts()->model();
  take(whole.last_norm()), take(whole.head().norm), take(whole.embedding().norm);
  return found;
}

} // namespace

TEST_CASE("all norms of a model have one epsilon: its key's, or what its kind has without it",
          "[model]") {
  const test::Folder folder;
  const std::string to = folder.path() + "/";
  std::string made = "true";
  for (const char* script : {"text_families.py ", "more_text_families.py ", "later_families.py "})
    made += fmt::format(" && /usr/bin/python3 tests/models/{}{}", script, to);
  made += " && /usr/bin/python3 tests/models/make.py " + to +
          " gpt2 llama3.1 mistral qwen2 qwen3 phi3 gemma vaultgemma gemma2 gemma3 neox-parallel "
          "bert albert roberta distilbert";
  if (const test::Result ran = test::shell(made); ran.code != 0) {
    WARN("no NumPy, so no models: " << ran.err);
    return;
  }
  std::set<std::string> tried;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    io::Contents model = io::open(entry.path());
    const auto type = model.config.find("model_type");
    if (type == model.config.end() || !tried.insert(type->second).second) continue;
    INFO(type->second);
    const Epsilon expected = epsilon_of(type->second);
    const std::string section =
        model.config.contains("text_config.hidden_size") ? "text_config." : "";
    for (std::string_view key : keys) // those of other families change nothing
      model.config[section + std::string(key)] = "0.25";
    CHECK(epsilons_of(model) == std::set<double>{expected.key.empty() ? expected.otherwise : 0.25});
    model.config.erase(section + std::string(expected.key));
    CHECK(epsilons_of(model) == std::set<double>{expected.otherwise});
  }
  CHECK(tried.size() > 50);
}

namespace {

/// Models whose attention is read alone, and the names that they have: of the four projections, and
/// of the norm before them.
struct Alone {
  std::string_view models, attention;
  std::vector<std::string> projections;
  std::string_view norm, qk_norm;
};
const std::vector<std::string> o_proj{"q_proj", "k_proj", "v_proj", "o_proj"},
    out_proj{"q_proj", "k_proj", "v_proj", "out_proj"},
    of_vit{"attention.query", "attention.key", "attention.value", "output.dense"};
const std::vector<Alone> alone{
    {"mixtral qwen2_moe qwen2_vl qwen2_5_vl ernie4_5_moe gpt_oss granitemoe ministral",
     "model.layers.0.self_attn.", o_proj, "model.layers.0.input_layernorm", ""},
    {"qwen3_moe qwen3_vl qwen3_vl_moe olmoe glm4_moe exaone4 olmo3", "model.layers.0.self_attn.",
     o_proj, "model.layers.0.input_layernorm", "norm"},
    {"phi",
     "model.layers.0.self_attn.",
     {"q_proj", "k_proj", "v_proj", "dense"},
     "model.layers.0.input_layernorm",
     "layernorm"},
    {"vit deit vit_mae ijepa", "encoder.layer.0.attention.", of_vit,
     "encoder.layer.0.layernorm_before", ""},
    {"dinov2 vit_msn", "encoder.layer.0.attention.", of_vit, "encoder.layer.0.norm1", ""},
    {"clip siglip siglip2", "vision_model.encoder.layers.0.self_attn.", out_proj,
     "vision_model.encoder.layers.0.layer_norm1", ""},
    {"blenderbot m2m_100 mbart opt pegasus whisper xglm biogpt",
     "model.decoder.layers.0.self_attn.", out_proj, "model.decoder.layers.0.self_attn_layer_norm",
     ""},
};

/// The epsilon of the norm before attention, and of queries and keys where they have one.
std::set<double> epsilons_of(const Alone& names, std::string_view model_type,
                             std::string_view more) {
  const CanonicalLayer layer;
  Checkpoint file(fmt::format(R"({{"model_type": "{}", "num_attention_heads": 3, )"
                              R"("encoder_attention_heads": 3, "decoder_attention_heads": 3{}}})",
                              model_type, more));
  const std::string attention(names.attention), norm(names.norm);
  file.linears(attention, names.projections, layer);
  file.add(norm + ".weight", layer["b_q"]).add(norm + ".bias", layer["b_o"]);
  const bool of_heads = model_type != "olmoe" && model_type != "olmo3";
  for (const std::string letter : {"q", "k"})
    if (!names.qk_norm.empty())
      file.add(fmt::format("{}{}_{}.weight", attention, letter, names.qk_norm),
               of_heads ? Tensor::of<double>({4}, std::vector<double>{1, 2, 3, 4}) : layer["b_q"]);
  if (model_type == "gpt_oss") file.add(attention + "sinks", Tensor(DType::f32, {3}));
  const Layer loaded = file.load(layer, with("input_norm", "checkpoint")).layer;
  std::set<double> found;
  if (loaded.settings.input_norm != InputNorm::none) found.insert(loaded.settings.input_norm_eps);
  if (!loaded.q_norm_weight.empty()) found.insert(loaded.settings.qk_norm_eps);
  return found;
}

} // namespace

TEST_CASE("a layer alone has its kind's epsilon") {
  for (const Alone& names : alone)
    for (std::string_view model_type : words_of(names.models)) {
      INFO(model_type);
      const Epsilon expected = epsilon_of(std::string(model_type));
      std::string all, others;
      for (std::string_view key : keys) {
        const std::string said = fmt::format(R"(, "{}": 0.25)", key);
        all += said, others += key == expected.key ? "" : said;
      }
      CHECK(epsilons_of(names, model_type, others) == std::set<double>{expected.otherwise});
      CHECK(epsilons_of(names, model_type, all) ==
            std::set<double>{expected.key.empty() ? expected.otherwise : 0.25});
    }
}
