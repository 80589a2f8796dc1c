// Many texts are computed some at a time: to the bytes of all at once, in bounded memory, with
// everything that is to be known of each.

#include "support/run.hpp"
#include "support/sanitizers.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

using namespace mha::test;
using Catch::Contains;

namespace {

/// A file of `count` lines of some of these words each, of different lengths.
std::string lines_of(const Folder& folder, const std::string& name, std::size_t count,
                     const std::vector<std::string>& words) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t n = 0; n < 4 + i * 7 % 9; ++n)
      all += (n == 0 ? "" : " ") + words[(i * 5 + n * n) % words.size()];
    all += '\n';
  }
  return folder.write(name, all);
}

const std::vector<std::string> words{"t3",  "t9",  "t12", "t1",  "t40", "t7",
                                     "t22", "t31", "t5",  "t18", "t60", "t2"};

/// What a run leaves: standard output, and its files.
struct Left {
  std::string out;
  std::map<std::string, std::string> files;
  bool operator==(const Left&) const = default;
};

Left left_of(std::vector<std::string> line, const std::string& output) {
  const Folder folder;
  if (!output.empty()) line.insert(line.end(), {"-o", folder.path(output)});
  const Result result = run(line);
  INFO(fmt::format("{}\n{}", fmt::join(line, " "), result.err));
  REQUIRE(result.code == 0);
  Left left{result.out, {}};
  for (const std::string& name : folder.names()) left.files[name] = folder.read(name);
  return left;
}

} // namespace

TEST_CASE("predict: texts computed some at a time have the bytes of all at once") {
  const Folder folder;
  // More than twice the tokens of a group.
  const std::string many = lines_of(folder, "many.txt", sanitized ? 500 : 900, words),
                    few = lines_of(folder, "few.txt", 40, words);
  struct Case {
    std::vector<std::string> options;
    std::string output = {};
    bool few = false;
  };
  for (const Case& one : {Case{{"-f", "csv", "--top", "2"}},
                          {{"--top", "2"}},
                          {{"-f", "tsv", "--query", "all"}},
                          {{"--query", "all"}},
                          {{"-f", "json", "--query", "all"}},
                          {{"-f", "json", "--query", "-2", "--top", "1"}},
                          {{"-f", "csv", "--each-layer", "--top", "1"}},
                          {{"--top", "1"}, "p.json"},
                          {{"--query", "all", "--each-layer"}, "p.csv"},
                          {{"--each-layer"}, "p{layer}.json"},
                          {{}, "p{batch}.csv", true},
                          {{"--each-layer", "--query", "all"}, "p{layer}-{batch}.json", true}}) {
    std::vector<std::string> line{"predict",     "data/induction-model",
                                  "--text-file", one.few ? few : many,
                                  "--each-line", "--quiet"};
    line.insert(line.end(), one.options.begin(), one.options.end());
    const Left some = left_of(line, one.output);
    // A patch that changes nothing: with patches, all texts are computed at once.
    line.insert(line.end(), {"--patch", "layers.0.head_out *= 1"});
    INFO(fmt::format("{} {}", fmt::join(one.options, " "), one.output));
    CHECK((some == left_of(line, one.output)));
    CHECK((one.output.empty() ? !some.out.empty() : !some.files.empty()));
  }
}

TEST_CASE("predict: of texts of a masked model those that hide a token alone") {
  const Folder folder;
  std::string all;
  for (int i = 0; i < 900; ++i) all += "to be , or not to be\n";
  folder.write("plain.txt", all);
  folder.write("last.txt", all + "to be , or [MASK] to be\n");
  const auto predict = [&](const std::string& file) {
    return run({"predict", "data/bard-bert", "--text-file", folder.path(file), "--each-line", "-f",
                "csv", "--top", "1"});
  };
  const Result last = predict("last.txt"), plain = predict("plain.txt");
  CHECK(last.code == 0);
  CHECK_THAT(last.out, Contains("\n900,5,"));
  CHECK(std::count(last.out.begin(), last.out.end(), '\n') == 2);
  CHECK(plain.code == 2);
  CHECK(plain.out.empty());
  CHECK_THAT(plain.err, Contains("the text hides none"));
}

TEST_CASE("predict: a text too long for the model is named before any is computed") {
  const Folder folder;
  std::string all;
  for (int i = 0; i < 600; ++i) all += "t1 t2 t3\n";
  for (int i = 0; i < 100; ++i) all += "t4 ";
  const std::string file = folder.write("texts.txt", all + "\n");
  const Result result =
      run({"predict", "data/induction-model", "--text-file", file, "--each-line", "-f", "csv"});
  CHECK(result.code == 2);
  CHECK(result.out.empty());
  CHECK_THAT(result.err, Contains("text 600 has ") && Contains("the model has positions for 64"));
}

TEST_CASE("predict: memory does not grow with the number of texts") {
  if (sanitized) return;
  const Folder folder;
  const auto peak = [&](std::size_t count) {
    const std::string file = lines_of(folder, "texts.txt", count, words);
    const Result result =
        shell("/usr/bin/python3 -c 'import resource, subprocess, sys; subprocess.check_call("
              "sys.argv[1:]); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)' "
              "\"$MHA\" predict data/induction-model --top 1 -f csv -o '" +
              folder.path("p.csv") + "' --each-line --text-file '" + file + "'");
    INFO(result.err);
    REQUIRE(result.code == 0);
    return std::stod(result.out);
  };
  // Of each text its token numbers are kept, no vector of a token (64 float32 in every layer).
  CHECK(peak(12000) < peak(1000) + 11000 * 0.6);
}

TEST_CASE("many texts: more of them than their streams would fit into memory") {
  // 8,001 texts, padded to the longest: 8,001 × 60 vectors of 64 float32, four times, are 470 MiB.
  if (sanitized) return;
  const Folder folder;
  std::string all;
  for (int i = 0; i < 59; ++i) all += "t1 ";
  all += '\n';
  for (int i = 0; i < 8000; ++i) all += "t2\n";
  const std::string file = folder.write("texts.txt", all);
  for (const std::string command :
       {"predict data/induction-model --top 1 -f csv",
        "stats data/induction-model --layer 0 --measures first --by text -f csv"}) {
    const Result result = shell("ulimit -v 450000; \"$MHA\" " + command +
                                " --each-line --text-file '" + file + "' | tail -1");
    INFO(result.err);
    CHECK(result.code == 0);
    CHECK_THAT(result.out, Contains("8000"));
  }
}

TEST_CASE("many texts: of vectors in the place of tokens, the vectors count") {
  const Folder folder;
  const auto vectors = [](std::size_t text) {
    std::string rows;
    for (int t = 0; t < 5; ++t) {
      rows += t == 0 ? "[" : ", [";
      for (int n = 0; n < 64; ++n)
        rows += fmt::format("{}{:.6f}", n == 0 ? "" : ", ",
                            std::sin(static_cast<double>(text * 31 + static_cast<std::size_t>(n)) *
                                     (0.3 + 0.17 * t)));
      rows += "]";
    }
    return "[" + rows + "]";
  };
  std::string all;
  for (std::size_t text = 0; text < 3; ++text) all += (text == 0 ? "" : ", ") + vectors(text);
  folder.write("all.json", "{\"inputs_embeds\": [" + all + "]}");
  const auto lines = [&](const std::string& file, const std::string& words) {
    const Result result = shell("\"$MHA\" " + words + " data/induction-model --inputs-embeds '" +
                                folder.path(file) + "' -f csv | tail -n +2");
    INFO(result.err);
    REQUIRE(result.code == 0);
    return result.out;
  };
  const std::string stats = "stats --layer 1 --measures first,entropy --by text",
                    predict = "predict --top 3";
  std::string stats_alone, predict_alone;
  for (std::size_t text = 0; text < 3; ++text) {
    folder.write("one.json", "{\"inputs_embeds\": " + vectors(text) + "}");
    // The number of the text is the fourth column of stats, the first of predict.
    std::string rows = lines("one.json", stats);
    for (std::size_t at = 0; (at = rows.find(",0,", at)) != std::string::npos; ++at)
      if (std::isalpha(static_cast<unsigned char>(rows[at - 1])) != 0) // after the head's kind
        rows[at + 1] = static_cast<char>('0' + text);
    stats_alone += rows;
    rows = lines("one.json", predict);
    rows[0] = static_cast<char>('0' + text);
    for (std::size_t at = 0; (at = rows.find("\n0,", at)) != std::string::npos; ++at)
      rows[at + 1] = static_cast<char>('0' + text);
    predict_alone += rows;
  }
  CHECK(lines("all.json", stats) == stats_alone);
  CHECK(lines("all.json", predict) == predict_alone);
}

TEST_CASE("many texts: what is to be known of one of them is told by every command") {
  const Folder folder;
  const std::string file = folder.write("texts.txt", "to be\nto be €\n");
  for (const std::string command :
       {"stats --by text --measures first", "stats --spread --layer 0 --measures first",
        "stats --layer 0 --head 1 --top-texts 2", "effects --query 1", "predict --query 1",
        "show -s weights --layer 0"}) {
    const std::string line =
        "\"$MHA\" " + command + " data/bard-bert --each-line --text-file '" + file + "'";
    const Result result = shell(line);
    INFO(command << "\n" << result.err);
    CHECK(result.code == 0);
    const std::string told = "warning: text 1: the vocabulary has no pieces for '€': read as [UNK]";
    CHECK_THAT(result.err, Contains(told));
    CHECK(result.err.find(told) == result.err.rfind(told));
    CHECK(shell(line + " --strict").code == 2);
    CHECK(shell(line + " --quiet").err.empty());
  }
}

TEST_CASE("many texts: chosen queries are those of each text by itself") {
  const Folder folder;
  const std::vector<std::string> texts{"To be, or not to be that is", "my love", "O Romeo Romeo",
                                       "to thee"};
  std::string all;
  for (const std::string& text : texts) all += text + "\n";
  const std::string file = folder.write("texts.txt", all);
  const auto rows = [](std::vector<std::string> line) {
    line.insert(line.begin(), {"stats", "data/bard-gpt2", "--layer", "1", "--head", "0,4",
                               "--measures", "entropy,first", "-f", "csv"});
    const Result result = run(line);
    return result.code == 0 ? result.out.substr(result.out.find('\n') + 1) : std::string();
  };
  for (const std::string query : {"-1", "-2", "-2:", "3", "1:", " to", "0,-1"}) {
    std::string alone;
    for (std::size_t text = 0; text < texts.size(); ++text) {
      std::string own = rows({"--text", texts[text], "--by", "text", "--query", query});
      for (std::size_t at = 0; (at = own.find(",0,", at)) != std::string::npos; ++at)
        if (std::isalpha(static_cast<unsigned char>(own[at - 1])) != 0) // after the head's kind
          own[at + 1] = static_cast<char>('0' + text);
      alone += own;
    }
    INFO(query);
    CHECK_FALSE(alone.empty());
    CHECK(rows({"--text-file", file, "--each-line", "--by", "text", "--query", query}) == alone);
  }
  const Result none = run({"stats", "data/bard-gpt2", "--text-file", file, "--each-line",
                           "--measures", "first", "--spread", "--query", "40"});
  CHECK(none.code == 2);
  CHECK_THAT(none.err, Contains("--query 40: no text has such a token"));
}

TEST_CASE("a position counted from the end is one of each text, or has to be chosen") {
  const std::vector<std::string> texts{"--text", "To be, or not to be", "--text", "my love"};
  const auto shown = [&](std::vector<std::string> line) {
    line.insert(line.begin() + 1, "data/bard-gpt2");
    line.insert(line.end(), texts.begin(), texts.end());
    return run(line);
  };
  for (const std::vector<std::string>& line :
       {std::vector<std::string>{"show", "-s", "weights", "--layer", "1", "--query", "-1"},
        {"show", "-s", "q", "--layer", "1", "--query", "-2:"},
        {"stats", "--layer", "1", "--measures", "first", "--query", "-1"},
        {"dump", "-s", "weights", "--layer", "1", "--key", "-1", "-o", "/dev/null", "-f", "npy"}}) {
    const Result result = shown(line);
    INFO(line[0] << "\n" << result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains("counted from the end") && Contains("choose one with --batch"));
  }
  const Result own =
      shown({"explain", "--layer", "1", "--head", "0", "--query", "-1", "--batch", "1"});
  INFO(own.err);
  CHECK(own.code == 0);
  CHECK_THAT(own.out, Contains("query 2 '␣love'"));
  // Of texts that are equally long it is one position.
  CHECK(run({"show", "data/bard-gpt2", "-s", "weights", "--layer", "1", "--query", "-1", "--ids",
             "5,7,9", "--ids", "8,3,2"})
            .code == 0);
}
