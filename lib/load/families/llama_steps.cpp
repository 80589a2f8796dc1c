// LLaMA-like families: heads and the norm of queries and keys, from tensors and config.json.

#include <mha/load/families/steps.hpp>

#include <mha/system/words.hpp>

#include <algorithm>

namespace mha::naming {

namespace {

/// Stacks MODULE.norms.0.weight, MODULE.norms.1.weight …, one for each head.
void take_norms_of_heads(LayerReading& to, const std::string& canonical,
                         const std::string& module) {
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
  to.put(canonical, std::move(stacked), module + ".norms.0.weight");
}

} // namespace

bool qk_norm_is_per_head(const Group& group) {
  const Shape q = group.shape("q_proj.weight"), norm = group.shape("q_norm.weight");
  return norm.size() == 1 && q.size() == 2 && norm[0] > 0 && norm[0] != q[0];
}

/// The number of heads in config.json, or else as many as fit the width of a head. {"heads": "a
/// b", "kv_heads": "a b", "width": "a b"}: the keys of a family that calls them otherwise.
void step_llama_heads(LayerReading& to, const JsonTree& arguments) {
  const auto keys = [&](const char* name, const char* usual) {
    const JsonTree* const own = arguments.find(name);
    return own ? words_of(own->as_text(name)) : std::vector<std::string_view>{usual};
  };
  const Group& group = to.group();
  const Shape q = group.shape("q_proj.weight"), norm = group.shape("q_norm.weight");
  if (q.size() != 2) fail("{} is missing, or no matrix", to.source_of("q_proj.weight"));
  const std::vector<std::string_view> width_keys = keys("width", "head_dim");
  auto width = group.configured_count(Keys(width_keys)).value_or(0);
  if (qk_norm_is_per_head(group)) width = norm[0];
  if (to.set_from_config("num_heads", Keys(keys("heads", "num_attention_heads")))) {
    const std::size_t heads = to.count("num_heads").value_or(0);
    if (!qk_norm_is_per_head(group) && width > 0 && heads * width != q[0] &&
        !to.option("num_heads"))
      to.warn(
          fmt::format("config.json has head_dim {}, but {} is {}: the tensor wins, {} heads share "
                      "its {} rows",
                      width, to.source_of("q_proj.weight"), to_string(q), heads, q[0]));
  } else if (width > 0 && q[0] % width == 0) {
    to.set("num_heads", std::to_string(q[0] / width),
           qk_norm_is_per_head(group) ? "q_norm.weight" : "config.json");
  }
  to.set_from_config("num_kv_heads", Keys(keys("kv_heads", "num_key_value_heads")));
}

/// {"made": false} if models of this kind have no norm of queries and keys; otherwise {"eps_key":
/// KEY, "eps": 1e-6, "layer": false}. q_norm is an RMS norm unless it has a bias or `layer` is
/// true; q_layernorm is a layer norm, in StableLM one module for each head (norms.N). Without
/// `eps_key`, the key depends on the kind of norm.
void step_qk_norm(LayerReading& to, const JsonTree& arguments) {
  const Group& group = to.group();
  // Transformers creates none of these and ignores such tensors of a file.
  if (!flag_in(arguments, "made", true)) {
    for (const char* name :
         {"q_norm.weight", "k_norm.weight", "q_norm.bias", "k_norm.bias", "q_layernorm.weight",
          "k_layernorm.weight", "q_layernorm.bias", "k_layernorm.bias"})
      to.skip_with_warning(name, "models of this kind have none");
    return;
  }
  // Other models have these norms by another family's names.
  const std::optional<std::string> eps_key = text_in(arguments, "eps_key");
  bool has_norm = false, is_layer_norm = flag_in(arguments, "layer");
  for (const std::string letter : {"q", "k"})
    for (const std::string kind : {"norm", "layernorm"}) {
      const std::string module = fmt::format("{}_{}", letter, kind), weight = module + ".weight";
      const std::string canonical = letter + "_norm.weight";
      const bool by_head = group.has(module + ".norms.0.weight");
      if (!group.has(weight) && !by_head) continue;
      has_norm = true;
      // In known models, only q_layernorm and k_layernorm have a bias.
      const bool without = eps_key && kind == "norm";
      is_layer_norm =
          is_layer_norm || kind == "layernorm" || (!without && group.has(module + ".bias"));
      if (by_head)
        take_norms_of_heads(to, canonical, module);
      else
        to.take(canonical, weight);
      if (without)
        to.skip_with_warning(module + ".bias", "models of this kind have none");
      else
        to.take(letter + "_norm.bias", module + ".bias");
    }
  if (!has_norm) return;
  if (is_layer_norm) to.set("qk_norm", "layer");
  const std::string key = eps_key.value_or(is_layer_norm ? "layer_norm_eps" : "rms_norm_eps");
  const double usual = !eps_key && is_layer_norm ? 1e-5 : 1e-6,
               eps = number_in(arguments, "eps").value_or(usual);
  if (!to.set_from_config("qk_norm_eps", {key}) && eps != Settings().qk_norm_eps)
    to.set("qk_norm_eps", fmt::format("{}", eps));
}

/// Command R+ has layer norms of each head's queries and keys if use_qk_norm is true.
void step_cohere_qk_norm(LayerReading& to, const JsonTree&) {
  const Group& group = to.group();
  const bool normed = group.has("q_norm.weight");
  if (group.is_true({"use_qk_norm"}, normed) && !normed)
    fail("{}: {}q_norm.weight is missing, though config.json has use_qk_norm", group.contents->name,
         group.prefix);
  if (normed) to.set("qk_norm", "layer");
}

/// Values times a number of config.json, {"key": KEY, "default": 0.707}: W_v and b_v times it.
void step_value_scale(LayerReading& to, const JsonTree& arguments) {
  const std::string key = text_in(arguments, "key").value_or("");
  const double otherwise = number_in(arguments, "default").value_or(1),
               scale = to.group().config_has(key) ? to.number({std::string_view(key)}).value_or(1)
                       : to.group().has_key(key)  ? 1 // null
                                                  : otherwise;
  if (scale == 1) return;
  if (const io::Entry* const weight = to.group().find("v_proj.weight"))
    to.note_result({{}, {Stage::v}, 1, scale, key}, *weight);
  for (const char* name : {"W_v", "b_v"})
    if (const auto at = to.parts.find(name); at != to.parts.end()) {
      const Tensor& own = at->second.tensor;
      std::vector<double> scaled(own.count());
      for (std::size_t i = 0; i < scaled.size(); ++i) scaled[i] = scale * value_at(own, i);
      at->second.tensor = Tensor::of<double>(own.shape(), scaled);
      at->second.source += fmt::format(", times {},", scale);
    }
}

/// Norms of queries, keys or values without a weight, {"of": "q k v"}: one of ones.
void step_unit_norms(LayerReading& to, const JsonTree& arguments) {
  const std::string letters = text_in(arguments, "of").value_or("q k");
  for (const std::string_view letter : words_of(letters)) {
    const std::optional<std::size_t> width = to.head_width(letter == "v" ? "W_v" : "W_q");
    if (!width) continue; // the number of heads is missing, which is an error of its own
    to.parts[fmt::format("{}_norm.weight", letter)] = {
        Tensor::of<double>({*width}, std::vector<double>(*width, 1)), "a norm without a weight"};
  }
}

/// Requires both norms, or those "of" q or k; with {"of_heads": true}, each as wide as a head.
void step_needs_qk_norm(LayerReading& to, const JsonTree& arguments) {
  const Group& group = to.group();
  const bool of_heads = flag_in(arguments, "of_heads", true);
  const std::string letters = text_in(arguments, "of").value_or("q k");
  for (const std::string_view letter : words_of(letters)) {
    const std::string name = fmt::format("{}_norm.weight", letter);
    if (!group.has(name))
      fail("{}: {}{} is missing, which models of this kind have", group.contents->name,
           group.prefix, name);
    else if (const Shape norm = group.shape(name);
             of_heads && group.configured("head_dim") &&
             norm != Shape{*group.configured_count({"head_dim"}, 1)})
      fail("{}: {}{} is {}: as wide as a head, head_dim {}, expected", group.contents->name,
           group.prefix, name, to_string(norm), *group.configured("head_dim"));
  }
}

} // namespace mha::naming
