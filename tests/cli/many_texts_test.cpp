// Many texts: what stats and effects say of each, of all, and of those that activate a head.

#include "support/run.hpp"
#include "support/share.hpp"

#include <mha/render/text.hpp>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <map>
#include <sstream>

using namespace mha::test;
using Catch::Contains;
using Catch::StartsWith;
using nlohmann::json;

namespace {

const std::vector<std::string> lines{"O Romeo, Romeo! wherefore art thou Romeo?",
                                     "To be, or not to be", "my love, my love, my lord",
                                     "the king is dead, long live the king"};

struct TextFileOf {
  Folder folder;
  std::string file;
  explicit TextFileOf(const std::vector<std::string>& texts) {
    std::string all;
    for (const std::string& text : texts) all += text + "\n";
    file = folder.write("texts.txt", all);
  }
};

json of(std::vector<std::string> words, const std::string& command = "stats") {
  words.insert(words.begin(), {command, "data/bard-gpt2"});
  words.insert(words.end(), {"-f", "json"});
  const Result result = run(words);
  INFO(result.err);
  REQUIRE(result.code == 0);
  return json::parse(result.out);
}

/// Mean and standard deviation by their definitions.
std::pair<double, double> moments(const std::vector<double>& numbers) {
  double sum = 0, squares = 0;
  for (const double x : numbers) sum += x;
  const double mean = sum / static_cast<double>(numbers.size());
  for (const double x : numbers) squares += (x - mean) * (x - mean);
  return {mean, std::sqrt(squares / static_cast<double>(numbers.size() - 1))};
}

std::vector<std::string> operator+(std::vector<std::string> words,
                                   const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

} // namespace

TEST_CASE("stats --by text: each text as it is measured alone, in groups of any size") {
  // 420 texts of 8 to 14 tokens: two groups of at most 4096 with their padding.
  std::vector<std::string> many;
  for (int i = 0; i < 105; ++i) many.insert(many.end(), lines.begin(), lines.end());
  const TextFileOf texts(many);
  const std::vector<std::string> asked{"--layer", "1",          "--head",
                                       "0,3",     "--measures", "previous,entropy,result_share"};
  const json rows = of(
      asked + std::vector<std::string>{"--text-file", texts.file, "--each-line", "--by", "text"});
  REQUIRE(rows.size() == 2 * many.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const json alone = of(asked + std::vector<std::string>{"--text", lines[i]});
    for (std::size_t h = 0; h < 2; ++h)
      for (const std::size_t text : {i, many.size() - lines.size() + i}) {
        const json& row = rows[2 * text + h];
        CHECK(row["text"] == text);
        CHECK(row["head"] == alone[h]["head"]);
        for (const char* name : {"previous", "entropy", "result_share", "kind"})
          CHECK(row[name] == alone[h][name]);
      }
  }
}

TEST_CASE("stats --spread: mean and standard deviation over the texts") {
  const TextFileOf texts(lines);
  const std::vector<std::string> asked{"--text-file",
                                       texts.file,
                                       "--each-line",
                                       "--layer",
                                       "2-3",
                                       "--measures",
                                       "first,confidence,induction"};
  const json rows = of(asked + std::vector<std::string>{"--spread"}),
             each = of(asked + std::vector<std::string>{"--by", "text"});
  REQUIRE(rows.size() == 12);
  for (const json& row : rows)
    for (const std::string name : {"first", "confidence", "induction"}) {
      std::vector<double> numbers;
      for (const json& text : each)
        if (text["layer"] == row["layer"] && text["head"] == row["head"] && !text[name].is_null())
          numbers.push_back(text[name]);
      const auto [mean, deviation] = moments(numbers);
      CHECK(row["texts"] == 4);
      CHECK(row[name].get<double>() == Approx(mean).epsilon(1e-12));
      CHECK(row[name + "_sd"].get<double>() == Approx(deviation).epsilon(1e-9));
    }
  const Result table = run({"stats", "data/bard-gpt2", "--text-file", texts.file, "--each-line",
                            "--layer", "0", "--spread", "--measures", "previous"});
  CHECK_THAT(table.out,
             Contains("layer  head  kind") && Contains("texts  previous") && Contains("±"));
  CHECK(table.err.empty());
}

TEST_CASE("stats --by position and token: the queries as --query measures them") {
  const TextFileOf texts(lines);
  const std::vector<std::string> asked{
      "--layer", "2", "--head", "1", "--measures", "previous,self,result_norm,separator"};
  const std::vector<std::string> of_file{"--text-file", texts.file, "--each-line", "--spread"};
  // A query of a text by itself.
  struct Query {
    std::string token;
    json row;
  };
  std::map<std::size_t, std::vector<Query>> queries; // by position
  for (const std::string& line : lines) {
    const json tokens =
        json::parse(run({"tokens", "data/bard-gpt2", "--text", line, "-f", "json"}).out);
    const json& list = tokens["tokens"];
    for (std::size_t t = 0; t < list.size(); ++t)
      queries[t].push_back({list[t], of(asked + std::vector<std::string>{"--text", line, "--query",
                                                                         std::to_string(t)})[0]});
  }
  const auto check = [&](const json& row, const std::vector<json>& parts) {
    for (const std::string name : {"previous", "self", "result_norm", "separator"}) {
      std::vector<double> numbers;
      for (const json& part : parts)
        if (!part[name].is_null()) numbers.push_back(part[name]);
      INFO(row.dump() << " " << name);
      CHECK(row[name].is_null() == numbers.empty());
      if (numbers.empty()) continue;
      CHECK(row[name].get<double>() == Approx(moments(numbers).first).epsilon(1e-12));
      if (numbers.size() > 1)
        CHECK(row[name + "_sd"].get<double>() == Approx(moments(numbers).second).margin(1e-12));
    }
  };
  const json positions = of(asked + of_file + std::vector<std::string>{"--by", "position"});
  REQUIRE(positions.size() == queries.size());
  std::map<std::string, std::vector<json>> by_token;
  for (const json& row : positions) {
    std::vector<json> parts;
    for (const Query& query : queries.at(row["position"])) {
      parts.push_back(query.row);
      by_token[query.token].push_back(query.row);
    }
    CHECK(row["texts"] == parts.size());
    check(row, parts);
  }
  const json tokens = of(asked + of_file + std::vector<std::string>{"--by", "token"});
  REQUIRE(tokens.size() == by_token.size());
  for (const json& row : tokens) {
    const std::vector<json>& parts = by_token.at(row["token"]);
    CHECK(row["queries"] == parts.size());
    check(row, parts);
  }
  // Sorted, and the first ones.
  const json first =
      of(asked + of_file +
         std::vector<std::string>{"--by", "token", "--sort", "self:asc", "--top", "3"});
  REQUIRE(first.size() == 3);
  CHECK(first[0]["self"] <= first[1]["self"]);
  CHECK(first[1]["self"] <= first[2]["self"]);
}

TEST_CASE("stats --top-texts: where head_result is the longest") {
  const TextFileOf texts(lines);
  const std::vector<std::string> asked{"--text-file", texts.file, "--each-line", "--layer", "3",
                                       "--head",      "2"};
  struct Longest {
    double norm = 0;
    std::size_t text = 0, position = 0;
  };
  for (const std::size_t first : {0U, 1U}) {
    std::vector<Longest> wanted;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const json shown = json::parse(run({"show", "data/bard-gpt2", "--text", lines[i], "--layer",
                                          "3", "--head", "2", "-s", "head_result", "-f", "json"})
                                         .out)["head_result"]["data"];
      Longest longest;
      for (std::size_t t = first; t < shown.size(); ++t) {
        double squares = 0;
        for (const double x : shown[t]) squares += x * x;
        if (std::sqrt(squares) > longest.norm) longest = {std::sqrt(squares), i, t};
      }
      wanted.push_back(longest);
    }
    std::ranges::sort(wanted, std::greater<>(), &Longest::norm);
    const json rows = of(
        asked + std::vector<std::string>{"--top-texts", "3", "--query", fmt::format("{}:", first)});
    REQUIRE(rows.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(rows[i]["norm"].get<double>() == Approx(wanted[i].norm).epsilon(1e-6));
      CHECK(rows[i]["text"] == wanted[i].text);
      CHECK(rows[i]["position"] == wanted[i].position);
      const std::string around = rows[i]["before"].get<std::string>() +
                                 rows[i]["token"].get<std::string>() +
                                 rows[i]["after"].get<std::string>();
      CHECK(lines[wanted[i].text].find(around) != std::string::npos);
    }
  }
}

TEST_CASE(
    "effects --spread: over the lines of a file, some at a time, with the bits of all at once") {
  std::vector<std::string> many;
  for (int i = 0; i < 14; ++i) many.insert(many.end(), lines.begin(), lines.end());
  const TextFileOf texts(many); // more than 512 tokens with their padding
  const std::vector<std::string> of_file{"--text-file", texts.file, "--each-line"};
  const json each = of(of_file + std::vector<std::string>{"--per-position"}, "effects"),
             spread = of(of_file + std::vector<std::string>{"--spread"}, "effects"),
             means = of(of_file, "effects");
  std::vector<std::string> at_once;
  for (const std::string& text : many) at_once.insert(at_once.end(), {"--text", text});
  const json once = of(at_once + std::vector<std::string>{"--per-position"}, "effects");
  REQUIRE(each.size() == once.size());
  std::map<std::string, json> by_place;
  const auto place = [](const json& one) {
    return fmt::format("{} {} {} {}", one["part"].dump(), one["layer"].dump(), one["head"].dump(),
                       one["batch"].dump());
  };
  for (const json& one : once) by_place[place(one)] = one;
  std::size_t different = 0;
  for (const json& one : each) different += by_place.at(place(one)) == one ? 0 : 1;
  CHECK(different == 0);
  REQUIRE(spread.size() == means.size());
  for (std::size_t i = 0; i < spread.size(); i += 7)
    for (const std::string name : {"kl", "logit_change", "direct"}) {
      std::vector<double> numbers;
      for (const json& one : each)
        if (one["part"] == means[i]["part"] && one["layer"] == means[i]["layer"] &&
            one["head"] == means[i]["head"] && !one[name].is_null())
          numbers.push_back(one[name]);
      CHECK(spread[i][name] == means[i][name]);
      CHECK(means[i][name].is_null() == numbers.empty());
      if (numbers.empty()) continue;
      CHECK(means[i][name].get<double>() == Approx(moments(numbers).first).margin(1e-12));
      CHECK(spread[i][name + "_sd"].get<double>() == Approx(moments(numbers).second).margin(1e-12));
    }
}

TEST_CASE("many texts: one line says what is wrong") {
  const std::string text = "--text 'my lord' ";
  for (const auto& [line, message] : std::vector<std::pair<std::string, std::string>>{
           {"stats data/quickstart.json --spread", "--by, --spread and --top-texts need texts"},
           {"stats data/bard-gpt2 --layer 0 " + text + "--top-texts 2",
            "--top-texts needs one head"},
           {"stats data/bard-gpt2 --layer 0 --head 0,1 " + text + "--top-texts 2",
            "--head 0,1 selects 2"},
           {"stats data/bard-gpt2 --layer 0 " + text + "--top-texts 0", "--top-texts is 0"},
           {"stats data/bard-gpt2 --layer 0 " + text + "--by token --top-texts 1 --head 0",
            "--by and --spread have no effect"},
           {"stats data/bard-gpt2 --layer 0 " + text + "--spread --measures max_key",
            "has no mean"},
           {"stats data/bard-gpt2 --layer 0 " + text + "--by token --sort max --measures self",
            "rows have no such column"},
           {"stats data/bard-gpt2 --layer 0 " + text + "--by token --grid self",
            "--grid and --kind apply to heads"},
           {"stats data/bard-gpt2 --layer 0 " + text + "--by token --measures all",
            "--measures all applies to a table of heads"},
           {"stats data/bard-gpt2 --layer 0 " + text + "--by token -o '{head}.csv'",
            "leave out {head}"},
           {"stats data/bard-gpt2 --layer 0 " + text +
                "--spread --patch 'layers.0.head_out = mean'",
            "this value needs all of them"},
           {"effects data/bard-gpt2 " + text + "--spread --top 3",
            "--spread applies to a table with the means"},
       }) {
    const Result result = shell("\"$MHA\" " + line);
    INFO(line << "\n" << result.err);
    CHECK(result.code == 2);
    CHECK(result.out.empty());
    CHECK(one_line(result.err));
    CHECK_THAT(result.err, Contains(message));
  }
}

namespace {

/// A state with a byte changed, left out or added anywhere is damaged, and reported; what is kept
/// stays as it is.
void refuse_damaged(const Folder& folder, const std::string& command) {
  const std::string kept = folder.read("t.csv.resume");
  const std::size_t behind = kept.find(' ', kept.find("mha-inspect-resume-")) + 1;
  REQUIRE(kept.size() > behind + 40);
  const std::size_t first = kept.find_first_of("0123456789", behind), last = kept.size() - 2,
                    middle = (behind + kept.size()) / 2;
  for (const auto& [at, how] :
       {std::pair(first, 0), {middle, 0}, {last, 0}, {middle, 1}, {middle, 2}}) {
    std::string damaged = kept;
    if (how == 0)
      damaged[at] = static_cast<char>(damaged[at] ^ 1);
    else if (how == 1)
      damaged.erase(at, 1);
    else
      damaged.insert(at, "#");
    folder.write("t.csv.resume", damaged);
    const Result result = shell(command);
    INFO(at << " " << how << " " << result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains("t.csv.resume: damaged") &&
                               Contains("remove the file to start from the beginning"));
    CHECK(folder.read("t.csv.resume") == damaged);
  }
  folder.write("t.csv.resume", kept.substr(0, kept.size() / 2)); // as a full disk leaves it
  CHECK_THAT(shell(command).err, Contains("damaged"));
  folder.write("t.csv.resume", kept);
}

} // namespace

TEST_CASE("--resume: a run that was killed goes on, to the same bytes") {
  Share share(3);
  for (const std::string& asked :
       {std::string("effects"), std::string("effects --per-position -f json"),
        std::string("effects --ablate mean --spread"), std::string("stats --layer all --by token"),
        std::string("stats --layer all --by text"),
        std::string("stats --layer 1 --head 2 --top-texts 3")}) {
    if (!share.takes()) continue;
    INFO(asked);
    const Folder folder;
    const std::string out = folder.path("t.csv"), kept = out + ".resume", texts = folder.path("t"),
                      command = "$MHA " + asked +
                                " data/bard-gpt2 --quiet --each-line --text-file " + texts;
    // A run that ended before it was killed is repeated with more texts.
    for (std::size_t times = sanitized ? 30 : 120; !folder.has("t.csv.resume"); times *= 4) {
      REQUIRE(times < 40000);
      std::string many;
      for (std::size_t i = 0; i < times; ++i)
        for (const std::string& line : lines) many += line + "\n";
      folder.write("t", many);
      std::filesystem::remove(out);
      REQUIRE(shell(command + " -o " + out +
                    " --resume & p=$!; while kill -0 $p 2> /dev/null && [ ! -e " + kept +
                    " ]; do sleep 0.005; done; kill -9 $p; wait $p; true")
                  .code == 0);
    }
    CHECK(!folder.has("t.csv"));
    REQUIRE(shell(command + " -o " + folder.path("whole.csv")).code == 0);
    const Result other = shell(command + " -o " + out + " --resume --query 1");
    CHECK(other.code == 2);
    CHECK_THAT(other.err, Contains("another text, model, patch or setting"));
    if (asked == "effects") refuse_damaged(folder, command + " -o " + out + " --resume");
    const Result again = shell(command + " -o " + out + " --resume");
    INFO(again.err);
    CHECK(again.code == 0);
    CHECK(folder.read("t.csv") == folder.read("whole.csv"));
    CHECK(!folder.has("t.csv.resume"));
  }
}

TEST_CASE("--resume: what it cannot go on from is said") {
  const TextFileOf texts(lines);
  const Folder folder;
  const std::string out = folder.path("t.csv");
  const std::vector<std::string> asked{"effects",  "data/bard-gpt2", "--text-file",
                                       texts.file, "--each-line",    "--resume"};
  const auto refused = [&](const std::vector<std::string>& more) {
    const Result result = run(asked + more);
    CHECK(result.code == 2);
    CHECK(one_line(result.err));
    return result.err;
  };
  folder.write("t.csv.resume", "no state at all");
  CHECK_THAT(refused({"-o", out}),
             Contains("not written by --resume, which would save its state there"));
  CHECK(folder.read("t.csv.resume") == "no state at all");
  folder.write("t.csv.resume", "14 mha-inspect-resume-1 12 f-");
  CHECK_THAT(refused({"-o", out}), Contains("another version of mha-inspect (1, this is ") &&
                                       Contains("remove the file to start from the beginning"));
  CHECK_THAT(refused({}), Contains("give --output FILE"));
  CHECK_THAT(refused({"-o", "-"}), Contains("give --output FILE"));
  CHECK_THAT(refused({"-o", out, "--per-position", "--top", "2"}), Contains("without --top"));
  CHECK_THAT(run({"effects", "data/bard-gpt2", "--text", "my lord", "--resume", "-o", out}).err,
             Contains("--each-line"));
  CHECK_THAT(run({"stats", "data/bard-gpt2", "--text", "my lord", "--resume", "-o", out}).err,
             Contains("--each-line"));
}

TEST_CASE("effects: a line at a time as all at once, whatever replaces a part") {
  const TextFileOf texts({"my love, my love, my lord", "To be, or not to be"});
  for (const std::vector<std::string>& asked :
       {std::vector<std::string>{"--ablate", "mean"},
        {"--ablate", "resample", "--align", "end", "--together", "layers.-1.mlp_out"}}) {
    const json lines_of =
        of(asked + std::vector<std::string>{"--text-file", texts.file, "--each-line"}, "effects");
    const json at_once = of(asked + std::vector<std::string>{"--text", "my love, my love, my lord",
                                                             "--text", "To be, or not to be"},
                            "effects");
    CHECK(lines_of == at_once);
  }
  const Result unequal = run({"effects", "data/bard-gpt2", "--text-file", texts.file, "--each-line",
                              "--ablate", "resample"});
  CHECK(unequal.code == 2);
  CHECK_THAT(unequal.err, Contains("--align end"));
  CHECK_THAT(run({"effects", "data/bard-gpt2", "--text", "a", "--align", "end"}).err,
             Contains("--align chooses the positions in the next text"));
}

TEST_CASE("many texts: one that has none of the chosen tokens is passed over") {
  const TextFileOf texts({"O", "O Romeo"});
  const std::vector<std::string> asked{"stats",       "data/bard-gpt2", "--text-file", texts.file,
                                       "--each-line", "--top-texts",    "2",           "--layer",
                                       "0",           "--head",         "1",           "-f",
                                       "json",        "--query"};
  const Result some = run(asked + std::vector<std::string>{"1:"});
  INFO(some.err);
  REQUIRE(some.code == 0);
  const json rows = json::parse(some.out);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0]["text"] == 1);
  CHECK_THAT(run(asked + std::vector<std::string>{"7"}).err, Contains("no text has such a token"));
}

TEST_CASE("stats --by: a table fits the window, chosen measures and CSV are whole") {
  const std::string line = "COLUMNS=60 \"$MHA\" stats data/bard-gpt2 --text 'my love, my lord' "
                           "--layer 0 --layer 1 --by token ";
  const Result narrow = shell(line);
  REQUIRE(narrow.code == 0);
  CHECK_THAT(narrow.out, Contains("more measures: --measures names them"));
  std::istringstream lines(narrow.out);
  for (std::string one; std::getline(lines, one);) CHECK(mha::render::display_width(one) <= 60);
  // A layer given again goes on, as a head does.
  CHECK_THAT(narrow.out, Contains("\n0 ") && Contains("\n1 "));
  const Result csv = shell(line + "-f csv");
  CHECK_THAT(csv.out, StartsWith("layer,head,token,queries,previous,first,self,induction,"
                                 "entropy_share,confidence,result_norm\n"));
}
