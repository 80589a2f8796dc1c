#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <map>
#include <sstream>

using namespace mha::test;
using Catch::Contains;
using nlohmann::json;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

struct Layer {
  Folder folder;
  std::string path = folder.write("layer.json", small_layer_json());

  Result show(std::vector<std::string> options) const {
    options.insert(options.begin(), {"show", path});
    return run(options);
  }
  json shown(std::vector<std::string> options) const {
    options.insert(options.end(), {"-f", "json"});
    const Result result = show(options);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return json::parse(result.out);
  }
};

} // namespace

TEST_CASE_METHOD(Layer, "show: one line per stage, in the order of the computation") {
  const Result result = show({});
  CHECK(result.code == 0);
  CHECK_THAT(result.out, Contains("2 heads × 2 · T 3") && Contains("causal"));
  std::size_t at = 0;
  for (const char* stage :
       {"\nx ", "\nq ", "\nk ", "\nv ", "\nscores ", "\nmasked ", "\nrow_max ", "\nweights ",
        "\nhead_out ", "\nhead_result ", "\nconcat ", "\noutput "}) {
    const std::size_t next = result.out.find(stage, at);
    INFO(stage);
    REQUIRE(next != std::string::npos);
    at = next;
  }
  CHECK(result.out.find("\nq_rope") == std::string::npos);
  CHECK_THAT(result.out, Contains("±inf")); // masked has some
}

TEST_CASE_METHOD(Layer, "show: the overview as csv and json") {
  const std::vector<std::string> csv = lines_of(show({"-f", "csv"}).out);
  CHECK(csv.at(0) == "layer,stage,shape,dtype,min,max,mean,nan,infinite");
  CHECK(csv.at(1).substr(0, 15) == ",x,3x4,float64,");
  const json overview = shown({});
  CHECK(overview["weights"]["shape"] == json({2, 3, 3}));
  CHECK(overview["weights"]["max"] == 1.0);
  CHECK(overview["masked"]["infinite"] == 6);
  CHECK(overview["x"]["mean"].get<double>() == Approx(0.5));
  CHECK(lines_of(show({"-f", "ndjson"}).out).size() == overview.size());
}

TEST_CASE_METHOD(Layer, "show: csv has one number a line, with labels where there are tokens") {
  const std::vector<std::string> lines = lines_of(show({"-s", "weights", "-f", "csv"}).out);
  REQUIRE(lines.size() == 1 + 2 * 3 * 3);
  CHECK(lines[0] == "layer,stage,batch,head,row,col,value,row_token,col_token");
  CHECK(lines[1] == ",weights,,0,0,0,1,the,the");
  CHECK(lines[2] == ",weights,,0,0,1,0,the,cat");
  CHECK_THAT(lines[4], Catch::StartsWith(",weights,,0,1,0,0."));
}

TEST_CASE_METHOD(Layer, "show: fields of axes that a stage does not have stay empty") {
  CHECK(lines_of(show({"-s", "row_max", "-f", "csv"}).out).at(1).substr(0, 15) ==
        ",row_max,,0,0,,");
  CHECK(lines_of(show({"-s", "output", "-f", "csv"}).out).at(2).substr(0, 15) == ",output,,,0,1,-");
}

TEST_CASE_METHOD(Layer, "show: labels are quoted in csv and escaped in tsv") {
  const std::string tokens =
      folder.write("tokens.json", R"(["a,b", "say \"hi\"", "line\nbreak\ttab"])");
  const std::string csv =
      show({"-s", "row_sum", "--head", "0", "--tokens", tokens, "-f", "csv"}).out;
  CHECK_THAT(csv, Contains(R"(,"a,b",)") && Contains(R"(,"say ""hi""",)") &&
                      Contains(",\"line\nbreak\ttab\","));
  const std::string tsv =
      show({"-s", "row_sum", "--head", "0", "--tokens", tokens, "-f", "tsv"}).out;
  CHECK_THAT(tsv, Contains("\ta,b\t") && Contains("\tline\\nbreak\\ttab\t"));
  CHECK(lines_of(tsv).size() == 4);
}

TEST_CASE_METHOD(Layer, "show: bare rows of numbers with --matrix") {
  const std::vector<std::string> lines =
      lines_of(show({"-s", "weights", "-f", "csv", "--matrix"}).out);
  REQUIRE(lines.size() == 7);
  CHECK(lines[0] == "1,0,0");
  CHECK(lines[3].empty());
  CHECK(lines_of(show({"-s", "weights", "--head", "1", "-f", "tsv", "--matrix"}).out).at(0) ==
        "1\t0\t0");
  CHECK(show({"-s", "weights", "--matrix"}).code == 2);
  CHECK_THAT(show({"-f", "csv", "--matrix"}).err, Contains("--matrix needs --stage"));
}

TEST_CASE_METHOD(Layer,
                 "show: json is one object keyed by stage, nested, and survives every reader") {
  const json shown_stages = shown({"-s", "weights,masked,output"});
  CHECK(shown_stages.size() == 3);
  CHECK(shown_stages["weights"]["shape"] == json({2, 3, 3}));
  CHECK(shown_stages["weights"]["dtype"] == "float64");
  CHECK(shown_stages["weights"]["data"][1][0] == json({1, 0, 0}));
  CHECK(shown_stages["masked"]["data"][0][0][1] == "-Infinity");
  CHECK(shown_stages["output"]["data"].size() == 3);
}

TEST_CASE_METHOD(Layer, "show: ndjson is one object a row") {
  const std::vector<std::string> lines =
      lines_of(show({"-s", "weights,row_max", "-f", "ndjson"}).out);
  REQUIRE(lines.size() == 2 * 3 + 2);
  const json row = json::parse(lines[5]);
  CHECK(row["stage"] == "weights");
  CHECK(row["head"] == 1);
  CHECK(row["row"] == 2);
  CHECK(row["row_token"] == "sat");
  CHECK(row["values"].size() == 3);
  CHECK(json::parse(lines[7])["values"].size() == 3);
}

TEST_CASE_METHOD(Layer, "show: numbers read back to the same value") {
  const json exact = shown({"-s", "q,weights"});
  const std::vector<std::string> csv = lines_of(show({"-s", "weights", "-f", "csv"}).out);
  const auto value =
      [](std::string line) { // layer,stage,batch,head,row,col,value,row_token,col_token
        for (int i = 0; i < 6; ++i) line.erase(0, line.find(',') + 1);
        return line.substr(0, line.find(','));
      };
  CHECK(std::stod(value(csv.at(1 + 2 * 9 - 1))) == exact["weights"]["data"][1][2][2].get<double>());
  const std::string rounded =
      value(lines_of(show({"-s", "weights", "-f", "csv", "--precision", "2"}).out).at(18));
  CHECK(rounded.size() <= 5);
}

TEST_CASE_METHOD(Layer, "show: one bare index drops its axis, lists and ranges keep it") {
  const json all = shown({"-s", "weights"})["weights"]["data"];
  const auto part = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"-s", "weights"});
    return shown(options)["weights"];
  };
  CHECK(part({"--head", "1"})["shape"] == json({3, 3}));
  CHECK(part({"--head", "1"})["data"] == all[1]);
  CHECK(part({"--head", "1:2"})["shape"] == json({1, 3, 3}));
  CHECK(part({"--head", "0", "--query", "-1"})["data"] == all[0][2]);
  CHECK(part({"--head", "0", "--query", "2", "--key", "1"})["shape"] == json::array());
  CHECK(part({"--head", "0", "--query", "2", "--key", "1"})["data"] == all[0][2][1]);
  CHECK(part({"--key", "2,0"})["data"][1][2] == json({all[1][2][2], all[1][2][0]}));
  // A dropped axis is still named in csv.
  CHECK_THAT(show({"-s", "weights", "--head", "1", "--query", "2", "-f", "csv"}).out,
             Contains(",weights,,1,2,0,0.") && Contains(",sat,the\n"));
}

TEST_CASE_METHOD(Layer, "show: refuses a selection that no stage has, or that is out of range") {
  CHECK_THAT(show({"-s", "output", "--head", "0"}).err,
             Contains("--head 0: output has no head axis"));
  CHECK_THAT(show({"-s", "weights", "--head", "2"}).err, Contains("there are 2 heads (0 to 1)"));
  CHECK_THAT(show({"-s", "weights", "--batch", "0"}).err, Contains("not batched"));
}

TEST_CASE_METHOD(Layer, "show: a stage that the layer does not have lists the ones it has") {
  const Result result = show({"-s", "q_rope"});
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Contains("no q_rope") && Contains("scores, scaled, masked"));
  CHECK_THAT(show({"-s", "wieghts"}).err, Contains("did you mean 'weights'?"));
}

TEST_CASE_METHOD(Layer, "show: other tools' names of stages are understood, never printed") {
  CHECK(show({"-s", "alpha"}).out == show({"-s", "weights"}).out);
  CHECK(show({"-s", "blocks.0.attn.hook_pattern"}).out == show({"-s", "weights"}).out);
  CHECK_THAT(show({"-s", "attn_weights"}).err, Contains("scaled or weights"));
  CHECK(show({"-s", "query_states", "-f", "csv"}).out ==
        show({"-s", "q", "-f", "csv"}).out); // no rope: one reading
}

TEST_CASE_METHOD(Layer, "show: tables print every number, in groups of columns that fit") {
  const Result narrow =
      run({"show", path, "-s", "weights", "--head", "1"}, {{}, {{"COLUMNS", "32"}}, {}});
  const std::vector<std::string> lines = lines_of(narrow.out);
  REQUIRE(lines.size() > 6);
  for (std::size_t i = 1; i < lines.size(); ++i) CHECK(lines[i].size() <= 32);
  CHECK_THAT(narrow.out, Contains("'sat'") && Contains("weights · head 1"));
  CHECK_THAT(show({"-s", "masked"}).out,
             Contains("head 0\n") && Contains("head 1\n") && Contains("-inf"));
  CHECK_THAT(show({"-s", "row_max"}).out, Contains("row_max"));
}

TEST_CASE_METHOD(Layer, "show: labels cannot drive the terminal") {
  const std::string tokens = folder.write("tokens.json", "[\"\\u001b[31mred\", \"b\", \"c\"]");
  const Result result = show({"-s", "weights", "--tokens", tokens});
  CHECK(result.code == 0);
  CHECK(result.out.find('\x1b') == std::string::npos);
  CHECK_THAT(result.out, Contains("\\u001b[31mred"));
}

TEST_CASE_METHOD(Layer, "show: the extension of --output decides the format") {
  CHECK(show({"-s", "weights", "-o", folder.path("w.json")}).code == 0);
  CHECK(json::parse(folder.read("w.json"))["weights"]["shape"] == json({2, 3, 3}));
  CHECK(show({"-s", "weights", "-o", folder.path("w.csv")}).code == 0);
  CHECK_THAT(folder.read("w.csv"), Catch::StartsWith("layer,stage"));
  CHECK_THAT(show({"-s", "weights", "-o", folder.path("w.xyz")}).err,
             Contains("unknown extension") && Contains("--format"));
  CHECK_THAT(show({"-s", "weights", "-o", folder.path("w.npz")}).err, Contains("mha-inspect dump"));
}

TEST_CASE_METHOD(Layer, "show: {head} in a path writes one file each, without that axis") {
  CHECK(show({"-s", "weights", "-o", folder.path("w{head}.json")}).code == 0);
  const json all = shown({"-s", "weights"})["weights"]["data"];
  CHECK(json::parse(folder.read("w0.json"))["weights"]["data"] == all[0]);
  CHECK(json::parse(folder.read("w1.json"))["weights"]["data"] == all[1]);
  CHECK_THAT(show({"-s", "output", "-o", folder.path("o{head}.json")}).err,
             Contains("output has no head axis"));
}

TEST_CASE("show: several layers are named layers.N.STAGE") {
  const Result result =
      run({"show", "data/induction", "--layer", "all", "X=data/induction/hidden.npz:layers.{layer}",
           "-s", "weights", "--head", "0", "-f", "json"});
  INFO(result.err);
  REQUIRE(result.code == 0);
  const json shown = json::parse(result.out);
  CHECK(shown.contains("layers.0.weights"));
  CHECK(shown.contains("layers.1.weights"));
}

TEST_CASE("show: agrees with what another implementation computed") {
  const Result mine =
      run({"show", "data/induction", "--layer", "1", "X=data/induction/hidden.npz:layers.1", "-s",
           "weights,output", "-f", "json"});
  const Result theirs = run({"show", "weights=data/induction/expected/layer1.npz:weights", "-s",
                             "weights", "-f", "json"});
  REQUIRE(mine.code == 0);
  INFO(theirs.err);
  REQUIRE(theirs.code == 0);
  const json a = json::parse(mine.out)["weights"]["data"],
             b = json::parse(theirs.out)["weights"]["data"];
  double worst = 0;
  for (std::size_t h = 0; h < a.size(); ++h)
    for (std::size_t t = 0; t < a[h].size(); ++t)
      for (std::size_t s = 0; s < a[h][t].size(); ++s)
        worst = std::max(worst, std::abs(a[h][t][s].get<double>() - b[h][t][s].get<double>()));
  CHECK(worst < 1e-5);
}

TEST_CASE("refuses a W_q that does not split into the heads") {
  const Result result = run({"show", "-", "--num-heads", "3"}, {small_layer_json(), {}, {}});
  CHECK(result.code == 2);
  CHECK(one_line(result.err));
  CHECK_THAT(result.err, Contains("W_q") && Contains("3 heads"));
}

TEST_CASE("show: a checkpoint without an input says what is missing") {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"show", "data/induction", "--layer", "1"},
        {"show", "data/induction", "--layer", "1", "-s", "weights"},
        {"dump", "data/induction", "--layer", "1", "-o", "nowhere.npz"}}) {
    const Result result = run(arguments);
    CHECK(result.code == 2);
    CHECK(result.out.empty());
    CHECK_THAT(result.err, Contains("X=FILE"));
  }
}

TEST_CASE("a missing file is one line that names it") {
  const Result result = run({"show", "nowhere/layer.npz"});
  CHECK(result.code == 2);
  CHECK(one_line(result.err));
  CHECK_THAT(result.err, Contains("nowhere/layer.npz"));
}

namespace {

const std::string columns = "data/columns.json";

/// The rows of `stages`, by their names.
std::map<std::string, json> stages_of(const std::string& path) {
  std::map<std::string, json> rows;
  for (const json& row : json::parse(run({"stages", path, "-f", "json"}).out))
    rows[row["name"]] = row;
  return rows;
}

} // namespace

TEST_CASE("columns: show writes each product from the side on which it is computed") {
  const std::string text = run({"show", columns}).out;
  for (const char* formula : {"W_q x", "W_k x", "W_v x", "kᵀ q", "v weights", "W_o[h] head_out",
                              "heads below each other", "W_o concat"})
    CHECK_THAT(text, Contains(formula));
  for (const char* of_rows : {"x W_q", "q kᵀ", "weights v", "side by side", "concat W_o"})
    CHECK_THAT(text, !Contains(of_rows));
  // The same layer with tokens as rows keeps the formulas of rows.
  const std::string rows = run({"show", "data/quickstart.json"}).out;
  for (const char* formula : {"x W_q", "q kᵀ", "weights v", "heads side by side", "concat W_o"})
    CHECK_THAT(rows, Contains(formula));
  CHECK_THAT(run({"show", columns, "-s", "q"}).out, Contains("W_q x"));
}

TEST_CASE("columns: stages exchanges the letters of the shapes that it shows beside them") {
  std::map<std::string, json> turned = stages_of(columns),
                              plain = stages_of("data/quickstart.json");
  const std::map<std::string, std::size_t> sizes{
      {"T", 3},       {"S", 3},   {"S'", 3},  {"H", 2},     {"H_kv", 2},
      {"d_model", 4}, {"d_k", 2}, {"d_v", 2}, {"H·d_v", 4}, {"d_out", 4}};
  std::size_t compared = 0;
  for (const auto& [name, row] : turned) {
    if (row["shape"].is_null() || row["part"] == "by name") continue; // made of whole stages
    REQUIRE(row["letters"].size() == row["shape"].size());
    for (std::size_t i = 0; i < row["letters"].size(); ++i)
      if (const auto size = sizes.find(row["letters"][i]); size != sizes.end()) {
        CHECK(row["shape"][i] == size->second);
        ++compared;
      }
  }
  CHECK(compared > 30);
  CHECK(turned["q"]["letters"] == json({"H", "d_k", "T"}));
  CHECK(plain["q"]["letters"] == json({"H", "T", "d_k"}));
  CHECK(turned["row_max"]["letters"] == json({"H", "T"}));
  CHECK(turned["output"]["value"] == "W_o concat + b_o");
  CHECK(plain["output"]["value"] == "concat W_o + b_o");
  CHECK_THAT(run({"stages", columns}).out, Contains("H × d_k × T") && Contains("d_model × T"));
  CHECK_THAT(run({"stages", columns, "-f", "markdown"}).out, Contains("| d_model, T |"));
}

TEST_CASE("columns: explain and the page write what show writes") {
  CHECK_THAT(run({"explain", columns, "--head", "1"}).out,
             Contains("q = W_q x") && Contains("k·q of key") && Contains("head_out = Σ v α"));
  Folder folder;
  for (const auto& [source, is_turned] :
       {std::pair(columns, true), {"data/quickstart.json", false}}) {
    const std::string path = folder.path("page.html");
    REQUIRE(run({"report", source, "-o", path}).code == 0);
    const std::string page = folder.read("page.html");
    const std::string start = "id=\"data\">";
    const std::size_t at = page.find(start) + start.size();
    const json data = json::parse(page.substr(at, page.find("</script>", at) - at));
    CHECK(data["layers"][0]["columns"] == is_turned);
  }
}
