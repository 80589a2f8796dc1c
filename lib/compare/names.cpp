#include <mha/compare/names.hpp>

#include <mha/compare/captures.hpp>
#include <mha/layer/names.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/naming/tensor_names.hpp>
#include <mha/system/named.hpp>
#include <mha/system/parse.hpp>
#include <mha/system/words.hpp>

namespace mha {

namespace {

/// Words that mean the same stages.
struct Meaning {
  std::vector<Stage> stages;
  std::string_view words; ///< separated by spaces
};

// Found in Transformers, llama.cpp, llm.c, llama2.c, gemma.cpp, nanoGPT, lucidrains' packages, MLX,
// candle, fairseq, Keras, x-transformers and teaching code.
// clang-format off
const std::vector<Meaning>& meanings() {
  using enum Stage;
  static const std::vector<Meaning> table{
  {{x}, "attn_norm attention_norm input_layernorm ln_1 ln1 norm1 x_norm x_normed xn"},
  {{q}, "q_proj q_lin q_linear mixed_query_layer to_q wq q_heads q_split Qcur_linear"},
  {{k}, "k_proj k_lin k_linear mixed_key_layer to_k wk k_heads k_split Kcur_linear"},
  {{v}, "v_proj v_lin v_linear mixed_value_layer to_v wv v_heads v_split values value_layer value xv V Vcur_reshaped v_states"},
  {{q_norm}, "q_normed Qcur_normed q_layernorm query_layernorm"},
  {{k_norm}, "k_normed Kcur_normed k_layernorm key_layernorm"},
  {{q, q_rope}, "query queries query_layer query_states q_states xq Qcur"},
  {{k, k_rope}, "key keys key_layer key_states k_states xk Kcur"},
  {{q}, "Q"},
  {{k}, "K"},
  {{q_rope}, "q_rot q_rotated q_roped q_embed query_rot query_rotated xq_out xq_rope Qcur_rope Q_rot"},
  {{k_rope}, "k_rot k_rotated k_roped k_embed key_rot key_rotated xk_out xk_rope Kcur_rope K_rot"},
  {{scores}, "qk energy raw_scores scores_raw raw_attn dot_products"},
  {{scaled}, "kq_scaled scores_scaled scaled_scores attn_scores_scaled"},
  {{scores, scaled, masked}, "attn_scores attention_scores_raw S sim dots preatt logits_attn"},
  {{scores, scaled, masked, weights}, "attention_scores att_scores"},
  {{capped}, "kq_capped scores_capped softcapped"},
  {{biased}, "kq_biased scores_biased attn_biased"},
  {{masked}, "att_masked kq_masked masked_scores scores_masked attn_scores_masked attn_masked"},
  {{logsumexp}, "L lse softmax_lse"},
  {{weights}, "P A attention_weight attention_map attn_map attn_matrix att_probs attention_probabilities attn_dist softmax attn_softmax kq_soft_max_ext probs_attn"},
  {{scaled, masked, weights}, "attention_weights att_weights"},
  {{head_out}, "y_heads head_outputs out_heads z_heads kqv attn_heads per_head"},
  {{head_out, concat}, "context ctx context_layer attn_vec weighted_values"},
  {{head_out, concat, output}, "O attn_output attention_output"},
  {{concat}, "y_cat concat_heads merged merged_heads attn_concat kqv_merged kqv_merged_cont kqv_cont atty xb"},
  {{concat, output}, "kqv_out"},
  {{weights, head_out, concat, output}, "attn"},
  {{output}, "o_proj out_proj c_proj attn_proj attproj kqv_wo att_out attn_out_proj self_attn self_attention att_sums xb2 dense proj"},
  };
  return table;
}
// clang-format on

/// Marks that people put before or after a step's name for its origin or its type.
constexpr std::string_view before_names[]{"ref_", "reference_", "expected_", "gold_", "golden_"},
    after_names[]{"_ref",   "_reference", "_expected", "_gold", "_golden", "_torch", "_fp32",
                  "_float", "_f32",       "_fp16",     "_f16",  "_bf16",   "_fp64",  "_f64"};

/// The name without such a mark; "" if it has none.
std::string_view undecorated(std::string_view word) {
  for (const std::string_view before : before_names)
    if (word.starts_with(before)) return word.substr(before.size());
  for (const std::string_view after : after_names)
    if (word.ends_with(after)) return word.substr(0, word.size() - after.size());
  return {};
}

} // namespace

std::pair<std::string_view, std::optional<std::size_t>>
without_layer_suffix(std::string_view name) {
  if (const std::size_t note = name.find(" ("); note != std::string_view::npos)
    name = name.substr(0, note); // "Qcur-0 (reshaped)"
  const std::size_t dash = name.rfind('-');
  if (dash == std::string_view::npos || dash == 0) return {name, std::nullopt};
  const std::optional<std::size_t> number = parse_number<std::size_t>(name.substr(dash + 1));
  if (!number) return {name, std::nullopt};
  return {name.substr(0, dash), number};
}

bool is_stage_name(std::string_view name) {
  const std::string_view word = last_part(without_layer_suffix(name).first);
  return find_named(stages(), word) != nullptr || find_derived(word);
}

std::vector<Stage> result_stages(std::string_view name) {
  name = without_layer_suffix(name).first;
  const std::string_view word = last_part(name);
  if (const StageInfo* info = find_named(stages(), word)) return {info->stage};
  if (const std::optional<Stage> derived = find_derived(word)) return {*derived};
  if (std::vector<Stage> readings = stages_below_module(name); !readings.empty()) return readings;
  for (const Meaning& meaning : meanings())
    if (has_word(meaning.words, word)) return meaning.stages;
  if (std::vector<Stage> readings = readings_of(name); !readings.empty()) return readings;
  if (const TensorInfo* info = find_tensor_name(word))
    return info->name == "X" ? std::vector{Stage::x} : std::vector<Stage>{};
  if (find_tensor_name(name)) return {};
  if (const std::optional<Stage> stage = find_stage(name)) return {*stage};
  if (const std::string_view plain = undecorated(word); !plain.empty()) return result_stages(plain);
  return {};
}

std::vector<std::pair<std::string_view, std::vector<Stage>>> result_words() {
  std::vector<std::pair<std::string_view, std::vector<Stage>>> list;
  for (const Meaning& meaning : meanings())
    for (std::string_view word : words_of(meaning.words)) list.emplace_back(word, meaning.stages);
  return list;
}

} // namespace mha
