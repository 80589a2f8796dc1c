#include <mha/compare/names.hpp>

#include <catch2/catch.hpp>

#include <set>

using namespace mha;

TEST_CASE("names of results: what other code calls its stages") {
  using enum Stage;
  const std::pair<std::string_view, std::vector<Stage>> cases[] = {
      {"q_proj", {q}},
      {"model.layers.3.self_attn.o_proj", {output}},
      {"Qcur-0", {q, q_rope}},
      {"Kcur-11 (reshaped)", {k, k_rope}},
      {"kq-0", {scores}},
      {"kq_soft_max-0", {weights}},
      {"q_rotated", {q_rope}},
      {"att_masked", {masked}},
      {"S", {scores, scaled, masked}},
      {"P", {weights}},
      {"O", {head_out, concat, output}},
      {"y_heads", {head_out}},
      {"y_cat", {concat}},
      {"hidden_states", {x}},
      {"hook_rot_q", {q_rope}},
      {"weights", {weights}},
      {"loss", {}},
      {"W_q", {}},
  };
  for (const auto& [name, stages] : cases) {
    INFO(name);
    CHECK(result_stages(name) == stages);
  }
}

TEST_CASE("names of results: no word is in the table twice, and none hides a stage's own name") {
  std::set<std::string_view> words;
  for (const auto& [word, stages] : result_words()) {
    INFO(word);
    CHECK(words.insert(word).second);
    CHECK_FALSE(is_stage_name(word));
    CHECK(result_stages(word) == stages);
  }
}

TEST_CASE("names of results: llama.cpp's numbers of layers") {
  using Split = std::pair<std::string_view, std::optional<std::size_t>>;
  CHECK(without_layer_suffix("Qcur-7") == Split("Qcur", 7));
  CHECK(without_layer_suffix("kq-12 (view)") == Split("kq", 12));
  CHECK(without_layer_suffix("weights") == Split("weights", std::nullopt));
  CHECK(without_layer_suffix("attn-out") == Split("attn-out", std::nullopt));
  CHECK(without_layer_suffix("-1") == Split("-1", std::nullopt));
}

TEST_CASE("a step's name says what it is, whatever is said before or after it of whose it is") {
  for (const char* name : {"out_ref", "ref_out", "expected_out", "attn.out_golden", "out_torch"})
    CHECK(result_stages(name) == result_stages("out"));
  for (const char* name : {"lse_fp32", "ref_lse_f32", "softmax_lse_expected"})
    CHECK(result_stages(name) == std::vector{Stage::logsumexp});
  CHECK(result_stages("foo_ref").empty());
  CHECK(result_stages("_ref").empty());
}
