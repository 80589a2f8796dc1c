// What a beginner's first files are: no number of heads, no query, numbers that are none.

#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>

using namespace mha::test;
using Catch::Contains;
using nlohmann::json;

namespace {

const std::string rows = "[[1,0,2,1],[0,1,1,0],[2,1,0,1]]",
                  square = "[[1,0,2,1],[0,1,1,0],[2,1,0,1],[1,1,1,0]]";

} // namespace

TEST_CASE("first files: queries, keys and values alone are one head, and a note says so") {
  Folder folder;
  const std::string path =
      folder.write("qkv.json", "{\"Q\": " + rows + ", \"K\": " + rows + ", \"V\": " + rows + "}");
  for (const char* command : {"show", "stats", "map", "explain"}) {
    const Result result = run({command, path});
    INFO(command << ": " << result.err);
    CHECK(result.code == 0);
    CHECK_THAT(result.err, Contains("taken as one head") && Contains("--num-heads"));
    CHECK(run({command, path, "--strict"}).code == 0); // no number is in doubt
  }
  const json one = json::parse(run({"show", path, "-s", "weights", "-f", "json"}).out),
             said = json::parse(
                 run({"show", path, "-s", "weights", "-f", "json", "--num-heads", "1"}).out);
  CHECK(one == said);
  CHECK(run({"show", path, "--num-heads", "2"}).code == 0);
}

TEST_CASE("first files: a lone map, or q, k and v without an axis of heads, is one head") {
  Folder folder;
  const std::string map = folder.write("map.json", R"({"weights": [[1, 0], [0.25, 0.75]]})"),
                    lone = folder.write("weights.json", "[[1, 0], [0.25, 0.75]]"),
                    qkv = folder.write("qkv.json", "{\"q\": " + rows + ", \"k\": " + rows +
                                                       ", \"v\": " + rows + "}"),
                    packed = folder.write("packed.json", "{\"Q\": " + rows + ", \"K\": " + rows +
                                                             ", \"V\": " + rows + "}");
  for (const std::string& path : {map, lone, qkv})
    for (const char* command : {"show", "stats", "map", "explain"}) {
      const Result result = run({command, path});
      INFO(command << ": " << result.err);
      CHECK(result.code == 0);
      CHECK_THAT(result.err, Contains("taken as one head"));
    }
  CHECK(run({"show", map, "-s", "weights", "-f", "csv"}).out ==
        run({"show", lone, "-s", "weights", "-f", "csv"}).out);
  CHECK(run({"show", qkv, "-s", "output", "-f", "csv"}).out ==
        run({"show", packed, "-s", "output", "-f", "csv"}).out);
  // What states that there are more heads, or is no number, stays an error.
  CHECK_THAT(run({"show", map, "--num-heads", "2"}).err, Contains("expected (B,) H, T, S"));
  const std::string vector =
      folder.write("vector.json", "{\"Q\": [1, 0], \"K\": " + rows + ", \"V\": " + rows + "}");
  CHECK_THAT(run({"show", vector}).err,
             Contains("Q is (2,): expected (B,) T, H·d_k; a single row of numbers is [[…]]"));
  for (const char* name : {"weights", "X"}) {
    const std::string empty = folder.write("empty.json", fmt::format("{{\"{}\": []}}", name));
    CHECK_THAT(run({"show", empty}).err, Contains("is an empty list: numbers expected"));
  }
}

TEST_CASE("first files: with weights the error shows what to type") {
  Folder folder;
  const std::string path =
      folder.write("layer.json", "{\"X\": " + rows + ", \"W_q\": " + square +
                                     ", \"W_k\": " + square + ", \"W_v\": " + square + "}");
  for (const char* command : {"show", "stats", "map", "explain", "report"}) {
    const Result result = run({command, path, "-o", folder.path("out")});
    INFO(result.err);
    CHECK(result.code == 2);
    CHECK(one_line(result.err));
  }
  const Result result = run({"show", path});
  CHECK_THAT(
      result.err,
      Contains("--num-heads 1 for a single head, or 2, 4: what 4 columns of W_q split into"));
  for (const char* heads : {"1", "2", "4"})
    CHECK(run({"show", path, "--num-heads", heads}).code == 0);
}

TEST_CASE("first files: explain takes the last query, and says so") {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"explain", "data/quickstart.json"},
        {"explain", "data/bard-gpt2", "--text", "To be", "--layer", "0,1"},
        {"explain", "data/bard-gpt2", "--text", "To be, or not", "--text", "O", "--layer", "0",
         "--batch", "1"}}) {
    const Result result = run(words);
    INFO(result.err);
    CHECK(result.code == 0);
    const bool one = words.back() == "1" && words.size() > 7;
    if (!one) CHECK_THAT(result.err, Contains("the last of") && Contains("--query"));
    std::vector<std::string> said = words;
    said.insert(said.end(), {"--query", one                                  ? "0"
                                        : words[1] == "data/quickstart.json" ? "2"
                                                                             : "1"});
    const Result chosen = run(said);
    CHECK(chosen.out == result.out);
    CHECK(chosen.err.find("the last of") == std::string::npos);
  }
}

TEST_CASE(
    "first files: NaN or infinity in X is told by every command, and an error with --strict") {
  Folder folder;
  for (const auto& [number, word] : {std::pair("NaN", "NaN"), {"Infinity", "infinite"}}) {
    const std::string path = folder.write(
        "nan.json", std::string(R"({"num_heads": 1, "X": [[1,0],[0,)") + number + R"(],[1,1]]})");
    for (const std::vector<std::string>& words : {std::vector<std::string>{"show", path},
                                                  {"show", path, "-s", "q"},
                                                  {"stats", path},
                                                  {"map", path},
                                                  {"explain", path, "--query", "0"},
                                                  {"report", path, "-o", folder.path("p.html")},
                                                  {"dump", path, "-o", folder.path("d.npz")}}) {
      const Result told = run(words);
      INFO(words[0] << ": " << told.err);
      CHECK(told.code == 0);
      CHECK_THAT(told.err,
                 Contains(std::string("X has 1 ") + word + " of 6 numbers, the first at [1, 1]"));
      std::vector<std::string> strict = words;
      strict.emplace_back("--strict");
      const Result refused = run(strict);
      CHECK(refused.code == 2);
      CHECK(refused.out.empty());
      CHECK_THAT(refused.err, Contains("(an error by --strict)"));
    }
  }
  const std::string weight =
      folder.write("w.json", R"({"num_heads": 1, "X": [[1,0],[0,1]], "W_o": [[1,0],[0,NaN]]})");
  CHECK_THAT(run({"show", weight}).err,
             Contains("W_o has 1 NaN of 4 numbers, the first at [1, 1]"));
  CHECK(run({"show", weight, "--strict"}).code == 2);
}

TEST_CASE("first files: explain gives each row its own decimals") {
  Folder folder;
  const std::string path = folder.write(
      "far.json",
      R"({"num_heads": 1, "X": [[1.732, 0.5]], "W_q": [[1,0],[0,1]], "W_v": [[36200, 0],[0, 36200]]})");
  const Result result = run({"explain", path, "--head", "0"});
  INFO(result.out << result.err);
  CHECK_THAT(result.out, Contains("1.732  0.500"));
  CHECK_THAT(result.out, Contains("62698"));
}

TEST_CASE("first files: show gives columns of another size their own decimals") {
  Folder folder;
  const auto shown = [&](const std::string& X) {
    const std::string path =
        folder.write("x.json", R"({"num_heads": 1, "W_q": [[1,0],[0,1]], "X": )" + X + "}");
    return run({"show", path, "-s", "x", "-q"}).out;
  };
  // Beside the largest number a column would be no number at all, or one with an idle exponent.
  CHECK_THAT(shown("[[36200, 0.0123], [-3, 0.5]]"), Contains("36200.0   0.0123"));
  CHECK_THAT(shown("[[1e8, 0.5], [2e7, 3]]"), Contains("1.000e+08      0.500"));
  // What is next to nothing stays so, and numbers of one size have one format.
  CHECK_THAT(shown("[[36200, 1e-17], [-3, 0]]"), Contains("36200.0      0.0"));
  CHECK_THAT(shown("[[1.5, 0.0123], [2, 0.002]]"), Contains("1.500  0.012"));
}

TEST_CASE("first files: an input alone is told what is missing") {
  Folder folder;
  const auto told = [&](const std::string& text) {
    const std::string path = folder.write("x.json", text);
    for (const char* command : {"show", "explain", "map", "stats"}) {
      const Result result = run({command, path});
      INFO(command << result.err);
      CHECK(result.code == 2);
      CHECK_THAT(result.err, Contains("there is an input, but nothing that makes queries, keys and "
                                      "values: add W_q, W_k, W_v and W_o") &&
                                 Contains("--num-heads 1"));
    }
  };
  told(R"({"X": [[1, 0], [0, 1]]})");
  told(R"({"X": [[1, 0], [0, 1]], "mask": [[0, 0], [0, 0]], "causal": true})");
  told(R"({"X_kv": [[1, 0], [0, 1]]})");
  const std::string weights =
      folder.write("w.json", R"({"X": [[1, 0], [0, 1]], "W_q": [[1, 0], [0, 1]]})");
  CHECK_THAT(run({"show", weights}).err, Contains("the number of heads is not known"));
  CHECK(run({"show", folder.write("x.json", R"({"X": [[1, 0]]})"), "--num-heads", "1"}).code == 0);
}

TEST_CASE("first files: short texts have no sink, however many they are") {
  const Folder folder;
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += "my love\n";
  const std::string path = folder.write("lines", lines);
  std::string maps; // of equal weights: half of the second row's is on key 0
  for (int i = 0; i < 40; ++i) maps += std::string(i ? "," : "") + "[[[1, 0], [0.5, 0.5]]]";
  const std::string even = folder.write("even.json", "{\"weights\": [" + maps + "]}");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"map", "data/bard-llama", "--text", "To be, my", "--layer", "all"},
        {"map", "data/bard-llama", "--text-file", path, "--each-line", "--layer", "1", "--batch",
         ":"},
        {"map", even, "--batch", ":", "--causal"},
        {"stats", even, "--causal"}}) {
    const Result result = run(words);
    INFO(words[0] << result.err);
    CHECK(result.code == 0);
    CHECK_THAT(result.err, !Contains("sink"));
  }
}

TEST_CASE("first files: a key that has most of the weight is told, and can be left out") {
  Folder folder;
  std::string map;
  for (int t = 0; t < 24; ++t) {
    map += t ? ",[" : "[";
    for (int j = 0; j < 24; ++j) map += (j ? "," : "") + std::string(j == 0 ? "0.77" : "0.01");
    map += "]";
  }
  const std::string path = folder.write("map.json", "{\"weights\": [[" + map + "]]}");
  const Result told = run({"map", path});
  CHECK_THAT(told.err, Contains("key 0 has 77 % of the weight (a sink); --without-sink"));
  for (const char* command : {"stats", "report"}) {
    std::vector<std::string> line{command, path};
    if (line[0] == "report") line.insert(line.end(), {"-o", folder.path("page.html")});
    CHECK_THAT(run(line).err, Contains("note: key 0 has 77 % of the weight (a sink); `map "));
    line.emplace_back("--quiet");
    CHECK(run(line).err.empty());
  }
  const Result rest = run({"map", path, "--without-sink"});
  INFO(rest.err);
  CHECK(rest.code == 0);
  CHECK(rest.err.find("sink") == std::string::npos);
  CHECK(rest.out == run({"map", path, "--key", "1:"}).out);
  CHECK_THAT(rest.out, Contains("0.01"));
  CHECK(run({"map", path, "--without-sink", "--key", "3"}).code == 2);
  CHECK(run({"map", path, "--strict"}).code == 0); // a note, no doubt
}

TEST_CASE("first files: a mistake in JSON is shown in its line, with a caret") {
  Folder folder;
  const std::string path = folder.write(
      "one.json", "{\"X\": [[1, 0], [0, 1]],\n\t\"tokens\": [\"ノ\", \"é\"], \"num_heads\": 1,}\n");
  const Result result = run({"show", path});
  CHECK(result.code == 2);
  CHECK(result.out.empty());
  CHECK(result.err == "mha-inspect: " + path +
                          ": line 2, column 38: a comma before the closing }: remove it\n"
                          "   \"tokens\": [\"ノ\", \"é\"], \"num_heads\": 1,}\n"
                          "                                        ^\n");
  for (const std::string text :
       {"{\"X\": [[1, \x1b[31m0]]}", "{'\x1b[31mX': 1}", "[1, 0] \xff\xfe"}) {
    const Result evil = run({"show", folder.write("evil.json", text)});
    INFO(evil.err);
    CHECK(evil.code == 2);
    CHECK(evil.err.find('\x1b') == std::string::npos);
    CHECK(evil.err.find('\xff') == std::string::npos);
    CHECK(std::count(evil.err.begin(), evil.err.end(), '\n') == 3);
  }
  // So is one in a config, and in a value that is right in itself.
  const std::string config = folder.write("config.json", "{\"num_attention_heads\": 2,\n \"a\" 3}");
  CHECK_THAT(run({"show", "data/quickstart.json", "--config", config}).err,
             Contains("line 2, column 6: ':' expected") && Contains("\n   \"a\" 3}\n       ^\n"));
  CHECK_THAT(run({"show", folder.write("rows.json", "{\"X\": [[1, 2],\n [3]]}")}).err,
             Contains("a list of 1, where the ones before have 2\n   [3]]}\n   ^\n"));
}

TEST_CASE("first files: -inf in a mask is what hides a key, in any spelling") {
  Folder folder;
  const auto weights = [&](const std::string& hidden) {
    const std::string path =
        folder.write("mask.json", "{\"num_heads\": 1, \"X\": [[1, 0], [2, 1]], "
                                  "\"mask\": [[0, " +
                                      hidden + "], [0, 0]]}");
    return run({"show", path, "-s", "weights", "-f", "csv"});
  };
  const std::string right = weights("-Infinity").out;
  CHECK_THAT(right, Contains("1"));
  for (const char* hidden : {"-inf", "\"-inf\"", "-INF", "\"-Inf\"", "\"-infinity\""}) {
    INFO(hidden);
    CHECK(weights(hidden).out == right);
  }
  CHECK(weights("-1").out != right);
  CHECK(weights("\"-informal\"").code == 2);
}

TEST_CASE("first files: what is asked for is written as the file's format has it") {
  Folder folder;
  const std::string text = "{\"X\": " + rows + ", \"W_q\": " + square + "}";
  const std::string error = run({"show", folder.write("layer.json", text)}).err;
  CHECK_THAT(
      error,
      Contains("--num-heads 1 for a single head, or 2, 4: what 4 columns of W_q split into; in "
               "the file: \"num_heads\": 1"));
  const std::string added = text.substr(0, text.size() - 1) + ", \"num_heads\": 1}";
  CHECK(run({"show", folder.write("added.json", added)}).code == 0);
  const Result other =
      shell("/usr/bin/python3 -c 'import numpy; numpy.savez(\"layer.npz\", X=numpy.ones((3, 4)), "
            "W_q=numpy.ones((4, 4)))' && \"$MHA\" show layer.npz",
            {.folder = folder.path()});
  CHECK_THAT(other.err, Contains("what 4 columns of W_q split into") && !Contains("in the file"));
}
