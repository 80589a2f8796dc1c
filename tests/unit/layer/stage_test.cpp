#include <mha/layer/stage.hpp>
#include <mha/naming/stage_names.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>

using Catch::Matchers::Contains;
using mha::Stage;

TEST_CASE("the table of stages is in the order of the computation") {
  REQUIRE(mha::stages().size() == mha::step_count);
  for (std::size_t i = 0; i < mha::step_count; ++i) {
    const mha::StageInfo& info = mha::stages()[i];
    CHECK(mha::index_of(info.stage) == i);
    CHECK(mha::stage_named(info.name) == info.stage);
    CHECK_FALSE(info.text.empty());
    CHECK_FALSE(info.value.empty());
    CHECK_FALSE(info.part.empty());
    for (Stage input : info.inputs) CHECK(mha::index_of(input) < i);
    CHECK((info.kind == mha::Kind::row) ==
          (info.letters.size() == 2 && info.letters[1] == mha::Dim::T));
  }
}

TEST_CASE("stages answer to the names that other tools give them") {
  const std::vector<std::pair<const char*, Stage>> names{
      {"alpha", Stage::weights},
      {"attn", Stage::weights},
      {"att", Stage::weights},
      {"pattern", Stage::weights},
      {"probs", Stage::weights},
      {"attention_probs", Stage::weights},
      {"attentions", Stage::weights},
      {"hook_pattern", Stage::weights},
      {"attn_softmax", Stage::weights},
      {"kq_soft_max", Stage::weights},
      {"z", Stage::head_out},
      {"hook_z", Stage::head_out},
      {"kqv", Stage::head_out},
      {"result", Stage::head_result},
      {"hook_result", Stage::head_result},
      {"y", Stage::output},
      {"out", Stage::output},
      {"attn_out", Stage::output},
      {"hook_attn_out", Stage::output},
      {"kq", Stage::scores},
      {"attn_raw", Stage::scores},
      {"attn_scaled", Stage::scaled},
      {"attn_masked", Stage::masked},
      {"attn_logits", Stage::masked},
      {"hook_attn_scores", Stage::masked},
      {"lse", Stage::logsumexp},
      {"softmax_lse", Stage::logsumexp},
      {"hook_q", Stage::q},
      {"hook_k", Stage::k},
      {"hook_v", Stage::v},
      {"hook_rot_q", Stage::q_rope},
      {"rot_k", Stage::k_rope},
      {"blocks.0.attn.hook_pattern", Stage::weights},
      {"layers.3.weights", Stage::weights}};
  for (const auto& [name, stage] : names) {
    INFO(name);
    CHECK(mha::stage_named(name) == stage);
  }
}

TEST_CASE("no name means two stages") {
  std::map<std::string, Stage> seen;
  for (const mha::StageInfo& info : mha::stages()) {
    std::string words = std::string(info.name) + " " + std::string(info.aliases);
    for (std::size_t at = 0; at < words.size();) {
      const std::size_t end = std::min(words.find(' ', at), words.size());
      if (end > at) CHECK(seen.emplace(words.substr(at, end - at), info.stage).second);
      at = end + 1;
    }
  }
  for (const char* word : {"attn_weights", "attn_output", "query_states", "Qcur", "key_states",
                           "Kcur", "context_layer"})
    CHECK(seen.count(word) == 0);
}

TEST_CASE("refuses words that mean several stages, naming the choices") {
  CHECK_THROWS_WITH(mha::find_stage("attn_weights"), Contains("scaled or weights"));
  CHECK_THROWS_WITH(mha::find_stage("blocks.1.attn_output"),
                    Contains("head_out or concat or output"));
  CHECK_THROWS_WITH(mha::stage_named("Qcur"), Contains("q or q_rope"));
  CHECK(mha::readings_of("query_states") == std::vector<Stage>{Stage::q, Stage::q_rope});
  CHECK(mha::readings_of("key_states") == std::vector<Stage>{Stage::k, Stage::k_rope});
  CHECK(mha::find_stage("value_states") == Stage::v);
  CHECK(mha::find_stage("attn_output_weights") == Stage::weights);
  CHECK(mha::readings_of("weights").empty());
}

TEST_CASE("a misspelt stage gets a suggestion") {
  CHECK_FALSE(mha::find_stage("wieghts"));
  CHECK_THROWS_WITH(mha::stage_named("wieghts"), Contains("did you mean 'weights'"));
  CHECK_THROWS_WITH(mha::stage_named("softmaxed_things"), Contains("docs/stages.md"));
}
