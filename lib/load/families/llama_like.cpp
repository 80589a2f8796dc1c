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

/// Whether a projection of the layer has a bias; nothing where config.json does not say which model
/// it is, nor that.
std::optional<BiasKey> projection_bias(const Group& group, bool of_output) {
  if (group.contents->format == "gguf") return std::nullopt; // it says none of these keys
  if (const LlamaTraits* const model = llama_traits(group))
    return of_output ? model->output_bias : model->qkv_bias;
  // Of a model that is not known here, the key does not say whether W_o has one.
  if (!group.configured("attention_bias")) return std::nullopt;
  return of_output && !group.has("o_proj.bias") ? BiasKey{} : BiasKey{.key = "attention_bias"};
}

void take_biases(Translation& to) {
  const Group& group = to.group();
  const std::optional<BiasKey> of_qkv = projection_bias(group, false),
                               of_output = projection_bias(group, true);
  for (const std::string letter : {"q", "k", "v", "o"}) {
    const std::string name = letter + "_proj.bias";
    const std::optional<BiasKey>& bias = letter == "o" ? of_output : of_qkv;
    const bool there = group.has(name), wanted = bias && is_biased(group, *bias);
    if (wanted && !there)
      fail("{}: {}{} is missing, {}", group.contents->name, group.prefix, name,
           bias->key.empty() ? std::string("which models of this kind have")
                             : fmt::format("though config.json says {}",
                                           group.configured(bias->key) ? bias->key : "no other"));
    if (bias && !wanted && there)
      to.pass_over_with_warning(
          name,
          bias->key.empty()
              ? std::string("models of this kind have none")
              : fmt::format("config.json {} {}",
                            group.configured(bias->key) ? "denies" : "does not say", bias->key));
    else
      to.take("b_" + letter, name);
  }
}

/// Of a model that is not known here the bias tells.
bool has_layer_norms(const Group& group, const std::string& norm) {
  const LlamaTraits* const model = llama_traits(group);
  const BlockNorm known = model ? model->norm : BlockNorm::layer_if_biased;
  if (known != BlockNorm::layer_if_biased) return known == BlockNorm::layer;
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
  if (const LlamaTraits* const model = llama_traits(group); model && !model->qk_norm) {
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
  if (is_layer_norm) to.set("qk_norm", "layer");
  // Other models have these norms by another family's names.
  const LlamaTraits* const model = llama_traits(group);
  const std::string_view key = model           ? model->eps_key
                               : is_layer_norm ? "layer_norm_eps"
                                               : "rms_norm_eps";
  const double eps = model ? model->eps : is_layer_norm ? 1e-5 : LlamaTraits{}.eps;
  if (!to.set_from_config("qk_norm_eps", {key}) && eps != Settings().qk_norm_eps)
    to.set("qk_norm_eps", fmt::format("{}", eps));
}

bool qk_norm_is_per_head(const Group& group) {
  const Shape q = group.shape("q_proj.weight"), norm = group.shape("q_norm.weight");
  return norm.size() == 1 && q.size() == 2 && norm[0] > 0 && norm[0] != q[0];
}

bool is_biased(const Group& group, const BiasKey& bias) {
  return bias.key.empty() ? bias.otherwise : group.is_true({bias.key}, bias.otherwise);
}

void take_epsilon(const Group& group, ModelRecord& record) {
  const LlamaTraits* const model = llama_traits(group);
  const LlamaTraits traits = model ? *model : LlamaTraits{};
  record.eps_keys = traits.eps_key, record.eps = traits.eps;
}

void take_llama(Translation& to) {
  const Group& group = to.group();
  for (const char* letter : {"q", "k", "v", "o"})
    to.take_linear(fmt::format("W_{}", letter), fmt::format("{}_proj.weight", letter));
  take_biases(to);
  set_heads(to);
  to.set("causal", "true");
  const bool any = !group.configured("model_type").has_value();
  if (any || group.is_model({"granite", "granitemoe", "granitemoeshared", "hyperclovax"}))
    to.set_from_config("scale", {"attention_multiplier"});
  if (any || group.is_model({"olmo", "olmoe", "olmo2"}))
    to.set_from_config("clip_qkv", {"clip_qkv"});
  take_qk_norm(to);
  const std::string norm = group.parent() + "input_layernorm";
  const LlamaTraits* const model = llama_traits(group);
  const bool layer_norms = has_layer_norms(group, norm);
  if (model)
    to.normalises(layer_norms ? NormKind::layer : NormKind::rms, {norm}, {model->eps_key},
                  model->eps);
  else if (layer_norms)
    to.normalises(NormKind::layer, {norm}, {"layer_norm_eps", "norm_epsilon", "norm_eps"}, 1e-5);
  else
    to.normalises(NormKind::rms, {norm}, {"rms_norm_eps"}, LlamaTraits{}.eps);
}

} // namespace mha::naming
