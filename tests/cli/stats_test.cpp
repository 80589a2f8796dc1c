#include "support/places.hpp"
#include "support/run.hpp"
#include <mha/heads/measures.hpp>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <fstream>
#include <sstream>

using namespace mha::test;
using Catch::Contains;
using nlohmann::json;

namespace {

const std::vector<std::string> induction{"stats",
                                         "data/induction",
                                         "--layer",
                                         "all",
                                         "X=data/induction/hidden.npz:layers.{layer}",
                                         "--causal",
                                         "--tokens",
                                         "data/induction/tokens.json"};

Result stats_of_induction(const std::vector<std::string>& options) {
  std::vector<std::string> arguments = induction;
  arguments.insert(arguments.end(), options.begin(), options.end());
  return run(arguments);
}

std::string clean(const Result& result) {
  INFO(result.err);
  REQUIRE(result.code == 0);
  CHECK(result.err.empty());
  return result.out;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// The columns that programs rely on, and what comes after them.
std::string all_columns(std::string_view between) {
  std::string list = fmt::format("layer{0}head{0}kind", between);
  for (const mha::Measure& measure : mha::measures())
    list += fmt::format("{}{}", between, measure.name);
  return list;
}

/// (layers, batch, heads, queries, keys): the maps that a model's output_attentions are saved as.
/// Head 0 of layer 0 looks back by one, head 1 at key 0; layer 1 here and there.
std::string five_axes() {
  return R"({"weights": [[[[[1,0,0],[1,0,0],[0,1,0]], [[0.6,0.2,0.2],[0.6,0.2,0.2],[0.4,0.3,0.3]]]],
                         [[[[0.25,0.5,0.25],[0.25,0.25,0.5],[0.35,0.4,0.25]],
                           [[0.25,0.25,0.5],[0.25,0.25,0.5],[0.25,0.5,0.25]]]]]})";
}

} // namespace

TEST_CASE("stats: calls the heads of data/induction what they were trained to be") {
  const json rows = json::parse(clean(stats_of_induction({"-f", "json"})));
  REQUIRE(rows.size() == 8);
  for (const json& row : rows) {
    const int layer = row["layer"], head = row["head"];
    if (layer == 0 && head == 0) {
      CHECK(row["kind"] == "previous-token");
      CHECK(row["previous"].get<double>() == Approx(0.99).margin(0.005));
    }
    if (layer == 1) {
      CHECK(row["kind"] == "induction");
      CHECK(row["induction"].get<double>() >= 0.90);
    }
  }
}

TEST_CASE("stats: a table of the measures that tell the most, as wide as there is room") {
  const std::string wide = clean(stats_of_induction({}));
  CHECK_THAT(wide, Contains("layer  head  kind") && Contains("previous-token") &&
                       Contains("more measures: --measures all shows them"));
  Setting narrow;
  narrow.env["COLUMNS"] = "60";
  const Result result = run(induction, narrow);
  for (const std::string& line : lines_of(result.out)) CHECK(line.size() <= 60);
  CHECK(lines_of(result.out).size() == lines_of(wide).size());
}

TEST_CASE("stats: --measures all is every measure, a line each") {
  const std::string all = clean(run({"stats", "data/quickstart.json", "--measures", "all"}));
  for (const mha::Measure& measure : mha::measures())
    CHECK_THAT(all, Contains(fmt::format("\n{} ", measure.name)));
  CHECK_THAT(all,
             Contains("overflow_f32                 no              no") && Contains("induction"));
}

TEST_CASE("stats: csv and tsv have every column, empty where there is nothing") {
  const std::vector<std::string> csv =
      lines_of(clean(run({"stats", "data/quickstart.json", "-f", "csv"})));
  REQUIRE(csv.size() == 3);
  CHECK(csv[0] == all_columns(","));
  CHECK_THAT(csv[0],
             Catch::StartsWith(
                 "layer,head,kind,entropy,entropy_share,effective_keys,first,self,previous,"
                 "distance,window,diagonal,induction,duplicate,max,max_query,max_key,one_key_rows,"
                 "uniformity,result_norm,result_share,nearest_head,similarity,masked_rows,"
                 "row_sum_error,rank_q,cond_q,stiefel_q,rank_k,cond_k,stiefel_k,rank_v,cond_v,"
                 "stiefel_v,rank_o,cond_o,stiefel_o"));
  const auto fields = [](const std::string& line, char between) {
    return std::count(line.begin(), line.end(), between);
  };
  for (const std::string& line : csv) CHECK(fields(line, ',') == fields(csv[0], ','));
  CHECK_THAT(csv[1], Catch::StartsWith(",0,too short,") && Contains(",,,")); // no tokens

  const std::vector<std::string> tsv =
      lines_of(clean(run({"stats", "data/quickstart.json", "-f", "tsv"})));
  CHECK(tsv[0] == all_columns("\t"));
  CHECK(fields(tsv[1], '\t') == fields(tsv[0], '\t'));
}

TEST_CASE("stats: json is a list of objects, ndjson one a line, with the same numbers") {
  const json rows = json::parse(clean(run({"stats", "data/quickstart.json", "-f", "json"})));
  REQUIRE(rows.size() == 2);
  CHECK(rows[0]["layer"].is_null());
  CHECK(rows[0]["induction"].is_null());
  CHECK(rows[0]["masked_rows"] == 0);
  CHECK(rows[0]["overflow_f32"] == false);
  CHECK(rows[0]["max"].get<double>() == Approx(2.0 / 3));
  CHECK(rows[0].size() == 3 + mha::measures().size());
  const std::vector<std::string> lines =
      lines_of(clean(run({"stats", "data/quickstart.json", "-f", "ndjson"})));
  REQUIRE(lines.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) CHECK(json::parse(lines[i]) == rows[i]);
}

TEST_CASE("stats: what is not finite is a word in json and in csv") {
  Folder folder;
  const std::string path =
      folder.write("maps.json", R"({"weights": [[[0.5, 0.5], ["NaN", 0.25]]]})");
  const json rows = json::parse(clean(run({"stats", path, "-f", "json", "-q"})));
  CHECK(rows[0]["entropy"] == "NaN");
  CHECK(rows[0]["masked_rows"] == 0);
  CHECK_THAT(clean(run({"stats", path, "-f", "csv", "--measures", "entropy,first", "-q"})),
             Contains("\n,0,") && Contains(",nan,nan\n"));
}

TEST_CASE("stats: --kind keeps the heads that look like it; none is exit code 1") {
  const json rows =
      json::parse(clean(stats_of_induction({"--kind", "induction,local", "-f", "json"})));
  CHECK(rows.size() == 5);
  for (const json& row : rows) CHECK((row["kind"] == "induction" || row["kind"] == "local"));

  const Result none = stats_of_induction({"--kind", "self"});
  CHECK(none.code == 1);
  CHECK(none.out.empty());
  CHECK_THAT(none.err, Contains("no head"));
  const Result empty = stats_of_induction({"--kind", "self", "-f", "json", "--quiet"});
  CHECK(empty.code == 1);
  CHECK(json::parse(empty.out).empty());
  CHECK(empty.err.empty());
}

TEST_CASE("stats: --measures kind is the kind alone, which adds no column to others") {
  const json kinds = json::parse(clean(stats_of_induction({"--measures", "kind", "-f", "json"})));
  const json all = json::parse(clean(stats_of_induction({"-f", "json"})));
  REQUIRE(kinds.size() == all.size());
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    CHECK(kinds[i].size() == 3);
    CHECK(kinds[i]["kind"] == all[i]["kind"]);
  }
  CHECK_THAT(clean(stats_of_induction({"--measures", "kind"})),
             Contains("kind") && Contains("induction") && !Contains("entropy"));
  CHECK(clean(stats_of_induction({"--measures", "kind,entropy", "-f", "csv"})) ==
        clean(stats_of_induction({"--measures", "entropy", "-f", "csv"})));
  const Result texts = shell(
      "\"$MHA\" stats data/bard-gpt2 --text 'To be' --text 'or not' --spread --measures kind");
  CHECK(texts.code == 2);
  CHECK_THAT(texts.err, Contains("--measures kind: the kind is shown beside measures"));
}

TEST_CASE("stats: --sort orders by a measure, --top cuts") {
  const auto heads = [](const std::vector<std::string>& options) {
    std::vector<std::string> arguments{"-f", "ndjson"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    std::vector<json> rows;
    for (const std::string& line : lines_of(clean(stats_of_induction(arguments))))
      rows.push_back(json::parse(line));
    return rows;
  };
  const std::vector<json> down = heads({"--sort", "induction"});
  for (std::size_t i = 1; i < down.size(); ++i)
    CHECK(down[i - 1]["induction"] >= down[i]["induction"]);
  const std::vector<json> up = heads({"--sort", "induction:asc", "--top", "3"});
  REQUIRE(up.size() == 3);
  CHECK(up[0]["induction"] == down.back()["induction"]);
  CHECK(heads({"--sort", "kind"}).front()["kind"] == "induction");
  CHECK(heads({"--sort", "kind:desc"}).front()["kind"] == "previous-token");
  // Without batches there is no such measure: the rows stay as they are.
  CHECK(heads({"--sort", "max_batch"}) == heads({}));
}

TEST_CASE("stats: --measures chooses the columns, in its order") {
  CHECK(lines_of(clean(run({"stats", "data/quickstart.json", "-f", "csv", "--measures",
                            "first,entropy"})))[0] == "layer,head,kind,first,entropy");
  CHECK_THAT(clean(run({"stats", "data/quickstart.json", "--measures", "first,entropy"})),
             Contains("head  kind            first  entropy\n"));
}

TEST_CASE("stats: --head, --query and --batch say what is measured") {
  const json one =
      json::parse(clean(run({"stats", "data/quickstart.json", "--head", "1", "-f", "json"})));
  REQUIRE(one.size() == 1);
  CHECK(one[0]["head"] == 1);
  CHECK(one[0]["nearest_head"] == 0);
  const json row =
      json::parse(clean(run({"stats", "data/quickstart.json", "--query", "2", "-f", "json"})));
  CHECK(row[0]["max_query"] == 2);
  CHECK_THAT(run({"stats", "data/quickstart.json", "--batch", "0"}).err,
             Contains("the input is not batched"));
  CHECK_THAT(run({"stats", "data/quickstart.json", "--head", "2"}).err,
             Contains("--head 2: there are 2 heads (0 to 1)"));
}

TEST_CASE("stats: --near says how near is near") {
  const auto window = [](const std::string& reach) {
    return json::parse(clean(
        run({"stats", "data/quickstart.json", "--near", reach, "-f", "json"})))[0]["window"]
        .get<double>();
  };
  CHECK(window("0") == Approx(0.25)); // self
  CHECK(window("0") < window("1"));
  CHECK(window("2") == Approx(1));
}

TEST_CASE("stats: saved maps of all layers, with five axes or one file a layer") {
  Folder folder;
  const std::string path = folder.write("maps.json", five_axes());
  const std::string tokens = folder.write("tokens.json", R"(["a", "b", "a"])");
  const json rows = json::parse(clean(run({"stats", "weights=" + path + ":weights@LBHTS", "--layer",
                                           "all", "--tokens", tokens, "-f", "json"})));
  REQUIRE(rows.size() == 4);
  CHECK(rows[0]["layer"] == 0);
  CHECK(rows[0]["kind"] == "too short"); // two rows choose
  CHECK(rows[0]["induction"] == 1);
  CHECK(rows[0]["induction_rows"] == 1);
  CHECK(rows[1]["kind"] == "too short");
  CHECK(rows[2]["layer"] == 1);
  CHECK(rows[2]["kind"] == "too short");
  CHECK(rows[3]["result_norm"].is_null());
  CHECK(rows[3]["rank_q"].is_null());
  CHECK(rows[3]["max_batch"] == 0);

  // What another run of the program saved, a file a layer.
  REQUIRE(shell("for N in 0 1; do \"$MHA\" dump data/induction --layer $N "
                "X=data/induction/hidden.npz:layers.$N --causal -s weights -o " +
                folder.path("maps$N.npy") + " || exit 1; done")
              .code == 0);
  const json saved =
      json::parse(clean(run({"stats", "weights=" + folder.path("maps{layer}.npy"), "--layer", "all",
                             "--tokens", "data/induction/tokens.json", "-f", "json"})));
  const json computed = json::parse(clean(stats_of_induction({"-f", "json"})));
  REQUIRE(saved.size() == 8);
  for (std::size_t i = 0; i < 8; ++i)
    for (const char* name : {"kind", "max", "max_query", "previous", "induction", "similarity",
                             "nearest_head", "entropy_share", "uniformity", "window_keys"}) {
      CAPTURE(i, name);
      if (saved[i][name].is_number())
        CHECK(saved[i][name].get<double>() == Approx(computed[i][name].get<double>()));
      else
        CHECK(saved[i][name] == computed[i][name]);
    }
}

TEST_CASE("stats: writes files, whose extension decides the format, one a layer or a head") {
  Folder folder;
  REQUIRE(run({"stats", "data/quickstart.json", "-o", folder.path("heads.json")}).code == 0);
  CHECK(json::parse(folder.read("heads.json")).size() == 2);
  REQUIRE(stats_of_induction({"-o", folder.path("layer{layer}.csv")}).code == 0);
  CHECK(lines_of(folder.read("layer0.csv")).size() == 5);
  CHECK_THAT(folder.read("layer1.csv"), Contains("\n1,0,induction,"));
  REQUIRE(run({"stats", "data/quickstart.json", "-o", folder.path("table.txt")}).code == 0);
  CHECK_THAT(folder.read("table.txt"), Contains("entropy_share"));
  const Result unknown = run({"stats", "data/quickstart.json", "-o", folder.path("stats.xls")});
  CHECK(unknown.code == 2);
  CHECK_THAT(unknown.err, Contains("unknown extension") && Contains(".csv"));
  CHECK_FALSE(folder.has("stats.xls"));
}

TEST_CASE("stats: layers × heads as a picture, coloured by a measure") {
  const std::vector<std::string> model{"stats",       "data/induction-model",
                                       "--text-file", "data/induction-model/expected/repeat.txt",
                                       "--layer",     "all",
                                       "--grid",      "induction"};
  const std::string text = clean(run(model));
  CHECK_THAT(text, Contains("induction\n0 │        │\n1 │████████│\n   0   2\n") &&
                       Contains("down: layer, across: head"));
  const Folder folder;
  std::vector<std::string> picture = model;
  picture.insert(picture.end(), {"-o", folder.path("grid.svg"), "--above-uniform"});
  clean(run(picture));
  CHECK_THAT(folder.read("grid.svg"), Contains(">induction_above<"));
}

TEST_CASE("stats: fails for what it does not know, before anything is read") {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"--sort", "entropi"}, "did you mean 'entropy'?"},
      {{"--sort", "entropy:up"}, "'up' is neither asc nor desc"},
      {{"--kind", "inductoin"}, "did you mean 'induction'?"},
      {{"--measures", "entropy,frist"}, "did you mean 'first'?"},
      {{"--measures", "entropy,all"},
       "--measures all includes every measure; leave out the other names"},
      {{"--top", "0"}, "--top is 0: at least 1 expected"},
      {{"--near", "-1"}, "a whole number expected"},
      {{"--format", "gif"}, "table, csv, tsv, json, ndjson, markdown, text, png, svg, pdf"},
      {{"--format", "png"}, "a picture of heads shows one measure: --grid entropy"},
      {{"--grid", "entropy", "--format", "csv"}, "--grid draws a picture"},
      {{"--grid", "entropi"}, "did you mean 'entropy'?"},
  };
  for (const auto& [options, message] : cases) {
    std::vector<std::string> arguments{"stats", "no-such-file.json"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Result result = run(arguments);
    INFO(message << "\n" << result.err);
    CHECK(result.code == 2);
    CHECK(result.out.empty());
    CHECK(one_line(result.err));
    CHECK_THAT(result.err, Contains(message));
  }
}

TEST_CASE("stats: help lists every measure and every kind with its threshold") {
  std::string help;
  for (const std::string& line : lines_of(run({"stats", "--help"}).out)) {
    // As one line: words wrap anywhere.
    std::istringstream words(line);
    for (std::string word; words >> word;) help += word + ' ';
  }
  for (const mha::Measure& measure : mha::measures())
    CHECK_THAT(help, Contains(std::string(measure.name)));
  for (const mha::HeadKind& kind : mha::head_kinds())
    CHECK_THAT(help, Contains(fmt::format("{} ({})", kind.name, kind.text)));
}

TEST_CASE("stats: docs/stats.md explains every measure, and lists the kinds as the program does") {
  std::ifstream file(mha::test::source_folder() + "/docs/stats.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  for (const mha::Measure& measure : mha::measures()) {
    const std::string name(measure.name);
    const bool in_a_row_of_four = name.ends_with("_k") || name.ends_with("_v"); // rank_q … rank_o
    if (!in_a_row_of_four) CHECK_THAT(page, Contains("`" + name + "`"));
  }
  for (const mha::HeadKind& kind : mha::head_kinds())
    CHECK_THAT(page, Contains(fmt::format("| `{}` | {} |\n", kind.name, kind.text)));
}

TEST_CASE(
    "stats: --above-uniform shows scores above equal weights, by the same names with an end") {
  const std::string measures = "previous,induction,entropy";
  const auto table = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"--measures", measures, "-f", "csv"};
    words.insert(words.end(), more.begin(), more.end());
    return lines_of(clean(stats_of_induction(words)));
  };
  CHECK(table({})[0] == "layer,head,kind,previous,induction,entropy");
  CHECK(table({"--above-uniform"})[0] == "layer,head,kind,previous_above,induction_above,entropy");
  const json rows = json::parse(clean(stats_of_induction({"-f", "json"})));
  double uniform = 0; // of causal rows: 1 / 2, 1 / 3 … 1 / 33
  for (int n = 2; n <= 33; ++n) uniform += 1.0 / n / 32;
  for (const json& row : rows)
    CHECK(row["previous_above"].get<double>() ==
          Approx(row["previous"].get<double>() - uniform).epsilon(1e-12));
  CHECK_THAT(clean(stats_of_induction({"--above-uniform"})), Contains("previous_above"));
}

TEST_CASE("stats: a table says how many rows are behind a score of few, and no max of one key") {
  Setting wide;
  wide.env["COLUMNS"] = "200";
  const std::string table = run(induction, wide).out;
  CHECK_THAT(table, Contains("rows") && Contains("induction  induction_rows"));
  CHECK(table.find(" max") == std::string::npos);
}

TEST_CASE("stats: the kinds of short texts are too short, and --kind finds them") {
  const Result result =
      run({"stats", "data/bard-gpt2", "--text", "O Romeo", "-f", "ndjson", "--kind", "too short"});
  CHECK(lines_of(result.out).size() == 24);
}

TEST_CASE("stats: --separators names the tokens that separate") {
  Folder folder;
  std::string map, tokens;
  for (int t = 0; t < 12; ++t) {
    map += t ? ",[" : "[";
    for (int j = 0; j < 12; ++j)
      map += (j ? "," : "") + std::string(j == 3 || j == 7 ? "0.45" : "0.01");
    map += "]";
    tokens += (t ? " " : "") + (t == 3 || t == 7 ? std::string("SEP") : "w" + std::to_string(t));
  }
  const std::string path = folder.write("map.json", "{\"weights\": [[" + map + "]]}");
  const auto row = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"stats", path, "--tokens", tokens, "-f", "json"});
    return json::parse(clean(run(more)))[0];
  };
  CHECK(row({})["separator"].is_null());
  const json named = row({"--separators", "SEP"});
  CHECK(named["separator"].get<double>() == Approx(0.9));
  CHECK(named["separator_above"].get<double>() == Approx(0.9 - 2.0 / 12));
  CHECK(named["kind"] == "separator");
}
