// Layers of libraries and other languages: nn.MultiheadAttention, TransformerLens, Julia, timm.

#include <mha/files/text.hpp>
#include <mha/load/described_names.hpp>
#include <mha/load/described_tensors.hpp>
#include <mha/load/families/positions.hpp>
#include <mha/load/families/steps.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/words.hpp>

#include <fmt/ranges.h>

#include <cmath>
#include <cstring>

namespace mha::naming {

namespace {

/// One third of the rows of in_proj_weight (out, in) or in_proj_bias.
Tensor third(const Tensor& fused, std::size_t rank, std::size_t which, const std::string& where) {
  Shape shape = fused.shape();
  if (shape.size() != rank || shape[0] % 3 != 0)
    fail("{} is {}: a multiple of 3 rows expected: queries, keys, values", where, to_string(shape));
  shape[0] /= 3;
  Shape thirds = shape;
  thirds.insert(thirds.begin(), 3);
  return fused.reshaped(thirds).at(which);
}

/// The tables of a rotary model show the number of rotated dimensions, and their second row shows
/// the pairs, which have equal angles: neighbours, or dimensions i and i + d/2.
void set_rotary_table(const Group& group, LayerReading& to) {
  const Shape shape = group.shape("rotary_sin");
  if (shape.size() != 2 || shape[0] < 2 || shape[1] < 4) return;
  const Tensor sines = to.read("rotary_sin");
  const bool neighbours = value_at(sines, shape[1]) == value_at(sines, shape[1] + 1);
  to.set("rope", neighbours ? "interleaved" : "half", "rotary_sin");
  to.set("rope_dims", std::to_string(shape[1]), "rotary_sin");
  if (!to.set_from_config("rope_base", {"rotary_base"}))
    to.warn(
        message("rotary embedding with base 10000, as no config.json has rotary_base; <rope_base> "
                "chooses"));
}

/// Newer files have no tables; the config has everything.
void set_rotary_config(LayerReading& to) {
  to.set("rope", to.is_true({"rotary_adjacent_pairs"}) ? "interleaved" : "half", "config.json");
  to.set_from_config("rope_dims", {"rotary_dim"});
  to.set_from_config("rope_base", {"rotary_base"});
}

/// The value of a key of the config, which must be one of `words`; the first of them by default.
std::string one_of(const Group& group, std::string_view key,
                   std::initializer_list<std::string_view> words) {
  const std::string word = group.configured(key).value_or(std::string(*words.begin()));
  if (!is_one_of(word, words))
    fail("config.json: {} is '{}', which is not computed here: {} expected", key, io::shown(word),
         fmt::join(words, " or "));
  return word;
}

/// Stacks head_1 … head_n to (n, dim, d_h).
Tensor stacked(const LayerReading& to, const std::string& name, std::size_t heads) {
  Tensor all;
  for (std::size_t h = 0; h < heads; ++h) {
    const std::string head = fmt::format("{}.head_{}", name, h + 1);
    Tensor W = to.read(head);
    const Shape s = W.shape();
    if (s.size() != 2 || W.count() == 0)
      fail("{} is {}: a matrix expected, (dim, dim / {})", to.source_of(head), to_string(s), heads);
    // Julia stores arrays by columns, and some writers save them transposed.
    if (s[1] == heads * s[0] && heads > 1) W = transposed(W);
    if (all.empty()) all = Tensor(W.dtype(), {heads, W.shape()[0], W.shape()[1]});
    const Shape want{all.shape()[1], all.shape()[2]};
    if (W.shape() != want || W.dtype() != all.dtype())
      fail("{} is {}: {} expected, as in {}.head_1", to.source_of(head), to_string(s),
           to_string(want), name);
    std::memcpy(all.raw_mutable() + h * W.bytes(), W.raw(), W.bytes());
  }
  return all;
}

} // namespace

/// Whether the projections are in a module of the layer. If they are directly in the layer, as in
/// SqueezeBERT, output.dense belongs to the feed-forward.
bool is_below_a_module(const Group& group) {
  const std::size_t dot = group.prefix.size();
  return dot < 2 || group.prefix[dot - 2] < '0' || group.prefix[dot - 2] > '9';
}

/// Whether the heads are an axis. A matrix called W_Q belongs to no family, because that is just
/// the name in papers.
bool has_axis_of_heads(const Group& group) {
  return group.shape("W_Q").size() >= 3;
}

bool has_kernels_of_matrices(const Group& group) {
  return group.shape("query.kernel").size() == 2 || group.shape("query_dense.vars.0").size() == 2;
}

/// Whether arrays without names are those of Keras' MultiHeadAttention: (E, H, d) for queries, each
/// with its bias (H, d) or none with one, and (H, d, E) for the output.
bool is_weights_of_keras(const Group& group) {
  const bool biases = group.has("arr_7");
  const Shape query = group.shape("arr_0"), output = group.shape(biases ? "arr_6" : "arr_3");
  if (query.size() != 3 || output.size() != 3 || output[0] != query[1]) return false;
  return biases ? group.shape("arr_1") == Shape{query[1], query[2]} && !group.beside("arr_8", 0)
                : group.shape("arr_1").size() == 3 && !group.has("arr_4");
}

/// Accepts only timm's plain vision transformers and Swin, by the model's name: other models of
/// timm have the same tensor names, but rotate queries and keys, or attend in windows, over
/// channels, or with further parts.
void step_plain_vision(LayerReading& to, const JsonTree&) {
  const Group& group = to.group();
  if (group.beside("merger.ln_q.weight", 3))
    fail("{}: {} is of Qwen2-VL's vision tower, which rotates queries and keys in two dimensions: "
         "not supported",
         group.contents->name, group.prefix);
  const std::optional<std::string> name = group.configured("architecture");
  if (!name) return;
  bool plain = name->starts_with("vit_") || name->starts_with("deit") || name->starts_with("swin_");
  for (const std::string_view other : {"rope", "dinov3", "_pe_", "relpos", "parallel"})
    plain = plain && name->find(other) == std::string::npos;
  if (!plain)
    fail("{}: config.json has architecture '{}': of timm's models, vision transformers (vit_…, "
         "deit…) without a rotation or relative positions and swin_… are computed; describe "
         "another one by <naming> FILE.json",
         group.contents->name, *name);
}

/// nn.MultiheadAttention has in_proj_weight (3E, E) with the rows of q, k and v, or q_proj_weight,
/// k_proj_weight and v_proj_weight if keys and values have other widths. There is always one
/// in_proj_bias.
void step_multihead_attention(LayerReading& to, const JsonTree&) {
  const Group& group = to.group();
  std::size_t which = 0;
  for (const char* letter : {"q", "k", "v"}) {
    const std::string W = fmt::format("W_{}", letter), b = fmt::format("b_{}", letter);
    if (group.has("in_proj_weight"))
      to.put(W,
             transposed_when_read(
                 third(to.read("in_proj_weight"), 2, which, to.source_of("in_proj_weight"))),
             "in_proj_weight");
    if (group.has("in_proj_bias"))
      to.put(b, third(to.read("in_proj_bias"), 1, which, to.source_of("in_proj_bias")),
             "in_proj_bias");
    ++which;
  }
  // (1, 1, E): a learned key and a learned value at the end.
  to.take("k_extra", "bias_k"), to.take("v_extra", "bias_v");
  for (const char* extra : {"k_extra", "v_extra"})
    if (const auto part = to.parts.find(extra); part != to.parts.end())
      part->second.tensor = part->second.tensor.reshaped({part->second.tensor.count()});
  // A pickled module has its own number of heads.
  if (const auto own = group.config->find(group.prefix + "num_heads"); own != group.config->end())
    to.set("num_heads", own->second, fmt::format("{}num_heads", group.prefix));
  else
    to.set_from_config("num_heads", {"num_heads", "nhead", "num_attention_heads"});
}

/// Reads the settings of attention from HookedTransformerConfig.
void step_transformer_lens(LayerReading& to, const JsonTree&) {
  const Group& group = to.group();
  if (one_of(group, "attention_dir", {"causal", "bidirectional"}) == "bidirectional")
    to.set("causal", "false", "config.json");
  else
    to.set("causal", "true");
  const double divisor =
      to.is_true({"use_attn_scale"}, true) ? to.number({"attn_scale"}).value_or(0) : 1;
  if (divisor == 0 && to.number({"attn_scale"}))
    fail("config.json: attn_scale is 0, by which scores are divided");
  const bool by_layer = to.is_true({"scale_attn_by_inverse_layer_idx"});
  const std::size_t width = group.shape("W_Q").empty() ? 0 : group.shape("W_Q").back();
  const double times = by_layer ? static_cast<double>(group.number().value_or(0) + 1) : 1;
  const double root = std::sqrt(static_cast<double>(width));
  if (divisor == 1 && times == 1)
    to.set("scale", "none", "config.json");
  else if (divisor > 0 || (by_layer && width > 0))
    to.set("scale", fmt::format("{}", 1 / ((divisor > 0 ? divisor : root) * times)),
           by_layer ? "config.json: scale_attn_by_inverse_layer_idx" : "config.json: attn_scale");
  if (const auto cap = to.number({"attn_scores_soft_cap"}); cap && *cap > 0)
    to.set("softcap", fmt::format("{}", *cap), "config.json");
  if (group.has("rotary_sin"))
    set_rotary_table(group, to);
  else if (one_of(group, "positional_embedding_type", {"standard", "rotary"}) == "rotary")
    set_rotary_config(to);

  // ln1 has w and b. Once these are folded into the weights it has neither, but still normalises.
  const std::string norm = group.parent() + "ln1";
  const std::string type = group.configured("normalization_type").value_or("");
  to.take_norm(group.elsewhere(norm + ".w"), group.elsewhere(norm + ".b"));
  if (to.norm.bias || type.starts_with("LN"))
    to.norm.kind = NormKind::layer;
  else if (to.norm.weight || type.starts_with("RMS"))
    to.norm.kind = NormKind::rms;
  // HookedTransformer without a normalization_type has no norm.
  if (type.empty() && !to.norm.weight && (group.config_has("d_head") || group.config_has("n_ctx")))
    to.norm.kind = NormKind::none;
  to.norm.module = norm, to.norm.file = group.contents->name;
  to.norm.needs_weight = !type.ends_with("Pre");
  if (!to.set_from_config("input_norm_eps", {"eps"})) to.set("input_norm_eps", "1e-05");
}

/// Reads the settings of the parts around attention from HookedTransformerConfig.
void settle_transformer_lens(const Group& group, Description& description, const JsonTree&) {
  const std::string type = group.configured("normalization_type").value_or("");
  const bool none = !type.starts_with("LN") && !type.starts_with("RMS");
  const auto settle = [&](DescribedNorm& norm) {
    norm.kind = none ? "none" : type.starts_with("LN") ? "layer" : "rms";
    norm.affine = !type.ends_with("Pre");
  };
  settle(description.norm_form);
  for (auto& [key, norm] : description.norms)
    if (key != "mlp.inner_norm") settle(norm);
  if (none)
    std::erase_if(description.norms, [](const auto& norm) { return norm.second.kind == "none"; });
  // -1 and 0 mean no cap, as in HookedTransformer.
  if (description.softcap.number(group).value_or(0) <= 0) description.softcap = {};
  description.predicts_next =
      one_of(group, "attention_dir", {"causal", "bidirectional"}) == "causal";
  if (one_of(group, "positional_embedding_type", {"standard", "rotary"}) == "rotary")
    description.tensors.erase("embed.position");
}

/// {"W_q": MODULE, …}: takes head_1 … head_n of each module (Julia counts from 1).
void step_julia_heads(LayerReading& to, const JsonTree& arguments) {
  std::size_t heads = 0;
  while (to.group().has(fmt::format("PQ.head_{}", heads + 1))) ++heads;
  if (heads == 0) fail("{} is missing: the heads count from 1", to.source_of("PQ.head_1"));
  for (const auto& [canonical, name] : arguments.members)
    to.put(canonical, stacked(to, name.text, heads), fmt::format("{}.head_1", name.text));
}

/// {"W_q": "heads.{head}.q.weight|…", …}: takes each head's nn.Linear, (d_h, dim), and its bias.
void step_stacked_heads(LayerReading& to, const JsonTree& arguments) {
  const Group& group = to.group();
  const auto stack = [&](const std::string& canonical, const std::string& name, bool turned) {
    std::vector<io::Entry> heads;
    const io::Entry* first = nullptr;
    while (const io::Entry* const head =
               group.elsewhere(group.prefix + with_head(name, heads.size()))) {
      if (!first) first = head;
      if (head->shape != first->shape || head->shape.size() != (turned ? 2 : 1))
        fail("{} is {}: {} expected, as of head 0", to.source_of(*head), to_string(head->shape),
             turned ? to_string(first->shape) : "a vector");
      heads.push_back(turned ? turned_entry(*head, "oi", "io") : *head);
      group.use(*head);
    }
    if (first) to.put(canonical, stacked_entry(heads).read(), *first);
  };
  for (const auto& [canonical, names] : arguments.members)
    for (const std::string_view name : split_at(names.as_text(canonical), '|'))
      if (group.has(with_head(std::string(name), 0))) {
        stack(canonical, std::string(name), true);
        stack("b" + canonical.substr(1), bias_beside(std::string(name)), false);
        break;
      }
}

/// {"X": NAME}: learned rows (1, T, dim) are the queries' input.
void step_query_rows(LayerReading& to, const JsonTree& arguments) {
  for (const auto& [canonical, name] : arguments.members) {
    const Tensor rows = to.read(name.as_text(canonical));
    const Shape shape = squeezed(rows.shape(), 2);
    to.put(canonical, rows.reshaped(shape), name.as_text(canonical));
  }
}

/// Tokens are columns, and X is added.
void step_columns(LayerReading& to, const JsonTree&) {
  to.set("residual", "true");
  to.set("columns", "true");
}

} // namespace mha::naming
