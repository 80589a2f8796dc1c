// GGUF's keys: every one that llama.cpp reads of any architecture, in a tiny model of each that is
// read here: missing, and with another value. Numbers change as the reference's do, or the key is
// reported or refused by name; one that changes nothing is on the list below.

#include "support/share.hpp"
#include "unit/formats/gguf_runs.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <optional>

using namespace mha;
using namespace mha::test;

namespace {

/// A key, another value of it, and what must stand beside it for it to have a meaning.
struct KeyCase {
  std::string key;
  GgufKeyValue other;
  std::vector<std::pair<std::string, GgufKeyValue>> beside = {};
  /// What messages may say in the key's place: a size is a config's, where it is one of the
  /// tensors'.
  std::string_view also_called = {};
  bool same = false; ///< some architectures read the value as they do a missing key
};

const std::vector<std::pair<std::string, GgufKeyValue>> stretched{
    {"rope.scaling.type", std::string("yarn")}, {"rope.scaling.factor", 4.F}};
const std::vector<std::pair<std::string, GgufKeyValue>> yarn{
    {"rope.scaling.type", std::string("yarn")},
    {"rope.scaling.factor", 4.F},
    {"rope.scaling.original_context_length", 512U}};
const std::vector<std::pair<std::string, GgufKeyValue>> windowed{{"attention.sliding_window", 2U}};
const std::vector<std::pair<std::string, GgufKeyValue>> twice{{"rope.scaling.factor", 2.F}};
constexpr std::string_view length_names = "n_positions max_position_embeddings max_seq_len";
constexpr bool same = true;

const std::vector<KeyCase>& key_cases() {
  using List = std::vector<std::uint32_t>;
  static const std::vector<KeyCase> cases{
      {"block_count", 3U, {}, "num_hidden_layers n_layers n_layer"},
      {"embedding_length", 48U, {}, "hidden_size n_embd d_model"},
      {"context_length", 16U, {}, length_names},
      {"context_length", 256U, stretched, length_names},
      {"feed_forward_length", 18U, {}, "intermediate_size n_inner"},
      {"feed_forward_length", List{20, 18}, {}, "intermediate_size n_inner"},
      {"vocab_size", 9U},
      {"attention.head_count", 2U, {}, "number"}, // of heads, which is not known
      {"attention.head_count", List{4, 2}, {}, "number"},
      {"attention.head_count_kv", 3U, {}, "attention.head_count"},
      {"attention.head_count_kv", List{2, 1}, {}, "attention.head_count"},
      {"attention.key_length", 8U, {}, "attention.head_count"},
      {"attention.value_length", 3U, {}, "attention.head_count"},
      {"attention.layer_norm_rms_epsilon", 0.5F},
      {"attention.layer_norm_epsilon", 0.5F},
      {"attention.causal", false, {}, {}, same},
      {"attention.causal", true, {}, {}, same},
      {"attention.sliding_window", 2U},
      {"attention.sliding_window", 0U, {}, {}, same},
      {"attention.sliding_window_pattern", 1U, windowed},
      {"attention.sliding_window_pattern", 3U, windowed, {}, same},
      {"attention.sliding_window_pattern", std::vector<bool>{false, true}, windowed},
      {"attention.scale", 0.75F},
      {"attention.clamp_kqv", 0.5F},
      {"attention.max_alibi_bias", 4.F},
      {"attention.max_alibi_bias", 0.F, {}, {}, same},
      {"attention.temperature_scale",
       0.5F,
       {{"rope.scaling.original_context_length", 4U}, {"attention.temperature_length", 4U}}},
      {"attention.temperature_scale",
       0.5F,
       {{"rope.scaling.original_context_length", 7U}},
       {},
       same},
      {"attention.temperature_length", 5U, {{"attention.temperature_scale", 0.5F}}},
      {"attention.q_lora_rank", 5U},
      {"attention.kv_lora_rank", 5U},
      {"attention.key_length_mla", 9U},
      {"attention.value_length_mla", 9U},
      {"attention.key_length_swa", 3U},
      {"attention.value_length_swa", 3U},
      {"attention.relative_buckets_count", 8U},
      {"attention.output_scale", 0.5F},
      {"attention.value_scale", 0.5F},
      {"attention.value_residual_mix_lora_rank", 4U},
      {"attention.group_norm_epsilon", 0.5F},
      {"attention.group_norm_groups", 2U},
      {"attention.indexer.top_k", 2U},
      {"attention.shared_kv_layers", 1U},
      {"attention.recurrent_layers", List{0, 1}},
      {"rope.dimension_count", 2U},
      {"rope.dimension_count_swa", 2U},
      {"rope.dimension_sections", List{1, 1, 0, 1}},
      {"rope.dimension_sections", List{2, 1, 0, 0}},
      {"rope.freq_base", 90.F},
      {"rope.freq_base_swa", 90.F},
      {"rope.scale_linear", 2.F},
      {"rope.scaling.type", std::string("none"), twice},
      {"rope.scaling.type", std::string("linear"), twice, {}, same},
      {"rope.scaling.type", std::string("yarn"), twice},
      {"rope.scaling.type", std::string("longrope"), twice, {}, same},
      {"rope.scaling.type", std::string("dynamic"), twice},
      {"rope.scaling.factor", 2.F},
      {"rope.scaling.factor", 0.F, {}, {}, same},
      {"rope.scaling.factor", 2.F, yarn},
      {"rope.scaling.alpha", 2.F},
      {"rope.scaling.attn_factor", 1.5F},
      {"rope.scaling.attn_factor", 1.5F, yarn},
      {"rope.scaling.original_context_length", 4U},
      {"rope.scaling.original_context_length", 64U, yarn},
      {"rope.scaling.finetuned", false},
      {"rope.scaling.finetuned", true, {}, {}, same},
      {"rope.scaling.yarn_beta_fast", 2.F, yarn},
      {"rope.scaling.yarn_beta_slow", 0.1F, yarn},
      {"rope.scaling.yarn_ext_factor", 0.5F, yarn},
      {"rope.scaling.yarn_ext_factor", 1.F, yarn, {}, same},
      {"rope.scaling.yarn_attn_factor", 1.5F, yarn},
      {"rope.scaling.yarn_log_multiplier", 0.05F, yarn},
      {"attn_logit_softcapping", 1.F},
      {"final_logit_softcapping", 1.F},
      {"router_logit_softcapping", 1.F},
      {"logit_scale", 3.F},
      {"logit_scale", 0.F, {}, {}, same},
      {"embedding_scale", 2.F},
      {"residual_scale", 0.75F},
      {"use_parallel_residual", false, {}, {}, same},
      {"use_parallel_residual", true, {}, {}, same},
      {"tensor_data_layout", std::string("Meta AI original pth")},
      {"pooling_type", 1U},
      {"expert_count", 4U, {}, "mixtral"},
      {"expert_used_count", 2U},
      {"expert_shared_count", 1U},
      {"expert_group_count", 2U},
      {"expert_weights_scale", 2.F},
      {"expert_weights_norm", true},
      {"expert_gating_func", 2U},
      {"expert_feed_forward_length", 8U},
      {"leading_dense_block_count", 1U},
      {"interleave_moe_layer_step", 2U},
      {"nextn_predict_layers", 1U},
      {"hidden_activation", std::string("relu")},
      {"swin_norm", true},
      {"rescale_every_n_layers", 6U},
      {"token_shift_count", 2U},
      {"full_attention_interval", 4U},
      {"ssm.conv_kernel", 4U},
      {"decoder_start_token_id", 1U},
      {"decoder_block_count", 1U},
      {"time_mix_extra_dim", 4U},
      {"time_decay_extra_dim", 4U},
      {"hrm.h_cycles", 2U},
      {"hrm.l_cycles", 2U},
      {"hrm.layers_per_stack", 1U},
      {"hrm.prefix_lm", true},
      {"attention.decay_lora_rank", 4U},
      {"attention.iclr_lora_rank", 4U},
      {"attention.gate_lora_rank", 4U},
      {"attention.rope_pattern", 2U},
      {"attention.key_length_mla_swa", 9U},
      {"attention.value_length_mla_swa", 9U},
      {"attention.kv_lora_rank_swa", 5U},
      {"attention.indexer.head_count", 2U},
      {"attention.indexer.key_length", 4U},
      {"attention.indexer.block_size", 4U},
      {"attention.indexer.local_blocks", 1U},
      {"attention.output_group_count", 2U},
      {"attention.output_lora_rank", 4U},
      {"attention.compress_rope_freq_base", 90.F},
      {"hyper_connection.count", 2U},
      {"hyper_connection.epsilon", 0.5F},
      {"ple.ngram_size", 2U},
      {"hash_layer_count", 1U},
      {"ssm.inner_size", 8U},
      {"ssm.state_size", 4U},
      {"ssm.time_step_rank", 4U},
      {"ssm.group_count", 2U},
      {"ssm.dt_b_c_rms", true},
      {"kda.head_dim", 4U},
      {"kda.safe_gate", true},
      {"wkv.head_size", 4U},
      {"posnet.block_count", 1U},
      {"convnext.block_count", 1U},
      {"shortconv.l_cache", 3U},
      {"dense_2_feat_out", 8U},
      {"dense_3_feat_out", 8U},
      {"embedding_length_out", 8U},
      {"embedding_length_per_layer_input", 4U},
      {"altup.num_inputs", 2U},
      {"altup.active_idx", 1U},
      {"activation_sparsity_scale", 0.5F},
      {"expert_group_used_count", 1U},
      {"expert_group_scale", 2.F},
      {"experts_per_group", 2U},
      {"moe_every_n_layers", 2U},
      {"moe_latent_size", 4U},
      {"swiglu_clamp_exp", 1.F},
      {"swiglu_clamp_shexp", 1.F},
      {"n_deepstack_layers", 1U},
      {"features_length", 8U},
      {"norm_before_residual", true},
      {"block_size", 4U},
      {"target_layers", 1U},
      {"what_a_later_version_has", 0.5F},
  };
  return cases;
}

/// Keys without effect on the numbers of these architectures, or of all: what tensors tell, what is
/// of later stages, what nothing reads without another key.
struct Plain {
  std::string_view key, architectures = {};
};
constexpr std::string_view without_rotation = "gpt2 starcoder bloom mpt bert",
                           attention_alone = "qwen2moe qwen2vl qwen3moe gpt-oss deepseek2 baichuan";
constexpr Plain plain_keys[]{
    {"vocab_size"},
    {"pooling_type"},
    {"tensor_data_layout"},
    {"context_length"},
    {"attention.layer_norm_rms_epsilon", "nemotron"},
    {"attention.layer_norm_epsilon", "exaone"},
    {"feed_forward_length", "bloom falcon mpt"},
    {"feed_forward_length", attention_alone},
    {"block_count", attention_alone},
    {"embedding_length", attention_alone},
    {"attention.head_count_kv", "deepseek2"},
    {"attention.q_lora_rank", "deepseek2"},
    {"attention.kv_lora_rank", "deepseek2"},
    {"use_parallel_residual", "stablelm"},
    {"use_parallel_residual", attention_alone},
    {"rope.dimension_sections", "qwen2vl"},
    {"rope.scaling.finetuned"},
    {"rope.scaling.original_context_length"},
    {"rope.scaling.attn_factor", without_rotation},
    {"rope.scaling.factor", without_rotation},
    {"rope.scaling.type", without_rotation},
    {"rope.scaling.yarn_beta_fast", without_rotation},
    {"rope.scaling.yarn_beta_slow", without_rotation},
    {"rope.scaling.yarn_ext_factor", without_rotation},
    {"rope.scaling.yarn_attn_factor", without_rotation},
    {"rope.scale_linear", without_rotation},
    {"rope.dimension_count", without_rotation},
    {"rope.freq_base", without_rotation},
    {"attention.sliding_window", "qwen2 qwen2moe qwen2vl qwen3 qwen3moe"},
};

bool has_word_of(std::string_view list, std::string_view word) {
  return GgufTraits{.name = {}, .more = list}.has(word);
}

bool is_plain(const std::string& key, const GgufTraits& traits) {
  // Experts are of the feed-forward, which a layer of attention alone has none of.
  if (!traits.is_whole() && (key.starts_with("expert_") || key == "leading_dense_block_count"))
    return true;
  return std::ranges::any_of(plain_keys, [&](const Plain& plain) {
    return plain.key == key &&
           (plain.architectures.empty() || has_word_of(plain.architectures, traits.name));
  });
}

/// The key, or what else it may be called, is in a message.
bool names(const std::string& message, const KeyCase& one, const GgufTraits& traits) {
  if (message.find(std::string(traits.name) + "." + one.key) != std::string::npos) return true;
  for (std::size_t at = 0; at < one.also_called.size();) {
    const std::size_t end = std::min(one.also_called.find(' ', at), one.also_called.size());
    if (message.find(one.also_called.substr(at, end - at)) != std::string::npos) return true;
    at = end + 1;
  }
  return false;
}

/// "" where what became of a file is one of what may; `before` is of the file without the change.
std::string wrong(const GgufTraits& traits, const KeyCase& one, const GgufFile& file,
                  const GgufOutcome& before, const GgufOutcome& after, bool may_be_same) {
  if (!after.error.empty())
    return names(after.error, one, traits) ? "" : "refused, not by the key's name: " + after.error;
  if (names(after.said, one, traits)) return "";
  try {
    if (!same_numbers(after.numbers, GgufRuns::reference_of(traits, file)))
      return "silent, and not the reference's numbers";
  } catch (const std::exception& error) {
    return std::string("silent, where the reference finds tensors of other sizes: ") + error.what();
  }
  if (after.numbers == before.numbers && !may_be_same && !is_plain(one.key, traits))
    return "silent and without effect, and not on the list of such keys";
  return "";
}

} // namespace

TEST_CASE("GGUF: a model of each architecture has llama.cpp's numbers, without a word",
          "[gguf][keys]") {
  const GgufRuns runs;
  std::size_t whole = 0;
  for (const GgufTraits& traits : gguf_traits()) {
    INFO(traits.name);
    const GgufFile file = gguf_model(traits);
    const GgufOutcome outcome = runs.run(traits, file);
    CHECK(outcome.error == "");
    CHECK(outcome.said == "");
    CHECK(same_numbers(outcome.numbers, GgufRuns::reference_of(traits, file)));
    const GgufOutcome layers = runs.run(traits, file, true);
    CHECK(layers.error == "");
    CHECK(layers.said == "");
    CHECK(same_numbers(layers.numbers, GgufRuns::reference_of(traits, file, true)));
    whole += traits.is_whole();
  }
  CHECK(whole == 36);
}

TEST_CASE("GGUF: a key that is missing, or says something else, changes numbers or is told",
          "[gguf][keys]") {
  const GgufRuns runs;
  Share share(7);
  std::size_t refused = 0, told = 0, changed = 0, plain = 0;
  for (const GgufTraits& traits : gguf_traits()) {
    const std::string prefix = std::string(traits.name) + ".";
    const GgufOutcome plain_file = runs.run(traits, gguf_model(traits));
    for (const KeyCase& one : key_cases()) {
      if (!share.takes()) continue;
      GgufFile base = gguf_model(traits);
      for (const auto& [key, value] : one.beside) base.keys[prefix + key] = value;
      const bool there = base.keys.contains(prefix + one.key);
      GgufFile without = base, with = base;
      without.keys.erase(prefix + one.key);
      with.keys[prefix + one.key] = one.other;
      const GgufOutcome before = one.beside.empty() ? plain_file : runs.run(traits, base);
      // A file that is refused for what is beside the key shows nothing of the key.
      if (!one.beside.empty() && !before.error.empty()) continue;
      for (const GgufFile* file : {&with, &without}) {
        if (file == &without && !there) continue;
        const GgufOutcome outcome = runs.run(traits, *file);
        const std::string what =
            wrong(traits, one, *file, before, outcome, one.same || file == &without);
        if (!what.empty())
          FAIL_CHECK(prefix << one.key << (file == &with ? "" : " missing") << ": " << what);
        (!outcome.error.empty()              ? refused
         : !outcome.said.empty()             ? told
         : outcome.numbers == before.numbers ? plain
                                             : changed) += 1;
      }
    }
  }
  CAPTURE(refused, told, changed, plain);
  constexpr std::size_t fewer = sanitized ? 10 : 1;
  CHECK(refused > 300 / fewer);
  CHECK(told > 1000 / fewer);
  CHECK(changed > 300 / fewer);
}
