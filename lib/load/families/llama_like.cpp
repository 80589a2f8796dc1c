#include <mha/load/families/llama_like.hpp>

#include <algorithm>

namespace mha::naming {

namespace {

/// config.json's heads; without them, what the width of a head says.
void set_heads(Translation& to) {
  const Group& group = to.group();
  const Shape q = group.shape("q_proj.weight"), norm = group.shape("q_norm.weight");
  std::size_t width = group.configured_count({"head_dim"}, 1).value_or(0);
  if (qk_norm_is_per_head(group)) width = norm[0];
  if (to.set_from_config("num_heads", {"num_attention_heads"})) {
    const std::size_t heads = to.count("num_heads").value_or(0);
    if (!qk_norm_is_per_head(group) && width > 0 && heads * width != q[0] &&
        !to.option("num_heads"))
      to.warn(
          fmt::format("config.json says head_dim {}, but {} is {}: the tensor wins, {} heads share "
                      "its {} rows",
                      width, to.source_of("q_proj.weight"), to_string(q), heads, q[0]));
  } else if (width > 0 && q[0] % width == 0) {
    to.set("num_heads", std::to_string(q[0] / width),
           qk_norm_is_per_head(group) ? "q_norm.weight" : "config.json");
  }
  to.set_from_config("num_kv_heads", {"num_key_value_heads"});
}

/// MODULE.norms.0.weight, MODULE.norms.1.weight …: one a head, on top of each other.
void take_stacked_norms(Translation& to, const std::string& canonical, const std::string& module) {
  const Group& group = to.group();
  std::vector<Tensor> norms;
  while (const io::Entry* entry = group.elsewhere(
             fmt::format("{}{}.norms.{}.weight", group.prefix, module, norms.size()))) {
    norms.push_back(group.read(*entry));
    if (norms.back().shape() != norms[0].shape() || norms.back().dtype() != norms[0].dtype())
      fail("{}: {} is {} of {}, the head before it {} of {}", group.contents->name, entry->name,
           to_string(norms.back().shape()), name_of(norms.back().dtype()),
           to_string(norms[0].shape()), name_of(norms[0].dtype()));
  }
  Tensor stacked(norms[0].dtype(), {norms.size(), norms[0].count()});
  for (std::size_t head = 0; head < norms.size(); ++head)
    std::copy_n(norms[head].raw(), norms[head].bytes(),
                stacked.raw_mutable() + head * norms[head].bytes());
  const std::string first = module + ".norms.0.weight";
  to.put(canonical, std::move(stacked), first);
}

/// Which projections of a model have biases, as Transformers makes them: of queries, keys and
/// values, and of the output. `known` is false where config.json does not say which model it is.
struct BiasRule {
  bool qkv = false, o = false, known = true;
  std::string_view why = {}; ///< the key of config.json, or "" where it is the model's own
};

BiasRule bias_rule(const Group& group) {
  const auto by = [&](std::string_view key, bool otherwise, bool o) {
    const bool biased = group.is_true({key}, otherwise);
    return BiasRule{biased, biased && o, true, key};
  };
  if (group.contents->format == "gguf") return {.known = false}; // it says none of these keys
  if (!group.configured("model_type") && !group.configured("attention_bias"))
    return {.known = false};
  if (group.is_model({"qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl"})) return {.qkv = true};
  if (group.is_model({"mistral", "mixtral", "ministral", "exaone4", "cwm", "ministral3"}))
    return {};
  if (group.is_model({"seed_oss"})) {
    BiasRule rule = by("attention_bias", true, false);
    rule.o = group.is_true({"attention_out_bias"});
    return rule;
  }
  if (group.is_model({"helium"})) return by("attention_bias", false, false);
  if (group.is_model({"jais2"})) return by("attention_bias", true, true);
  if (group.is_model({"starcoder2"})) return by("use_bias", true, true);
  if (group.is_model({"stablelm"})) return by("use_qkv_bias", false, false);
  if (group.is_model({"ernie4_5", "ernie4_5_moe"})) return by("use_bias", false, true);
  if (group.is_model({"glm"})) return by("attention_bias", true, false);
  if (group.is_model({"glm4", "glm4_moe"})) return by("attention_bias", false, false);
  if (group.is_model({"gpt_oss"})) return by("attention_bias", true, true);
  if (group.is_model({"llama",       "granite",      "granitemoe", "qwen3",  "qwen3_moe",
                      "qwen3_vl",    "qwen3_vl_moe", "gemma",      "gemma2", "gemma3",
                      "gemma3_text", "cohere",       "cohere2",    "olmo",   "olmo2",
                      "olmo3",       "olmoe",        "smollm3",    "arcee",  "eurobert",
                      "hyperclovax", "nemotron",     "vaultgemma"}))
    return by("attention_bias", false, true);
  // Of a model that is not known here, the key does not say whether W_o has one.
  if (group.configured("attention_bias"))
    return by("attention_bias", false, group.has("o_proj.bias"));
  return {.known = false};
}

void take_biases(Translation& to) {
  const Group& group = to.group();
  const BiasRule rule = bias_rule(group);
  for (const std::string letter : {"q", "k", "v", "o"}) {
    const std::string name = letter + "_proj.bias";
    const bool wanted = letter == "o" ? rule.o : rule.qkv, there = group.has(name);
    if (rule.known && wanted && !there)
      fail("{}: {}{} is missing, {}", group.contents->name, group.prefix, name,
           rule.why.empty() ? std::string("which models of this kind have")
                            : fmt::format("though config.json says {}",
                                          group.configured(rule.why) ? rule.why : "no other"));
    if (rule.known && !wanted && there)
      to.pass_over_with_warning(
          name,
          rule.why.empty()
              ? std::string("models of this kind have none")
              : fmt::format("config.json {} {}",
                            group.configured(rule.why) ? "denies" : "does not say", rule.why));
    else
      to.take("b_" + letter, name);
  }
}

/// LLaMA's kin have RMS norms, StarCoder 2 and StableLM layer norms; of others the bias tells.
bool has_layer_norms(const Group& group, const std::string& norm) {
  if (group.is_model({"starcoder2", "stablelm", "nemotron", "jais2"})) return true;
  if (group.is_model({"llama",      "mistral",   "mixtral",     "ministral",    "granite",
                      "granitemoe", "qwen2",     "qwen2_moe",   "qwen2_vl",     "qwen2_5_vl",
                      "qwen3",      "qwen3_moe", "qwen3_vl",    "qwen3_vl_moe", "gemma",
                      "gemma2",     "gemma3",    "gemma3_text", "gpt_oss",      "glm",
                      "glm4",       "glm4_moe",  "ernie4_5",    "ernie4_5_moe", "olmo2",
                      "olmo3",      "olmoe",     "smollm3",     "exaone4",      "arcee",
                      "cwm",        "eurobert",  "helium",      "hyperclovax",  "ministral3",
                      "seed_oss",   "vaultgemma"}))
    return false;
  return group.elsewhere(norm + ".bias") != nullptr;
}

} // namespace

void require_qk_norm(const Group& group, bool of_heads) {
  for (const char* name : {"q_norm.weight", "k_norm.weight"})
    if (!group.has(name))
      fail("{}: {}{} is missing, which models of this kind have", group.contents->name,
           group.prefix, name);
    else if (const Shape norm = group.shape(name);
             of_heads && group.configured("head_dim") &&
             norm != Shape{*group.configured_count({"head_dim"}, 1)})
      fail("{}: {}{} is {}: as wide as a head, head_dim {}, expected", group.contents->name,
           group.prefix, name, to_string(norm), *group.configured("head_dim"));
}

void take_qk_norm(Translation& to, bool is_layer_norm) {
  const Group& group = to.group();
  // Transformers makes none of these, and leaves such tensors of a file aside.
  if (group.is_model({"llama",      "mistral",    "mixtral",      "ministral", "granite",
                      "granitemoe", "qwen2",      "qwen2_moe",    "qwen2_vl",  "qwen2_5_vl",
                      "gemma",      "gemma2",     "starcoder2",   "gpt_oss",   "glm",
                      "glm4",       "ernie4_5",   "ernie4_5_moe", "smollm3",   "olmo",
                      "arcee",      "cwm",        "eurobert",     "helium",    "hyperclovax",
                      "jais2",      "ministral3", "nemotron",     "seed_oss",  "vaultgemma"})) {
    for (const char* name :
         {"q_norm.weight", "k_norm.weight", "q_norm.bias", "k_norm.bias", "q_layernorm.weight",
          "k_layernorm.weight", "q_layernorm.bias", "k_layernorm.bias"})
      to.pass_over_with_warning(name, "models of this kind have none");
    return;
  }
  bool there = false;
  for (const std::string letter : {"q", "k"})
    for (const std::string kind : {"norm", "layernorm"}) {
      const std::string module = fmt::format("{}_{}", letter, kind), weight = module + ".weight";
      const std::string canonical = letter + "_norm.weight";
      const bool one_a_head = group.has(module + ".norms.0.weight");
      if (!group.has(weight) && !one_a_head) continue;
      there = true,
      is_layer_norm = is_layer_norm || kind == "layernorm" || group.has(module + ".bias");
      if (one_a_head)
        take_stacked_norms(to, canonical, module);
      else
        to.take(canonical, weight);
      to.take(letter + "_norm.bias", module + ".bias");
    }
  if (!there) return;
  if (!is_layer_norm) {
    to.set_from_config("qk_norm_eps", {"rms_norm_eps"});
    return;
  }
  to.set("qk_norm", "layer");
  if (!to.set_from_config("qk_norm_eps", {"layer_norm_eps"})) to.set("qk_norm_eps", "1e-05");
}

bool qk_norm_is_per_head(const Group& group) {
  const Shape q = group.shape("q_proj.weight"), norm = group.shape("q_norm.weight");
  return norm.size() == 1 && q.size() == 2 && norm[0] > 0 && norm[0] != q[0];
}

double usual_rms_eps(const Group& group) {
  if (group.is_model({"helium"})) return 1e-8;
  return group.is_model({"arcee", "cwm", "eurobert", "ministral3"}) ? 1e-5 : 1e-6;
}

void take_llama(Translation& to) {
  const Group& group = to.group();
  for (const char* letter : {"q", "k", "v", "o"})
    to.take_linear(fmt::format("W_{}", letter), fmt::format("{}_proj.weight", letter));
  take_biases(to);
  set_heads(to);
  to.set("causal", "true");
  const bool any = !group.configured("model_type").has_value();
  if (any || group.is_model({"granite", "granitemoe", "hyperclovax"}))
    to.set_from_config("scale", {"attention_multiplier"});
  if (any || group.is_model({"olmo", "olmoe", "olmo2"}))
    to.set_from_config("clip_qkv", {"clip_qkv"});
  take_qk_norm(to);
  const std::string norm = group.parent() + "input_layernorm";
  if (has_layer_norms(group, norm))
    to.normalises(NormKind::layer, {norm}, {"layer_norm_eps", "norm_epsilon", "norm_eps"}, 1e-5);
  else
    to.normalises(NormKind::rms, {norm}, {"rms_norm_eps"}, usual_rms_eps(group));
}

} // namespace mha::naming
