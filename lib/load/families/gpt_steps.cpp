// GPT-like families, where shapes, buffers and keys of config.json decide together.

#include <mha/load/families/config_keys.hpp>
#include <mha/load/families/positions.hpp>
#include <mha/load/families/steps.hpp>
#include <mha/system/characters.hpp>

#include <algorithm>
#include <cmath>

namespace mha::naming {

namespace {

bool is_cross(const Group& group) {
  return group.has("q_attn.weight");
}

/// The kind of a layer in attention_layers ("global,local,…") or attention_types, which is a list
/// of patterns with their repetitions: [[["global", "local"], 12]].
std::optional<std::string> kind_of(const Group& group, std::size_t layer) {
  if (const auto layers = group.configured("attention_layers")) return element(*layers, layer);
  const std::string text = group.configured("attention_types").value_or("");
  std::vector<std::string> pattern;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '"') {
      const std::size_t end = std::min(text.find('"', at + 1), text.size());
      pattern.push_back(text.substr(at + 1, end - at - 1));
      at = end + 1;
    } else if (is_digit(text[at])) {
      std::size_t times = 0;
      for (; at < text.size() && is_digit(text[at]); ++at)
        times =
            std::min<std::size_t>(times * 10 + static_cast<std::size_t>(text[at] - '0'), 1000000);
      if (layer < times * pattern.size()) return pattern[layer % pattern.size()];
      layer -= times * pattern.size();
      pattern.clear();
    } else {
      ++at;
    }
  }
  return std::nullopt;
}

} // namespace

bool has_gpt2_shapes(const Group& group) {
  const Shape s = group.shape("c_attn.weight");
  return s.size() == 2 && s[1] == (is_cross(group) ? 2 : 3) * s[0];
}

bool has_gpt_bigcode_shapes(const Group& group) {
  const Shape s = group.shape("c_attn.weight");
  return s.size() == 2 && s[0] > s[1] && s[0] < 3 * s[1];
}

/// A head that is not the embedding: nanoGPT ties the two, minGPT does not.
bool has_own_head(const Group& group) {
  const io::Entry* tokens = group.elsewhere(group.parent(3) + "wte.weight");
  const io::Entry* head = nullptr;
  for (std::size_t levels = 3; !head; ++levels) {
    const std::string above = group.parent(levels);
    head = group.elsewhere(above + "lm_head.weight");
    if (above.empty()) break;
  }
  if (!tokens || !head) return false;
  if (tokens->shape != head->shape || tokens->dtype != head->dtype) return true;
  const Tensor a = tokens->read(), b = head->read();
  return a.raw() != b.raw() && !std::equal(a.raw(), a.raw() + a.bytes(), b.raw());
}

/// Buffers of the causal mask, which are named like biases.
void step_mask_buffers(LayerReading& to, const JsonTree&) {
  to.skip({"bias"}, "the causal mask's buffer, not a bias");
  to.skip({"masked_bias"}, "the fill value of the mask, not a bias");
}

/// {TENSOR: its description}: known tensors that are skipped.
void step_ignore(LayerReading& to, const JsonTree& arguments) {
  for (const auto& [name, what] : arguments.members) to.skip({name}, what.as_text(name));
}

/// {TENSOR: the computation it belongs to}: not supported here.
void step_unsupported(LayerReading& to, const JsonTree& arguments) {
  for (const auto& [name, what] : arguments.members) to.refuse({name}, what.as_text(name));
}

/// {"key", "name", "taken", "axes", "naming"}: a square matrix whose orientation only its name
/// suggests.
void step_square(LayerReading& to, const JsonTree& arguments) {
  const auto text = [&](const char* name) { return text_in(arguments, name).value_or(""); };
  to.note_square(text("key"), text("name"), text("taken"), text("axes"), text("naming"));
}

/// c_attn of cross-attention holds keys and values, q_attn the queries.
void step_gpt2_cross_attention(LayerReading& to, const JsonTree&) {
  const Group& group = to.group();
  if (!has_gpt2_shapes(group) || group.is_model({"gpt_bigcode"}))
    fail("{} is {}: (E, 2E) expected, keys and values", to.source_of("c_attn.weight"),
         to_string(group.shape("c_attn.weight")));
  to.take("W_q", "q_attn.weight"), to.take("b_q", "q_attn.bias");
  const Shape s = group.shape("c_attn.weight"); // (E, 2E): keys, values
  const Tensor W = permuted(to.read("c_attn.weight").reshaped({s[0], 2, s[1] / 2}), {1, 0, 2});
  const Tensor b = to.read("c_attn.bias").reshaped({2, s[1] / 2});
  to.put("W_k", W.at(0), "c_attn.weight"), to.put("W_v", W.at(1), "c_attn.weight");
  to.put("b_k", b.at(0), "c_attn.bias"), to.put("b_v", b.at(1), "c_attn.bias");
}

/// Scales by 1/√d unless scale_attn_weights is false, and also by 1/(layer + 1) if
/// scale_attn_by_inverse_layer_idx is true. {"by_layer": false}: the model never scales by the
/// layer's number.
void step_gpt2_scale(LayerReading& to, const JsonTree& arguments) {
  const bool scaled = to.is_true({"scale_attn_weights"}, true);
  if (!scaled) to.set("scale", "none", "config.json");
  if (!flag_in(arguments, "by_layer", true) || !to.is_true({"scale_attn_by_inverse_layer_idx"}))
    return;
  const std::optional<std::size_t> layer = to.group().number(), width = to.head_width();
  if (!layer || !width) {
    to.warn(message(
        "config.json has scale_attn_by_inverse_layer_idx, but this layer's number or its heads are "
        "not known: the scale is not divided; <scale> chooses"));
    return;
  }
  const double scale =
      (scaled ? 1 / std::sqrt(static_cast<double>(*width)) : 1) / static_cast<double>(*layer + 1);
  to.set("scale", fmt::format("{}", scale), "config.json: scale_attn_by_inverse_layer_idx");
}

/// Without a model_type, only the shape identifies GPT-BigCode.
void step_gpt_bigcode_doubt(LayerReading& to, const JsonTree&) {
  to.warn(message(
      "{} has GPT-2's name and is stored (out, in), by its shape {}: read as GPT-BigCode; <naming> "
      "gpt2 or nanogpt reads it otherwise",
      to.source_of("c_attn.weight"), to_string(to.group().shape("c_attn.weight"))));
}

/// Local layers see a window of window_size keys.
void step_gpt_neo_window(LayerReading& to, const JsonTree&) {
  const Group& group = to.group();
  const std::size_t window = group.configured_count({"window_size"}, 1).value_or(256);
  group.configured("attention_types"); // known even if attention_layers is read instead
  const std::optional<std::size_t> layer = group.number();
  const std::optional<std::string> kind = layer ? kind_of(group, *layer) : std::nullopt;
  if (!kind)
    to.warn(message("no setting in config.json makes this layer local or global: taken as global; "
                    "<window_left> 255 makes it local, as these models are"));
  if (kind && *kind == "local") to.set("window_left", fmt::format("{}", window - 1), "config.json");
}

/// GPT-J's and CodeGen's rotation: interleaved pairs in rotary_dim dimensions, with the base 10000
/// whatever config.json has.
void step_gptj_rotary(LayerReading& to, const JsonTree&) {
  set_rotary(to, {.style = "interleaved", .dims_key = "rotary_dim", .fixed = true});
  if (!to.group().configured("rotary_dim"))
    to.warn(message("config.json has no rotary_dim: all dimensions of a head are rotated; "
                    "<rope_dims> chooses"));
}

/// {"japanese": false, "always": false}: the biases of GPT-NeoX, which attention_bias switches.
/// GPT-NeoX Japanese has only the last layer's dense_bias; with "always", both biases are required.
void step_neox_biases(LayerReading& to, const JsonTree& arguments) {
  const Group& group = to.group();
  const bool japanese = flag_in(arguments, "japanese"), always = flag_in(arguments, "always"),
             biased = !japanese && (always || to.is_true({"attention_bias"}, true)),
             known = group.configured("model_type").has_value();
  for (const char* name : {"query_key_value.bias", "dense.bias"}) {
    if (biased && known && !group.has(name))
      fail("{}: {}{} is missing, though config.json does not have attention_bias false",
           group.contents->name, group.prefix, name);
    if (!biased)
      to.skip_with_warning(name, japanese ? "models of this kind have none"
                                          : "config.json has attention_bias false");
  }
  if (biased) to.take("b_qkv", "query_key_value.bias"), to.take("b_o", "dense.bias");
  if (japanese) to.take("b_o", "dense_bias"); // the last layer's
}

/// Persimmon's layer norms of each head's queries and keys, unless qk_layernorm is false.
void step_persimmon_norms(LayerReading& to, const JsonTree&) {
  if (!to.is_true({"qk_layernorm"}, true)) return;
  for (const std::string letter : {"q", "k"})
    for (const std::string part : {".weight", ".bias"}) {
      const Group& group = to.group();
      if (!group.has(letter + "_layernorm" + part))
        fail("{}: {}{}_layernorm{} is missing, which models of this kind have",
             group.contents->name, group.prefix, letter, part);
      to.take(letter + "_norm" + part, letter + "_layernorm" + part);
    }
  to.set("qk_norm", "layer");
  if (!to.set_from_config("qk_norm_eps", {"layer_norm_eps"})) to.set("qk_norm_eps", "1e-05");
}

/// MPT: llm-foundry clips queries and keys before it normalises all heads together.
void step_mpt_limits(LayerReading& to, const JsonTree&) {
  const Group& group = to.group();
  if (const auto clip = group.configured("attn_config.clip_qkv"); clip && group.has("q_ln.weight"))
    fail("{}: clip_qkv {} before the layer normalisation of queries and keys (q_ln) is not "
         "supported; with the model's own q and k of this layer, start from these: <q=FILE> "
         "<k=FILE>",
         group.contents->name, *clip);
  if (const auto slope = to.number({"attn_config.alibi_bias_max"}); slope && *slope != 8)
    fail("{}: alibi_bias_max {} is not supported: 8 is", group.contents->name, *slope);
  if (group.contents->format != "gguf" && !to.is_true({"attn_config.alibi"}, true) &&
      !to.option("alibi"))
    to.warn(message("config.json has attn_config.alibi false, so none is added; Transformers adds "
                    "it to every model of this kind, and <alibi> mpt does so here"));
}

} // namespace mha::naming
