// A batch of texts of several lengths: what is after the end of the shorter ones is zeros in
// dumps, has no labels, and counts in no measure.

#include "support/files.hpp"
#include "support/run.hpp"

#include <mha/naming/stage_names.hpp>

#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <sstream>

using namespace mha;
using namespace mha::test;
using nlohmann::json;

namespace {

const std::string long_text = "To be, or not to be", short_text = "O Romeo";

std::vector<std::string> both(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--text", long_text, "--text", short_text, "-q"});
  return arguments;
}

std::string out_of(const std::vector<std::string>& arguments) {
  const Result result = run(arguments);
  INFO(result.err);
  REQUIRE(result.code == 0);
  return result.out;
}

/// The fields of the first row of a CSV, by their names.
std::map<std::string, std::string> first_row(const std::string& csv) {
  std::map<std::string, std::string> fields;
  const std::size_t end = csv.find('\n');
  std::string names = csv.substr(0, end) + ",", row = csv.substr(end + 1);
  row = row.substr(0, row.find('\n')) + ",";
  while (!names.empty()) {
    const std::size_t name = names.find(','), value = row.find(',');
    fields[names.substr(0, name)] = row.substr(0, value);
    names.erase(0, name + 1), row.erase(0, value + 1);
  }
  return fields;
}

} // namespace

TEST_CASE(
    "padding: a dump says the lengths, holds zeros behind them, and a lone text's bits before") {
  const Folder folder;
  for (const std::string name : {"bard-llama", "bard-bert", "bard-gpt2"}) {
    const std::string model = "data/" + name, all = folder.path("all.npz"),
                      alone = folder.path("alone.npz");
    out_of(both({"dump", model, "-o", all}));
    out_of({"dump", model, "--text", short_text, "-q", "-o", alone});
    const io::Contents batch = io::open(all), one = io::open(alone);
    const Tensor lengths = tensor_in(batch, "lengths");
    REQUIRE(lengths.shape() == Shape{2});
    const auto length = static_cast<std::size_t>(value_at(lengths, 1));
    const std::size_t T = tensor_in(batch, "embed").shape()[1];
    CHECK(value_at(lengths, 0) == static_cast<double>(T));
    REQUIRE(length < T);
    for (const io::Entry& entry : one.tensors) {
      if (entry.name == "ids") continue; // no stage
      INFO(name << " " << entry.name);
      const Tensor mine = tensor_in(batch, entry.name).at(1), want = entry.read();
      const std::size_t at = entry.name.rfind('.');
      const StageInfo& info =
          info_of(*find_stage(at == std::string::npos ? entry.name : entry.name.substr(at + 1)));
      const std::size_t rank = mine.rank(),
                        axis = info.letters.size() == 3 || info.kind == Kind::row;
      const bool map = info.kind == Kind::map;
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < mine.count(); ++i) {
        std::vector<std::size_t> place(rank);
        for (std::size_t a = rank, rest = i; a-- > 0; rest /= mine.shape()[a])
          place[a] = rest % mine.shape()[a];
        const double value = value_at(mine, i);
        if (place[axis] >= length) {
          wrong += value != 0;
        } else if (map && place[2] >= length) {
          const bool masked = info.stage == Stage::masked || info.stage == Stage::shifted;
          wrong += masked ? !(std::isinf(value) && value < 0) : value != 0;
        } else {
          std::size_t j = 0;
          for (std::size_t a = 0; a < rank; ++a) j = j * want.shape()[a] + place[a];
          wrong += value != value_at(want, j);
        }
      }
      CHECK(wrong == 0);
    }
    CHECK(one.tensors.size() > 50);
    CHECK_FALSE(one.find("lengths"));
  }
}

TEST_CASE("padding: every way of writing has the lengths, and files of them are read again") {
  const Folder folder;
  const std::string model = "data/bard-gpt2";
  for (const char* name : {"a.safetensors", "a.json", "a"}) {
    out_of(both({"dump", model, "-s", "weights", "--layer", "1", "-o", folder.path(name)}));
    const io::Contents file = io::open(folder.path(name));
    CHECK(file.find("lengths"));
    // `lengths` of a dump is no misspelt tensor.
    CHECK(run({"stats", folder.path(name)}).code == 0);
  }
  for (const char* part : {"1/2", "2/2"})
    out_of(both({"dump", model, "-s", "weights", "--layer", "1", "--part", part, "-o",
                 folder.path(std::string("p") + part[0] + ".npz")}));
  out_of(
      {"convert", folder.path("p1.npz"), folder.path("p2.npz"), "-o", folder.path("joined.npz")});
  const Tensor lengths = tensor_in(io::open(folder.path("joined.npz")), "lengths");
  CHECK(value_at(lengths, 0) > value_at(lengths, 1));
  CHECK(value_at(lengths, 1) > 0);
  // One stage as .npy has no room for it.
  out_of(both({"dump", model, "-s", "weights", "-o", folder.path("w.npy")}));
  CHECK(io::open(folder.path("w.npy")).tensors.size() == 1);
}

TEST_CASE("padding: measures of a text in a batch are those of the text alone") {
  for (const char* model : {"data/bard-gpt2", "data/bard-bert"}) {
    const std::vector<std::string> options{"--layer", "1", "--head", "2", "-f", "csv"};
    const auto with = [&](std::vector<std::string> arguments) {
      arguments.insert(arguments.end(), options.begin(), options.end());
      return first_row(out_of(arguments));
    };
    std::map<std::string, std::string> alone = with({"stats", model, "--text", short_text, "-q"}),
                                       batch = with(both({"stats", model, "--batch", "1"}));
    for (const char* name :
         {"kind", "entropy", "first", "self", "previous", "distance", "induction", "one_key_rows",
          "result_norm", "masked_rows", "largest_logit"}) {
      INFO(model << " " << name);
      if (alone[name].empty() || std::string(name) == "kind")
        CHECK(batch[name] == alone[name]);
      else
        CHECK(std::stod(batch[name]) == Approx(std::stod(alone[name])).epsilon(1e-6));
    }
  }
}

TEST_CASE("padding: minimum, maximum and mean leave it out") {
  const auto row = [](const std::string& out, const std::string& stage) {
    const std::size_t at = out.find("\n" + stage + " ");
    REQUIRE(at != std::string::npos);
    std::string line = out.substr(at + 1, out.find('\n', at + 1) - at - 1);
    // What follows the formula: min, max, mean, and the masked keys.
    return line.substr(std::min(line.size(), std::size_t{45}));
  };
  const std::string alone =
                        out_of({"show", "data/bard-gpt2", "--text", short_text, "--layer", "1"}),
                    batch =
                        out_of(both({"show", "data/bard-gpt2", "--layer", "1", "--batch", "1"}));
  for (const char* stage : {"q", "scores", "weights", "mlp_act", "resid_post"})
    CHECK(row(batch, stage) == row(alone, stage));
}

TEST_CASE("padding: each text has its own labels, and none behind its end") {
  const std::string out =
      out_of(both({"show", "data/bard-llama", "--layer", "0", "-s", "row_sum", "--head", "0"}));
  CHECK(out.find("␣Rome") != std::string::npos);
  const json object =
      json::parse(out_of(both({"explain", "data/bard-llama", "--layer", "0", "--batch", "1",
                               "--head", "0", "--query", "1", "-f", "json"})));
  CHECK(object.dump().find("Rome") != std::string::npos);
  CHECK(object.dump().find(" not") == std::string::npos);
  const Result beyond = run(both({"explain", "data/bard-llama", "--layer", "0", "--batch", "1",
                                  "--head", "0", "--query", "7"}));
  CHECK(beyond.code == 2);
  CHECK(beyond.err.find("--query 7: there are ") != std::string::npos);
}

TEST_CASE("padding: a page shows one text, as long as it is") {
  const auto page = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--layer", "0", "--head", "0", "-o", "-"});
    return out_of(arguments);
  };
  const std::string one = page(both({"report", "data/bard-llama", "--batch", "1"}));
  CHECK(one.find("\"T\":") != std::string::npos);
  CHECK(one.find("Rome") != std::string::npos);
  CHECK(one.find("␣not") == std::string::npos);
}

TEST_CASE("padding: the numbers of a text in a batch are printed as those of the text alone") {
  const auto lines_of = [](const std::string& out, const std::string& batch) {
    std::vector<std::string> lines; // without what states which batch item they are of
    std::istringstream text(out);
    for (std::string line; std::getline(text, line);) {
      const std::size_t at = batch.empty() ? 0 : line.find(batch);
      if (at != std::string::npos) lines.push_back(line.erase(at, batch.size()));
    }
    return lines;
  };
  for (const char* stage : {"weights", "row_sum", "q", "k", "resid_post"}) {
    const auto shown = [&](const std::string& form, bool batch) {
      std::vector<std::string> words{"show", "data/bard-gpt2", "--layer", "1", "-s", stage, "-f",
                                     form};
      if (batch) return out_of(both(words));
      words.insert(words.end(), {"--text", short_text, "-q"});
      return out_of(words);
    };
    INFO(stage);
    CHECK(lines_of(shown("ndjson", true), "\"batch\": 1, ") ==
          lines_of(shown("ndjson", false), ""));
    const std::string alone = shown("csv", false), stage_name = std::string(stage);
    std::size_t of_item = 0;
    std::istringstream all(shown("csv", true));
    for (std::string line; std::getline(all, line);)
      of_item += line.starts_with("1," + stage_name + ",1,");
    CHECK(of_item + 1 == static_cast<std::size_t>(std::ranges::count(alone, '\n')));
    CHECK(shown("table", true).find("''") == std::string::npos);
  }
}
