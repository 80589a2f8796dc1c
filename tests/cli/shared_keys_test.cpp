// Layers that take keys and values of an earlier one, and the tokens' embeddings for each layer.

#include "support/files.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>

using namespace mha;
using namespace mha::test;
using Catch::Contains;

namespace {

/// Gemma 4's small form (tests/models): layers 3 and 4 take the keys of 1 and 2; "" without NumPy.
const std::string& small_gemma() {
  static const Folder folder;
  static const std::string path = [] {
    const Result made =
        shell("/usr/bin/python3 tests/models/make.py " + folder.path() + " gemma4_text-e");
    if (made.code != 0) WARN("no NumPy, so no checkpoints: " << made.err);
    return made.code == 0 ? folder.path("gemma4_text-e") : std::string();
  }();
  return path;
}

io::Contents dumped(const Folder& folder, const std::vector<std::string>& more) {
  std::vector<std::string> words{"dump", "-q", "-o", folder.path("out.npz"), small_gemma()};
  words.insert(words.end(), more.begin(), more.end());
  const Result result = run(words);
  INFO(result.err);
  REQUIRE(result.code == 0);
  return io::open(folder.path("out.npz"));
}

std::vector<double> numbers_of(const io::Contents& file, const std::string& name) {
  const io::Entry* const entry = file.find(name);
  INFO(name);
  REQUIRE(entry);
  return values_in_double(entry->read());
}

const std::vector<std::string> text{"--ids", "3,7,9,4,5", "--layer", "all"};

std::vector<std::string> text_and(const std::vector<std::string>& more) {
  std::vector<std::string> all = text;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

} // namespace

TEST_CASE("shared keys: a patch of the first layer's keys reaches those that take them") {
  if (small_gemma().empty()) return;
  const Folder folder;
  const io::Contents clean = dumped(folder, text),
                     patched = dumped(folder, text_and({"--patch", "layers.1.k_rope[0,2] = 0.5"}));
  CHECK_FALSE(clean.find("layers.3.k"));
  CHECK(numbers_of(clean, "layers.3.k_rope") == numbers_of(clean, "layers.1.k_rope"));
  CHECK(numbers_of(clean, "layers.4.v_norm") == numbers_of(clean, "layers.2.v_norm"));
  CHECK(numbers_of(patched, "layers.3.k_rope") == numbers_of(patched, "layers.1.k_rope"));
  CHECK(numbers_of(patched, "layers.3.k_rope")[2 * 12] == 0.5);
  CHECK(numbers_of(patched, "layers.3.scores") != numbers_of(clean, "layers.3.scores"));
}

TEST_CASE("shared keys: an effect is what the same patch makes of the prediction") {
  if (small_gemma().empty()) return;
  const Folder folder;
  const std::vector<std::string> ids{"--ids", "3,7,9,4,5"};
  const auto logits_of_last = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = ids;
    words.insert(words.end(), {"-s", "logits", "--dtype", "f64"});
    words.insert(words.end(), more.begin(), more.end());
    const std::vector<double> all = numbers_of(dumped(folder, words), "logits");
    return std::vector<double>(all.end() - 67, all.end());
  };
  const auto probabilities = [](std::vector<double> logits) {
    double sum = 0;
    for (double& x : logits) sum += x = std::exp(x);
    for (double& x : logits) x /= sum;
    return logits;
  };
  const Result result =
      run({"effects", small_gemma(), "--ids", "3,7,9,4,5", "--dtype", "f64", "-f", "json"});
  REQUIRE(result.code == 0);
  const std::vector<double> clean = probabilities(logits_of_last({}));
  std::size_t compared = 0;
  for (const auto& effect : nlohmann::json::parse(result.out)) {
    if (effect.at("part") != "head" || effect.at("layer") > 1) continue;
    const std::vector<double> without = probabilities(logits_of_last(
        {"--patch", fmt::format("layers.{}.head_out[{}] = 0", effect.at("layer").get<int>(),
                                effect.at("head").get<int>())}));
    double kl = 0;
    for (std::size_t i = 0; i < clean.size(); ++i) kl += clean[i] * std::log(clean[i] / without[i]);
    CHECK(effect.at("kl").get<double>() == Approx(kl).epsilon(1e-6));
    ++compared;
  }
  CHECK(compared == 12);
}

TEST_CASE(
    "shared keys: a lone layer is computed from both tensors, or says that they are missing") {
  if (small_gemma().empty()) return;
  const Folder folder;
  const io::Contents all = dumped(folder, text);
  const std::string path = folder.path("all.npz"), at = path + ":layers.3.";
  std::filesystem::rename(folder.path("out.npz"), path);
  const std::vector<std::string> given{"X=" + at + "x", "--layer", "3", "k_rope=" + at + "k_rope",
                                       "v_norm=" + at + "v_norm"};
  const io::Contents lone = dumped(folder, given);
  CHECK(numbers_of(lone, "output") == numbers_of(all, "layers.3.output"));
  const Result missing = run({"show", small_gemma(), "X=" + at + "x", "--layer", "3"});
  CHECK(missing.code == 2);
  CHECK_THAT(missing.err, Contains("k_rope is missing: its keys and values are those of an "
                                   "earlier layer: give a text, or both tensors, k_rope=FILE "
                                   "v_norm=FILE"));
  CHECK(run({"show", small_gemma(), "X=" + at + "x", "--layer", "1"}).code == 0);
}

TEST_CASE("layers' embeddings: vectors in the place of tokens, and other tokens, are refused") {
  if (small_gemma().empty()) return;
  const Folder folder;
  dumped(folder, {"--ids", "3,7,9", "-s", "embed"});
  const Result vectors =
      run({"predict", small_gemma(), "--inputs-embeds", folder.path("out.npz") + ":embed"});
  INFO(vectors.err);
  CHECK(vectors.code == 2);
}
