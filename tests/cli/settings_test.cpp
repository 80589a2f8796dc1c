#include "support/run.hpp"

#include <catch2/catch.hpp>

// A wrong setting names the tensor and both numbers; one that contradicts the files reports which
// won; an option that changes nothing is reported.

using namespace mha::test;
using Catch::Contains;

namespace {

/// What `show -s x` of the quick start prints on standard error, with more files and options.
std::string said(std::vector<std::string> arguments, int code) {
  arguments.insert(arguments.begin(), {"show", "data/quickstart.json", "-s", "scaled"});
  const Result result = run(arguments);
  INFO(result.err);
  CHECK(result.code == code);
  if (code != 0) CHECK(one_line(result.err));
  return result.err;
}

} // namespace

TEST_CASE("settings: one that does not fit names the tensor and both numbers") {
  CHECK_THAT(said({"--num-heads", "3"}, 2),
             Contains("W_q is (4, 4): 4 columns do not split into 3 heads"));
  CHECK_THAT(said({"--num-kv-heads", "3"}, 2),
             Contains("2 query heads do not divide into 3 key/value heads"));
  CHECK_THAT(said({"--num-kv-heads", "1"}, 2),
             Contains("W_k is (4, 4): 4 columns in 1 key/value head are 4 each, but 2") &&
                 Contains("W_q"));
  CHECK_THAT(said({"--rope", "half", "--rope-dims", "6"}, 2),
             Contains("rope rotates 6 dimensions") && Contains("W_q has 2"));
  CHECK_THAT(said({"--rope", "half", "--rope-scaling", "llama3", "--rope-low-freq-factor", "5"}, 2),
             Contains("rope_low_freq_factor is 5, rope_high_freq_factor 4"));
  CHECK_THAT(said({"--softcap", "-3"}, 2), Contains("--softcap is '-3'"));
  CHECK_THAT(said({"--qk-norm-eps", "-1"}, 2), Contains("--qk-norm-eps is '-1'"));
  CHECK_THAT(said({"--window-left", "-3"}, 2), Contains("--window-left is '-3'"));

  const Folder folder;
  const auto file = [&](const char* name, const char* text) { return folder.write(name, text); };
  CHECK_THAT(said({file("sinks.json", R"({"sinks": [0, 1, 2]})")}, 2),
             Contains("sinks is (3,): 2 heads expected, as in data/quickstart.json: num_heads"));
  CHECK_THAT(said({file("norm.json", R"({"q_norm.weight": [1, 1, 1]})")}, 2),
             Contains("q_norm.weight is (3,)") && Contains("(2,)"));
  CHECK_THAT(said({file("buckets.json", R"({"relative_bias": [[0, 1], [1, 0], [2, 2], [3, 1]]})"),
                   "--relative-max-distance", "1"},
                  2),
             Contains("relative_bias is (4, 2): 2 buckets a direction") &&
                 Contains("max_distance 1"));
  CHECK_THAT(said({file("past.json", R"({"k_past": [[[1, 0]]], "v_past": [[[1, 1]]]})")}, 2),
             Contains("W_k is (4, 4): 4 columns in 1 key/value head") && Contains("k_past"));
  CHECK_THAT(said({file("lengths.json", R"({"kv_lengths": [4]})")}, 2),
             Contains("length 4") && Contains("from 0 to 3"));
  CHECK_THAT(said({file("wide.json", R"({"b_o": [1, 2, 3]})")}, 2), Contains("b_o is (3,): 4"));
}

TEST_CASE("settings: one that contradicts the files says which won") {
  const Folder folder;
  CHECK(said({"--scale", "0.5"}, 0) ==
        "note: --scale 0.5 wins over 0.6931471805599453 (data/quickstart.json)\n");
  CHECK(said({"--num-heads", "2"}, 0) == "");
  const std::string path = folder.write("other.json", R"({"num_heads": 1})");
  CHECK(said({path}, 0) == "note: " + path + ": num_heads 1 wins over 2 (data/quickstart.json)\n");
  const Result config = run({"show", "data/induction", "--layer", "1", "--no-causal", "-s", "q",
                             "X=data/induction/hidden.npz:layers.1"});
  CHECK(config.code == 0);
  CHECK_THAT(config.err, Contains("--causal false wins over true (LLaMA names)"));
  const Result heads =
      run({"show", "data/induction", "--layer", "1", "--num-heads", "8", "--num-kv-heads", "8",
           "-s", "q", "X=data/induction/hidden.npz:layers.1"});
  CHECK(heads.code == 0);
  CHECK_THAT(heads.err, Contains("--num-heads 8 wins over 4 (config.json)"));
  CHECK(run({"show", "data/quickstart.json", "--scale", "1", "--strict"}).code ==
        0); // it was reported
}

TEST_CASE("settings: an option that changes nothing says so") {
  CHECK(said({"--rope-dims", "2"}, 0) == "warning: --rope-dims changes nothing: rope is none\n");
  CHECK_THAT(said({"--rope", "half", "--rope-factor", "2"}, 0),
             Contains("--rope-factor changes nothing: rope_scaling is none"));
  CHECK_THAT(said({"--qk-norm-eps", "0.1"}, 0), Contains("there is no q_norm.weight"));
  CHECK_THAT(said({"--relative-max-distance", "9"}, 0), Contains("there is no relative_bias"));
  CHECK_THAT(said({"--input-norm-eps", "0.1"}, 0), Contains("input_norm is none"));
  CHECK_THAT(said({"--causal-align", "top_left"}, 0), Contains("not causal and has no window"));
  CHECK(said({"--causal", "--causal-align", "top_left", "--window-left", "1"}, 0) == "");
  const Folder folder;
  CHECK_THAT(said({folder.write("positions.json", R"({"positions": [3, 4, 5]})")}, 0),
             Contains("positions change nothing: rope is none"));
  CHECK_THAT(said({folder.write("norm.json", R"({"norm.weight": [1, 2, 3, 4]})")}, 0),
             Contains("norm.weight") && Contains("input_norm is none"));
  const std::string weights =
      folder.write("weights.json", R"({"weights": [[[0.5, 0.5], [1, 0]]], "v": [[[1], [2]]]})");
  const Result late = run({"show", weights, "--causal", "-s", "head_out"});
  CHECK(late.code == 0);
  CHECK_THAT(late.err,
             Contains("note: --causal changes no number: the computation starts at weights; "));
}
