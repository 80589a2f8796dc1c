// Nothing silently wrong: what was lost, shared by layers, or not understood is reported, once, in
// words that lead on.

#include "support/run.hpp"

#include <catch2/catch.hpp>

using namespace mha::test;
using Catch::Contains;

namespace {

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size())
    ++count;
  return count;
}

/// An error of one line with all of this.
void refuses(const std::vector<std::string>& words, const Setting& here,
             std::initializer_list<std::string> says) {
  const Result result = run(words, here);
  INFO(result.err);
  CHECK(result.code == 2);
  CHECK(count_of(result.err, "mha-inspect: ") == 1); // after notes
  for (const std::string& text : says) CHECK_THAT(result.err, Contains(text));
}

const std::string induction = "data/induction";
const std::string hidden = "X=data/induction/hidden.npz:layers.";

} // namespace

TEST_CASE("told: settings beyond float32 are refused where float32 computes") {
  const Folder folder;
  folder.write("f64.json", small_layer_json());
  folder.write("f32.json",
               R"({"X": {"dtype": "float32", "data": [[1, 2], [3, 4]]}, "num_heads": 1})");
  const Setting here{.folder = folder.path()};
  for (const auto& [option, value] : {std::pair("--softcap", "1e39"),
                                      {"--scale", "1e39"},
                                      {"--scale", "-1e39"},
                                      {"--scale", "1e-60"},
                                      {"--softcap", "1e-60"},
                                      {"--input-norm-eps", "1e39"},
                                      {"--qk-norm-eps", "1e300"}}) {
    INFO(option << " " << value);
    const std::string lost =
        std::string(value).find("-60") == std::string::npos ? "infinite" : "0 in float32";
    refuses({"show", "f32.json", option, value}, here, {option, lost, "float32", "--dtype f64"});
    CHECK(run({"show", "f32.json", option, value, "--dtype", "f64"}, here).code == 0);
    CHECK(run({"show", "f64.json", option, value}, here).code == 0);
  }
  folder.write("capped.json",
               R"({"X": {"dtype": "float32", "data": [[1]]}, "num_heads": 1, "softcap": 1e39})");
  refuses({"show", "capped.json"}, here, {"capped.json: softcap is 1e+39"});
  // Computed in double precision, whatever the layer's: no loss.
  CHECK(run({"show", "f32.json", "--rope", "half", "--rope-base", "1e39"}, here).code == 0);
}

TEST_CASE("told: numbers that float32 does not hold") {
  const Folder folder;
  const auto layer = [&](const std::string& name, const std::string& value,
                         const std::string& more = "") {
    folder.write("layer.json",
                 R"({"X": {"dtype": "float32", "data": [[1, 2], [3, 4]]}, "num_heads": 1, ")" +
                     name + R"(": {"dtype": "float64", "data": [[1, 0], [0, )" + value + "]]}" +
                     more + "}");
    return run({"show", "layer.json", "-s", "x"}, {.folder = folder.path()}).err;
  };
  for (const char* name : {"W_q", "W_o", "bias"})
    CHECK_THAT(layer(name, "1e39"), Contains("warning: layer.json: " + std::string(name) +
                                             ": 1 number becomes infinite in float32") &&
                                        Contains("[1, 1]: 1e+39") && Contains("--dtype f64"));
  CHECK_THAT(layer("W_v", "1e-60"),
             Contains("note: layer.json: W_v: 1 number becomes 0 in float32"));
  CHECK_THAT(layer("W_v", "1e-30"), !Contains("float32"));
  // The lowest number of float64, as masks are written, means −inf: reported, and no doubt.
  CHECK_THAT(layer("mask", "-1.7976931348623157e308"),
             Contains("note: layer.json: mask: 1 number becomes infinite"));
  CHECK_THAT(layer("mask", "1e300"), Contains("warning: "));
  const Result strict = run({"show", "layer.json", "--strict"}, {.folder = folder.path()});
  CHECK(strict.code == 2);
  CHECK(run({"show", "layer.json", "--strict", "--dtype", "f64"}, {.folder = folder.path()}).code ==
        0);
}

TEST_CASE("told: one tensor for several layers is an error, unless it is meant") {
  for (const char* binding :
       {"X=data/induction/hidden.npz:layers.0", "W_q=data/induction/hidden.npz:layers.0@OI",
        "q_norm.weight=data/induction/hidden.npz:layers.0"}) {
    INFO(binding);
    refuses({"stats", induction, "--layer", "all", "X=data/induction/hidden.npz:layers.{layer}",
             binding},
            {}, {binding, "for 2 layers"});
    break; // X twice is an error of its own
  }
  refuses({"stats", induction, "--layer", "all", hidden + "0"}, {},
          {hidden + "0", "the same X for 2 layers (0, 1)", "{layer}", "--same-x"});
  refuses({"show", induction, "--layer", "0-1", hidden + "{layer}",
           "weights=data/induction/hidden.npz:layers.0"},
          {}, {"the same weights"});
  refuses({"dump", induction, "--layer", "0,1", hidden + "{layer}",
           "W_k=data/induction/hidden.npz:layers.0", "-o", "/nonexistent/x"},
          {}, {"the same W_k"});
  const Result same = run({"stats", induction, "--layer", "all", hidden + "0", "--same-x"});
  CHECK(same.code == 0);
  CHECK(run({"stats", induction, "--layer", "1", hidden + "0"}).code == 0);
  CHECK(run({"stats", induction, "--layer", "all", hidden + "{layer}",
             "tokens=data/induction/tokens.json"})
            .code == 0);
  // Nothing is computed: `info` lists the layers.
  CHECK(run({"info", induction, hidden + "0"}).code == 0);

  // In files of canonical names, too.
  const Folder folder;
  folder.write(
      "two.json",
      R"({"layers": {"0": {"W_q": [[1]]}, "1": {"W_q": [[2]]}}, "X": [[1], [2]], "num_heads": 1})");
  refuses({"show", "two.json", "--layer", "all"}, {.folder = folder.path()},
          {"two.json: X: the same X for 2 layers", "layers.0.X"});
  CHECK(run({"show", "two.json", "--layer", "all", "--same-x"}, {.folder = folder.path()}).code ==
        0);
}

TEST_CASE("told: a note once, with its layers; only warnings are errors by --strict") {
  const std::vector<std::string> all{"stats", induction,          "--layer",
                                     "all",   hidden + "{layer}", "--window-left",
                                     "3",     "--scale",          "0.3"};
  const Result two = run(all);
  INFO(two.err);
  CHECK(count_of(two.err, "--scale 0.3") <= 1);
  const Folder folder;
  folder.write(
      "two.json",
      R"({"layers": {"0": {"X": [[1], [2]], "W_q": [[1]], "loss": [1]}, "1": {"X": [[1], [2]], "W_q": [[2]], "loss": [2]}}, "num_heads": 1})");
  const Setting here{.folder = folder.path()};
  const Result result = run({"show", "two.json", "--layer", "all"}, here);
  CHECK(result.code == 0);
  CHECK(count_of(result.err, "there is no W_k") == 1);
  CHECK_THAT(result.err, Contains("warning: layers 0, 1: there is no W_k") &&
                             Contains("note: layers 0, 1: two.json: skipped, not a tensor of a "
                                      "layer: layers.{layer}.loss"));
  CHECK_THAT(run({"show", "two.json", "--layer", "1"}, here).err,
             Contains("warning: there is no W_k") && Contains("layers.1.loss"));
  refuses({"show", "two.json", "--layer", "all", "--strict"}, here,
          {"there is no W_k", "by --strict"});
  // A note alone is none.
  folder.write("one.json", R"({"X": [[1], [2]], "loss": [1], "num_heads": 1})");
  CHECK_THAT(run({"show", "one.json", "--strict"}, here).err, Contains("note: "));
  CHECK(run({"show", "one.json", "--strict"}, here).code == 0);
  CHECK(run({"show", "two.json", "--layer", "all", "--quiet"}, here).err == "");
}

TEST_CASE("told: --causal on saved maps says what it does") {
  const Folder folder;
  folder.write("maps.json", R"({"weights": [[[1, 0], [0.5, 0.5]]]})");
  const Setting here{.folder = folder.path()};
  for (const auto& [option, value] :
       {std::pair("--causal", ""), {"--window-left", "0"}, {"--window-right", "0"}}) {
    std::vector<std::string> words{"stats", "maps.json", option};
    if (*value != '\0') words.emplace_back(value);
    CHECK_THAT(run(words, here).err, Contains("note: " + std::string(option) +
                                              " changes no number: the computation starts at "
                                              "weights; measures, pictures and pages leave out"));
  }
  // It does: the first query has one key to see.
  CHECK_THAT(run({"explain", "maps.json", "--query", "0", "--head", "0", "--causal"}, here).out,
             Contains("1 key masked"));
  CHECK_THAT(run({"report", "maps.json", "--causal", "-o", "-"}, here).out,
             Contains("\"visible\":[0,1,0,2]"));
  CHECK_THAT(run({"report", "maps.json", "-o", "-"}, here).out, !Contains("\"visible\""));
  // A stage after the masks makes a mask idle, where its own −inf decide.
  folder.write("masked.json", R"({"masked": [[[1, "-Infinity"], [0.5, 0.5]]]})");
  CHECK_THAT(run({"show", "masked.json", "--causal"}, here).err,
             Contains("warning: --causal changes nothing"));
}

TEST_CASE("told: {layer} without its file, a stack of maps, a part of a fused weight") {
  const Folder folder;
  const Setting here{.folder = folder.path()};
  folder.write("w.json", R"({"W_q": [[1]], "num_heads": 1})");
  refuses({"show", "w.json", "X=h{layer}.npy"}, here,
          {"X=h{layer}.npy", "there is no h0.npy", "--layer N"});
  refuses({"show", "w.json", "X=h{layer}.npy", "--layer", "all"}, here, {"there is no h0.npy"});
  refuses({"show", "w.json", "X=w.json:l.{layer}", "--layer", "all"}, here, {"no tensor 'l.0'"});

  folder.write("maps.json", R"({"weights": [[[[1]]], [[[1]]], [[[1]]]]})");
  CHECK_THAT(run({"show", "maps.json"}, here).err,
             Contains("if the first axis of weights (3, 1, 1, 1) is the layer, write "
                      "weights=maps.json:weights@LHTS"));
  refuses({"show", "maps.json", "--layer", "2"}, here, {"weights=maps.json:weights@LHTS"});
  refuses({"show", "weights=maps.json", "--layer", "all"}, here, {"weights=FILE@LHTS"});
  CHECK(run({"show", "weights=maps.json@LHTS", "--layer", "2"}, here).code == 0);

  folder.write(
      "fused.json",
      R"({"X": [[1, 2, 3]], "W_qkv": [[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6]], "num_heads": 1})");
  refuses(
      {"show", "fused.json"}, here,
      {"fused.json: W_qkv, its columns of q, is (2, 2): 2 rows, but fused.json: X has 3 columns"});
}

TEST_CASE("told: where X is missing, what could be it") {
  refuses(
      {"show", induction, "--layer", "1", "data/induction/hidden.npz"}, {},
      {"X, (T, 64), is the input", "X=data/induction/hidden.npz:layers.1 (33, 64) could be it"});
  refuses({"explain", induction, "--layer", "0", "data/induction/hidden.npz", "--query", "1"}, {},
          {"X=data/induction/hidden.npz:layers.0 (33, 64) could be it"});
  refuses({"show", induction, "--layer", "0", "-s", "weights"}, {},
          {"X, (T, 64), is the input: give X=FILE:TENSOR"});
  const Folder folder;
  folder.write(
      "w.json",
      R"({"W_q": [[1, 2], [3, 4]], "num_heads": 1, "embedded": [[1, 2]], "other": [[1, 2, 3]]})");
  refuses({"map", "w.json"}, {.folder = folder.path()}, {"X=w.json:embedded (1, 2) could be it"});
}

TEST_CASE("told: labels of each batch item, and one text's labels for all of them") {
  const Folder folder;
  const Setting here{.folder = folder.path()};
  const std::string start = R"({"X": [[[1], [2]], [[3], [4]]], "num_heads": 1, "tokens": )";
  folder.write("items.json", start + R"([["the", "cat"], ["a", "dog"]]})");
  const Result items = run({"show", "items.json", "-s", "weights"}, here);
  CHECK(items.err == "");
  CHECK_THAT(items.out, Contains("'the'") && Contains("'dog'"));
  CHECK(items.out.find("'dog'") > items.out.find("batch 1"));
  CHECK_THAT(run({"show", "items.json", "-s", "weights", "-f", "csv"}, here).out,
             Contains("1,0,1,1,") && Contains(",dog,dog\n") && Contains(",the,cat\n"));
  CHECK_THAT(run({"explain", "items.json", "--batch", "1", "--query", "0"}, here).out,
             Contains("'a'") && !Contains("'the'"));
  CHECK_THAT(run({"map", "items.json", "--batch", "1"}, here).out,
             Contains("dog") && !Contains("cat"));
  // Shorter items are filled up; more labels than tokens, or other numbers of items, are errors.
  folder.write("short.json", start + R"([["the", "cat"], ["a"]]})");
  CHECK(run({"show", "short.json"}, here).code == 0);
  folder.write("long.json", start + R"([["the", "cat"], ["a", "b", "c"]]})");
  refuses({"show", "long.json"}, here, {"3 labels of batch item 1", "2 queries"});
  folder.write("three.json", start + R"([["the"], ["a"], ["b"]]})");
  refuses({"show", "three.json"}, here, {"3 lists of labels", "2 batch items"});
  // Numbers of tokens, one row an item; a list from elsewhere.
  folder.write("ids.json", start + R"([[5, 6], [7, 8]]})");
  CHECK_THAT(run({"show", "ids.json", "-s", "weights"}, here).out, Contains("'8'"));
  folder.write("tokens.json", R"([["x", "y"], ["z", "w"]])");
  CHECK_THAT(run({"show", "items.json", "--tokens", "tokens.json", "-s", "weights"}, here).out,
             Contains("'w'"));

  folder.write("one.json", start + R"(["the", "cat"]})");
  CHECK_THAT(
      run({"show", "one.json"}, here).err,
      Contains("warning: one.json: tokens: the labels of one text are used for all 2 batch items"));
}
