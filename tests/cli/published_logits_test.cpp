// Small models whose logits, and mixtures whose outputs, other projects published: llamacpp.py and
// blocks.py in tests/data/published write them and name the sources.

#include "support/files.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

using namespace mha;
using namespace mha::test;

namespace {

/// The largest difference of any two numbers; infinite where one is no number.
double furthest_apart(const Tensor& found, const Tensor& expected) {
  REQUIRE(found.count() == expected.count());
  double largest = 0;
  for (std::size_t i = 0; i < expected.count(); ++i) {
    const double difference = std::fabs(value_at(found, i) - value_at(expected, i));
    largest = std::isfinite(difference) ? std::max(largest, difference) : INFINITY;
  }
  return largest;
}

/// Whether a script of tests/data/published has written its models into the folder.
bool models_written(const std::string& script, const Folder& folder) {
  const Result made =
      shell("/usr/bin/python3 tests/data/published/" + script + " " + folder.path());
  if (made.code == 0) return true;
  INFO(made.err);
  REQUIRE((made.code == 127 || made.err.find("'numpy'") != std::string::npos));
  WARN("no NumPy, so nothing to read");
  return false;
}

/// A model that llamacpp.py writes, and its logits in llamacpp/expected.json.
struct PublishedLogits {
  std::string model, expected;
  double most; ///< difference in float64; in the weights' float32 three times that
  std::string ids = "3,7,11,19,23,5", last = "5"; ///< a file beside the model, or tokens
};

/// Compares the last token's logits, an absolute difference as the source does.
void check_logits(const std::vector<PublishedLogits>& models) {
  const Folder folder;
  if (!models_written("llamacpp.py", folder)) return;
  const io::Contents published = io::open(in_source("tests/data/published/llamacpp/expected.json"));
  const std::string out = folder.path("out.npz");
  for (const PublishedLogits& row : models) {
    const Tensor expected = tensor_in(published, row.expected);
    const std::string ids = row.ids.ends_with(".npy") ? folder.path(row.ids) : row.ids;
    for (const std::string dtype : {"f64", "f32"}) {
      INFO(row.model << " in " << dtype);
      const Result result = run({"dump", folder.path(row.model), "--ids", ids, "-s", "logits",
                                 "--query", row.last, "--dtype", dtype, "-o", out});
      // That file claims two positions, which a note tells.
      const bool is_long = row.model == "mistral3_temp_ctx.gguf";
      CHECK((is_long ? result.err.starts_with("note: the text has 6 tokens") : result.err == ""));
      INFO(result.err);
      CHECK(result.err.find("warning") == std::string::npos);
      REQUIRE(result.code == 0);
      const Tensor found = tensor_in(io::open(out), "logits");
      CHECK(furthest_apart(found, expected) < (dtype == "f64" ? row.most : 3 * row.most));
    }
  }
}

} // namespace

TEST_CASE("published mixtures: llama.cpp's logits of the last token", "[model]") {
  // Measured: 6e-8 to 3e-7 where 1e-6 is allowed, of EXAONE MoE 9e-7, and 1.3e-6 to 5.2e-6 of the
  // others, whose logits are five times as large: llama.cpp computes in float32.
  check_logits({{"afmoe", "afmoe", 1e-5},
                {"afmoe.gguf", "afmoe", 1e-5},
                {"bailingmoe.gguf", "bailingmoe", 1e-6},
                {"bailingmoe2", "bailingmoe2", 1e-6},
                {"bailingmoe2.gguf", "bailingmoe2", 1e-6},
                {"deepseek.gguf", "deepseek", 1e-6},
                {"deepseek2", "deepseek2", 1e-6},
                {"deepseek2.gguf", "deepseek2", 1e-6},
                {"deepseek2_legacy.gguf", "deepseek2", 1e-6},
                {"deepseek2_yarn_v2", "deepseek2_yarn_v2", 1e-6},
                {"deepseek2_yarn_v2.gguf", "deepseek2_yarn_v2", 1e-6},
                {"deepseek2_yarn_v3", "deepseek2_yarn_v3", 1e-6},
                {"deepseek2_yarn_v3.gguf", "deepseek2_yarn_v3", 1e-6},
                {"deepseek2_yarn_legacy.gguf", "deepseek2_yarn_v2", 1e-6},
                {"dots1.gguf", "dots1", 1e-6},
                {"ernie4_5-moe.gguf", "ernie4_5-moe", 1e-6},
                {"exaone-moe.gguf", "exaone-moe", 2e-6},
                {"exaone-moe_array.gguf", "exaone-moe", 2e-6},
                {"exaone-moe_mtp.gguf", "exaone-moe_mtp", 2e-6},
                {"glm4moe.gguf", "glm4moe", 1e-6},
                {"glm4moe_air.gguf", "glm4moe_air", 1e-6},
                {"gpt-oss", "gpt-oss", 1e-6},
                {"gpt-oss.gguf", "gpt-oss", 1e-6},
                {"granitemoe.gguf", "granitemoe", 1e-6},
                {"hunyuan-moe.gguf", "hunyuan-moe", 1e-6},
                {"laguna", "laguna", 1e-5},
                {"laguna.gguf", "laguna", 1e-5},
                {"laguna_swa", "laguna_swa", 1e-5},
                {"laguna_swa.gguf", "laguna_swa", 1e-5},
                {"laguna_swa_rot", "laguna_swa_rot", 1e-5},
                {"laguna_swa_rot.gguf", "laguna_swa_rot", 1e-5},
                {"llama4", "llama4", 1e-5},
                {"llama4.gguf", "llama4", 1e-5},
                {"llama4", "llama4_long", 1e-5, "long.npy", "8199"},
                {"llama4.gguf", "llama4_long", 1e-5, "long.npy", "8199"},
                {"llama4_128e", "llama4_128e", 1e-5},
                {"llama4_128e.gguf", "llama4_128e", 1e-5},
                {"mimo2", "mimo2", 1e-6},
                {"mimo2.gguf", "mimo2", 1e-6},
                {"mimo2_fused.gguf", "mimo2", 1e-6},
                {"step35_fused.gguf", "step35", 1e-5},
                {"mimo2_mtp.gguf", "mimo2", 1e-6},
                {"mimo2_novscale", "mimo2_novscale", 1e-6},
                {"mimo2_novscale.gguf", "mimo2_novscale", 1e-6},
                {"minimax-m2.gguf", "minimax-m2", 1e-6},
                {"qwen3moe.gguf", "qwen3moe", 1e-6},
                {"step35", "step35", 1e-5},
                {"step35.gguf", "step35", 1e-5},
                {"step35_noclamp", "step35_noclamp", 1e-5},
                {"step35_noclamp.gguf", "step35_noclamp", 1e-5}});
}

TEST_CASE("published dense models: llama.cpp's logits of the last token", "[model]") {
  // Measured: 7e-8 to 5e-7 where 1e-6 is allowed, else 1.5e-6 to 6.4e-6. llama.cpp's GELU is a
  // table of float16 numbers: the tolerances of Gemma, Falcon and GPT-NeoX are the source's for
  // that.
  check_logits({{"arcee.gguf", "arcee", 1e-6},
                {"cohere2.gguf", "cohere2", 1e-6},
                {"cohere2_pattern.gguf", "cohere2_pattern", 1e-6},
                {"command-r.gguf", "command-r", 1e-6},
                {"command-r_noscale.gguf", "command-r_noscale", 1e-5},
                {"ernie4_5.gguf", "ernie4_5", 1e-6},
                {"exaone.gguf", "exaone", 1e-6},
                {"exaone4.gguf", "exaone4", 1e-6},
                {"exaone4_32b.gguf", "exaone4_32b", 5e-6},
                {"falcon.gguf", "falcon", 1e-2},
                {"falcon_40b.gguf", "falcon_40b", 1e-2},
                {"gemma.gguf", "gemma", 2e-4},
                {"glm4.gguf", "glm4", 1e-6},
                {"gptneox.gguf", "gptneox", 1e-2},
                {"gptneox_sequential.gguf", "gptneox_sequential", 1e-2},
                {"granite.gguf", "granite", 1e-6},
                {"granite_norope.gguf", "granite_norope", 1e-6},
                {"hunyuan-dense.gguf", "hunyuan-dense", 1e-6},
                {"internlm2.gguf", "internlm2", 1e-6},
                {"minicpm.gguf", "minicpm", 1e-6},
                {"mistral3.gguf", "mistral3", 1e-6},
                {"mistral3_temp.gguf", "mistral3_temp", 1e-6},
                {"mistral3_temp_ctx.gguf", "mistral3_temp", 1e-6},
                {"mistral3_yarn.gguf", "mistral3_yarn", 1e-6},
                {"mistral3_yarn_logmul.gguf", "mistral3_yarn_logmul", 1e-6},
                {"nemotron.gguf", "nemotron", 1e-5},
                {"nemotron_biases.gguf", "nemotron_biases", 1e-5},
                {"olmo.gguf", "olmo", 5e-6},
                {"olmo_clamped.gguf", "olmo_clamped", 5e-6},
                {"olmo2.gguf", "olmo2", 1e-6},
                {"seed_oss.gguf", "seed_oss", 1e-6},
                {"smollm3.gguf", "smollm3", 1e-6},
                {"stablelm.gguf", "stablelm", 1e-5},
                {"stablelm_parkey.gguf", "stablelm", 1e-5},
                {"stablelm_parallel.gguf", "stablelm_parallel", 1e-5},
                {"xverse.gguf", "xverse", 1e-6}});
}

TEST_CASE("published mixtures: what other projects' blocks of experts give", "[model]") {
  struct Block {
    std::string model;
    double most, most_in_f32;
  };
  // Measured: 0 and 1.3e-8 in float64; the second's result has eight digits, from float32.
  const std::vector<Block> blocks{{"groups", 1e-14, 1e-9}, {"mixtral", 4e-8, 6e-8}};
  const Folder folder;
  if (!models_written("blocks.py", folder)) return;
  for (const Block& block : blocks) {
    const std::string given = folder.path(block.model + "/expected.npz");
    const Tensor expected = tensor_in(io::open(given), "mlp_out");
    for (const std::string dtype : {"f64", "f32"}) {
      INFO(block.model << " in " << dtype);
      const std::string out = folder.path("out.npz");
      const Result result = run({"dump", folder.path(block.model), "--ids", given, "-s", "mlp_out",
                                 "--dtype", dtype, "-q", "-o", out});
      CHECK(result.err == "");
      REQUIRE(result.code == 0);
      const Tensor found = tensor_in(io::open(out), "mlp_out");
      CHECK(furthest_apart(found, expected) < (dtype == "f64" ? block.most : block.most_in_f32));
    }
  }
}
