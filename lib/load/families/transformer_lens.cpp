// TransformerLens: blocks.N.attn.W_Q (H, d_model, d_head) … W_O (H, d_head, d_model), applied as X
// W; grouped keys and values are _W_K and _W_V. The heads are the first axis.

#include <mha/files/text.hpp>
#include <mha/load/families/namings.hpp>
#include <mha/load/families/positions.hpp>
#include <mha/system/one_of.hpp>

#include <fmt/ranges.h>

#include <cmath>

namespace mha::naming {

namespace {

/// The tables of a rotary model tell how many dimensions are rotated, and by their second row in
/// which pairs: neighbours have the same angle, or dimension i and i + d/2.
void set_rotary_table(const Group& group, Translation& to) {
  const Shape shape = group.shape("rotary_sin");
  if (shape.size() != 2 || shape[0] < 2 || shape[1] < 4) return;
  const Tensor sines = to.read("rotary_sin");
  const bool neighbours = value_at(sines, shape[1]) == value_at(sines, shape[1] + 1);
  to.set("rope", neighbours ? "interleaved" : "half", "rotary_sin");
  to.set("rope_dims", std::to_string(shape[1]), "rotary_sin");
  if (!to.set_from_config("rope_base", {"rotary_base"}))
    to.warn(
        message("rotary embedding with base 10000, as no config.json says rotary_base; <rope_base> "
                "chooses"));
}

/// Newer files hold no tables: the config says it all.
void set_rotary_config(Translation& to) {
  to.set("rope", to.is_true({"rotary_adjacent_pairs"}) ? "interleaved" : "half", "config.json");
  to.set_from_config("rope_dims", {"rotary_dim"});
  to.set_from_config("rope_base", {"rotary_base"});
}

/// A word of the config, without it the first of those that are computed here.
std::string one_of(const Group& group, std::string_view key,
                   std::initializer_list<std::string_view> words) {
  const std::string word = group.configured(key).value_or(std::string(*words.begin()));
  if (!is_one_of(word, words))
    fail("config.json: {} is '{}', which is not computed here: {} expected", key, io::shown(word),
         fmt::join(words, " or "));
  return word;
}

/// The heads are an axis: a matrix W_Q is of no family: papers write it so.
bool is_transformer_lens(const Group& group) {
  return group.shape("W_Q").size() >= 3;
}

void translate_transformer_lens(const Group& group, Translation& to) {
  for (const auto& [canonical, name] : {std::pair("q", "Q"), {"k", "K"}, {"v", "V"}, {"o", "O"}})
    for (const char* grouped : {"", "_"}) {
      to.take(fmt::format("W_{}", canonical), fmt::format("{}W_{}", grouped, name));
      to.take(fmt::format("b_{}", canonical), fmt::format("{}b_{}", grouped, name));
    }
  // The tensors' axes say the heads, too, and are held against these.
  to.set_from_config("num_heads", {"n_heads"});
  to.set_from_config("num_kv_heads", {"n_key_value_heads"});
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

  // ln1 has w and b; folded into the weights it has neither, and still divides.
  const std::string norm = group.parent() + "ln1";
  const std::string type = group.configured("normalization_type").value_or("");
  to.norm.weight = group.elsewhere(norm + ".w"), to.norm.bias = group.elsewhere(norm + ".b");
  for (const io::Entry* entry : {to.norm.weight, to.norm.bias})
    if (entry) group.use(*entry);
  if (to.norm.bias || type.starts_with("LN"))
    to.norm.kind = NormKind::layer;
  else if (to.norm.weight || type.starts_with("RMS"))
    to.norm.kind = NormKind::rms;
  // A config of HookedTransformer without the type has no norm.
  if (type.empty() && !to.norm.weight && (group.says_value("d_head") || group.says_value("n_ctx")))
    to.norm.kind = NormKind::none;
  to.norm.module = norm, to.norm.file = group.contents->name;
  to.norm.needs_weight = !type.ends_with("Pre");
  if (!to.set_from_config("input_norm_eps", {"eps"})) to.set("input_norm_eps", "1e-05");
}

/// What HookedTransformerConfig says.
void settle_transformer_lens(const Group& group, ModelRecord& record) {
  const std::string type = group.configured("normalization_type").value_or("");
  record.norm = type.starts_with("LN")    ? InputNorm::layer
                : type.starts_with("RMS") ? InputNorm::rms
                                          : InputNorm::none;
  record.norm_is_bare = type.ends_with("Pre");
  if (record.norm == InputNorm::none) record.pre_mlp_norm = record.last_norm = "";
  if (group.is_true({"parallel_attn_mlp"})) record.shape = BlockShape::parallel;
  if (group.is_true({"gated_mlp"})) {
    record.mlp_in = "mlp.W_gate", record.mlp_up = "mlp.W_in";
    record.bias_of_product = true;
  }
  if (group.configured("act_fn") == "solu_ln") record.mlp_norm = "mlp.ln";
  if (group.is_true({"attn_only"})) {
    record.shape = BlockShape::attention_only;
    record.pre_mlp_norm = record.mlp_in = record.mlp_out = record.mlp_norm = "";
  }
  // As HookedTransformer: -1 and 0 are no cap.
  if (group.configured_number({record.softcap_key}).value_or(0) <= 0) record.softcap_key = "";
  record.causal = one_of(group, "attention_dir", {"causal", "bidirectional"}) == "causal";
  if (one_of(group, "positional_embedding_type", {"standard", "rotary"}) == "rotary")
    record.positions = "";
}

constexpr ModelRecord transformer_lens_record{
    .layers = "blocks",
    .tokens = "embed.W_E",
    .positions = "pos_embed.W_pos",
    .eps_keys = "eps",
    .norm_bias = Bias::always,
    .pre_mlp_norm = "ln2",
    .mlp_in = "mlp.W_in",
    .mlp_out = "mlp.W_out",
    .in_out = true,
    .activation_keys = "act_fn",
    .activation = "gelu_new",
    .last_norm = "ln_final",
    .head = "unembed.W_U",
    .head_has_bias = Bias::always,
    .own_vocabulary = true,
    .softcap_key = "output_logits_soft_cap",
    .settle = settle_transformer_lens,
};

} // namespace

const Family transformer_lens{"transformer_lens",
                              "TransformerLens",
                              "*",
                              "W_Q W_K|_W_K W_V|_W_V W_O",
                              "b_Q b_K b_V b_O _b_K _b_V IGNORE rotary_sin rotary_cos",
                              is_transformer_lens,
                              translate_transformer_lens,
                              &transformer_lens_record};

} // namespace mha::naming
