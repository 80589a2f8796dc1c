// Every result with rows in every form that one is written in.

#include "support/run.hpp"
#include <mha/render/table.hpp>
#include <mha/system/words.hpp>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <sstream>

using namespace mha::test;
using nlohmann::json;

namespace {

/// A command line of each result. Those that have no rows are tested elsewhere: show, dump, map,
/// report, explain, diagnose, convert, completion.
const std::vector<std::vector<std::string>> results{
    {"stats", "data/quickstart.json"},
    {"stats", "data/quickstart.json", "--measures", "entropy,first,masked_rows"},
    {"stats", "data/bard-llama", "--text", "To be", "--text", "or not to be", "--spread"},
    {"stats", "data/bard-llama", "--text", "To be", "--text", "or not to be", "--by", "token"},
    {"stats", "data/bard-llama", "--text", "To be", "--text", "or not", "--top-texts", "3",
     "--layer", "1", "--head", "0"},
    {"effects", "data/bard-llama", "--text", "To be, or not to"},
    {"effects", "data/bard-llama", "--text", "To be, or not to", "--per-position"},
    {"effects", "data/bard-llama", "--text", "To be, or", "--sweep", "x", "--patch-from",
     "To me, or", "--over", "layer", "--answer", ",", "--versus", "e"},
    {"circuits", "data/bard-llama"},
    {"circuits", "data/bard-llama", "--spectrum"},
    {"circuits", "data/bard-llama", "--composition", "k"},
    {"predict", "data/bard-llama", "--text", "To be"},
    {"predict", "data/bard-llama", "--text", "To be", "--query", "all"},
    {"predict", "data/bard-llama", "--text", "To be", "--of", "layers.1.mlp_out"},
    {"tokens", "data/bard-llama", "--text", "To be"},
    {"names"},
    {"stages"},
    {"stages", "data/quickstart.json"},
    {"info", "data/quickstart.json"},
    {"info", "data/bard-llama"},
    {"diff", "data/quickstart.json", "--against", "DUMP"},
    {"diff", "data/bard-llama", "data/bard-llama", "--weights"},
    {"bench", "data/quickstart.json", "--repeat", "1"},
    {"bench", "data/bard-llama", "--text", "To be", "--repeat", "1"},
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// The fields of each record of a CSV text, as a reader of RFC 4180 sees them.
std::vector<std::vector<std::string>> csv_records(const std::string& text) {
  std::vector<std::vector<std::string>> records(1, {""});
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"')
      records.back().back() += text[i++];
    else if (c == '"')
      quoted = !quoted;
    else if (!quoted && c == ',')
      records.back().emplace_back();
    else if (!quoted && c == '\n')
      records.push_back({""});
    else
      records.back().back() += c;
  }
  records.pop_back(); // after the last line
  return records;
}

std::vector<std::string> keys_of(const json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

/// The cells of a line of a Markdown table: bars that are escaped do not end one.
std::size_t markdown_cells(const std::string& line) {
  std::size_t bars = 0;
  for (std::size_t i = 0; i < line.size(); ++i)
    if (line[i] == '\\')
      ++i;
    else
      bars += line[i] == '|';
  return bars == 0 ? 0 : bars - 1;
}

} // namespace

TEST_CASE("forms: every result with rows has every form, and each can be read") {
  const Folder folder;
  const std::string dump = folder.path("dump.npz");
  REQUIRE(run({"dump", "data/quickstart.json", "-o", dump}).code == 0);
  for (std::vector<std::string> words : results) {
    std::ranges::replace(words, std::string("DUMP"), dump);
    std::size_t csv_fields = 0, csv_rows = 0;
    for (const std::string_view form : mha::render::result_forms) {
      std::vector<std::string> line = words;
      line.insert(line.end(), {"-f", std::string(form)});
      const Result result = run(line);
      INFO(mha::joined_texts(line, " ") << "\n" << result.err << "\n" << result.out);
      REQUIRE(result.code == 0);
      REQUIRE_FALSE(result.out.empty());
      CHECK(result.out.back() == '\n');
      if (form == "json") {
        CHECK_NOTHROW(json::parse(result.out));
      } else if (form == "ndjson") {
        const std::vector<std::string> objects = lines_of(result.out);
        CHECK(objects.size() == csv_rows);
        for (const std::string& object : objects)
          CHECK(keys_of(json::parse(object)) == keys_of(json::parse(objects[0])));
      } else if (form == "csv") {
        const auto records = csv_records(result.out);
        csv_fields = records[0].size(), csv_rows = records.size() - 1;
        for (const auto& record : records) CHECK(record.size() == csv_fields);
        CHECK(csv_rows > 0);
        CHECK(csv_fields > 1);
      } else if (form == "tsv") {
        for (const std::string& record : lines_of(result.out))
          CHECK(static_cast<std::size_t>(std::ranges::count(record, '\t')) + 1 == csv_fields);
      } else if (form == "markdown") {
        // A table has a rule below its titles, and as many cells in each line.
        std::size_t cells = 0, tables = 0;
        for (const std::string& text : lines_of(result.out)) {
          if (!text.starts_with("|")) {
            cells = 0;
            continue;
          }
          if (cells == 0) cells = markdown_cells(text), ++tables;
          CHECK(markdown_cells(text) == cells);
        }
        CHECK(tables > 0);
      }
    }
  }
}

TEST_CASE("forms: a file's extension decides, .md too") {
  const Folder folder;
  for (const char* name : {"t.csv", "t.tsv", "t.json", "t.ndjson", "t.md", "t.txt"})
    REQUIRE(run({"tokens", "data/bard-llama", "--text", "a|b", "-o", folder.path(name)}).code == 0);
  CHECK(folder.read("t.md").starts_with(
      "|  | token | id | bytes | piece |\n|---:|---|---:|---|---|\n"));
  CHECK(folder.read("t.md").find("\\|") != std::string::npos);
  CHECK(folder.read("t.ndjson").starts_with("{\"text\": 0, \"position\": 0, \"id\": "));
}

TEST_CASE("forms: --precision is of the forms for programs") {
  const std::vector<std::string> words{"stats", "data/quickstart.json", "--precision", "3", "-f"};
  const auto in = [&](const char* form) {
    std::vector<std::string> line = words;
    line.emplace_back(form);
    return run(line);
  };
  CHECK(in("ndjson").code == 0);
  CHECK(in("markdown").err.find("--precision: applies to CSV, TSV and JSON") != std::string::npos);
}
