// How many passes of the model diff and diagnose take, as --timings counts them, and that what is
// looked at in part of a text is named as from the whole.

#include "support/files.hpp"
#include "support/run.hpp"
#include "support/share.hpp"

#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

using namespace mha;
using namespace mha::test;
using nlohmann::json;

namespace {

constexpr const char* model = "data/bard-gpt2";

/// 90 tokens: a text of which some are looked at first.
std::string long_text() {
  std::string ids;
  for (int t = 0; t < 90; ++t) ids += (t == 0 ? "" : ",") + std::to_string(5 + 37 * t % 480);
  return ids;
}

double passes_of(const Result& result) {
  return json::parse(result.err.substr(result.err.rfind("{\"read_s\"")))["passes"].get<double>();
}

} // namespace

TEST_CASE("passes: diff takes one of the model where all agrees") {
  const Folder folder;
  const std::string right = folder.path("right.npz"), ids = long_text();
  REQUIRE(run({"dump", model, "--ids", ids, "-s", "resid_pre,resid_post,final,logits", "-q", "-o",
               right})
              .code == 0);
  const Result same = run({"diff", model, "--ids", ids, "--against", right, "-q", "--timings"});
  INFO(same.err);
  REQUIRE(same.code == 0);
  CHECK(passes_of(same) < 1.3);
}

TEST_CASE("passes: a cause in all layers is named from logits alone in few passes of the model") {
  const Folder folder;
  const std::string ids = long_text();
  const Result made =
      shell("/usr/bin/python3 " + source_folder() + "/tests/support/port.py " + model + " " + ids +
            " none,act:relu,scale,block.twice,block_norm.eps,embed.scale,head.softcap,head.rows,"
            "head.row,head.columns,head.softmax " +
            folder.path(""));
  INFO(made.out << made.err);
  REQUIRE(made.code == 0);
  const auto diagnosed = [&](const std::string& path) {
    return run(
        {"diagnose", model, "--ids", ids, "--against", path, "-q", "--timings", "-f", "json"});
  };
  struct Row {
    const char *mistake, *id;
  };
  Share share(4);
  for (const Row& row :
       {Row{"act:relu", "mlp.activation"}, Row{"scale", "scale.missing"},
        Row{"block.twice", "block.twice"}, Row{"block_norm.eps", "block_norm.eps"},
        Row{"embed.scale", "embed.scale"}, Row{"head.softcap", "head.softcap"},
        Row{"head.rows", "head.rows"}, Row{"head.row", "buffer.row"},
        Row{"head.columns", "head.columns"}, Row{"head.softmax", "head.softmax"}}) {
    if (!share.takes()) continue;
    const Result result = diagnosed(folder.path(std::string(row.mistake) + "-logits.npz"));
    INFO(row.mistake << "\n" << result.out << result.err);
    REQUIRE(result.code == 0);
    // Trials are computing, beside which packing is counted.
    CHECK(json::parse(result.err.substr(result.err.rfind("{\"read_s\"")))["compute_s"] > 0);
    CHECK(result.out.find(std::string("\"id\": \"") + row.id) != std::string::npos);
    CHECK(passes_of(result) < 120);
  }
  if (sanitized) return; // the rest goes the same way through the program
  // The same where the reference is of a short type.
  const Folder half;
  REQUIRE(shell("/usr/bin/python3 " + source_folder() + "/tests/support/port.py " + model + " " +
                ids + " none,act:relu,head.softcap " + half.path("") + " float16")
              .code == 0);
  CHECK(diagnosed(half.path("none-logits.npz")).code == 0);
  for (const Row& row : {Row{"act:relu", "mlp.activation"}, Row{"head.softcap", "head.softcap"}}) {
    const Result result = diagnosed(half.path(std::string(row.mistake) + "-logits.npz"));
    INFO(row.mistake << " in float16\n" << result.out << result.err);
    CHECK(result.out.find(std::string("\"id\": \"") + row.id) != std::string::npos);
  }
  // A change under which a token sees later ones is tried on the whole text.
  const std::string open = folder.path("open.npz");
  REQUIRE(
      run({"dump", model, "--ids", ids, "--no-causal", "-s", "logits", "-q", "-o", open}).code ==
      0);
  const Result result = diagnosed(open);
  INFO(result.out << result.err);
  CHECK(result.out.find("causal.missing") != std::string::npos);
  CHECK(passes_of(result) < 150);
}
