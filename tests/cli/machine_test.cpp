// docs/machine.md is what programs rely on: every field that a command prints is in it with its
// type, and every field of it is printed.

#include "support/machine_page.hpp"
#include "support/run.hpp"
#include <mha/system/words.hpp>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <sstream>

using namespace mha::test;
using nlohmann::json;
using nlohmann::ordered_json;

namespace {

using Path = std::vector<std::string>;

std::set<std::string_view> types_of(const FieldRow& row) {
  std::set<std::string_view> types;
  std::string_view text = row.type;
  for (std::size_t at; (at = text.find(" or ")) != text.npos; text.remove_prefix(at + 4))
    types.insert(text.substr(0, at));
  types.insert(text);
  return types;
}

/// The words that a text may be, where its row lists them.
std::set<std::string_view> words_of(const FieldRow& row) {
  std::set<std::string_view> words;
  if (!row.meaning.starts_with('`')) return words;
  const std::vector<std::string_view> parts = mha::split_at(row.meaning, '`');
  for (std::size_t i = 1; i < parts.size(); i += 2) words.insert(parts[i]);
  return words;
}

/// A document of the output, or a line of NDJSON or CSV: its fields are noted in a table in order.
struct Document {
  FieldTable& table;
  std::size_t next = 0;

  /// The row of a field; one that the page lacks has any type.
  FieldRow row_of(const std::string& path) {
    table.add_printed(path, next);
    const FieldRow* const row = table.find(path);
    return row == nullptr ? FieldRow{path, "", ""} : *row;
  }
};

bool is_number_word(const ordered_json& value) {
  return value == "NaN" || value == "Infinity" || value == "-Infinity";
}

void require_numbers(const ordered_json& value) {
  if (value.is_array())
    for (const ordered_json& one : value) require_numbers(one);
  else
    CHECK((value.is_number() || is_number_word(value)));
}

void check(const ordered_json& value, const Path& path, Document& document) {
  const std::string name = mha::joined_texts(path, ".");
  const FieldRow* const known = document.table.find(name);
  INFO(name << " is " << value.dump().substr(0, 60));
  if (known != nullptr && known->type == "numbers") {
    document.row_of(name);
    require_numbers(value);
    return;
  }
  if (value.is_object()) {
    for (const auto& [key, member] : value.items()) {
      Path inner = path;
      inner.push_back(key);
      check(member, inner, document);
    }
    return;
  }
  if (value.is_array()) {
    Path inner = path;
    inner.back() += "[]";
    for (const ordered_json& element : value) check(element, inner, document);
    return;
  }
  const FieldRow row = document.row_of(name);
  if (row.type.empty()) return;
  const std::set<std::string_view> types = types_of(row);
  const bool fits =
      (value.is_null() && types.contains("null")) ||
      (value.is_boolean() && types.contains("boolean")) ||
      (value.is_number_integer() && (types.contains("integer") || types.contains("number"))) ||
      (value.is_number_float() && types.contains("number")) ||
      (value.is_string() &&
       (types.contains("text") || (types.contains("number") && is_number_word(value))));
  CHECK(fits);
  if (const auto words = words_of(row); value.is_string() && !words.empty())
    CHECK(words.contains(value.get_ref<const std::string&>()));
}

/// JSON that has no member twice: most readers keep the last, and say nothing.
ordered_json parsed_once(const std::string& text) {
  std::vector<std::set<std::string>> open;
  using Event = ordered_json::parse_event_t;
  return ordered_json::parse(text, [&](int, Event event, const ordered_json& value) {
    if (event == Event::object_start) open.emplace_back();
    if (event == Event::object_end) open.pop_back();
    if (event == Event::key) {
      INFO(value << " comes twice");
      CHECK(open.back().insert(value.get<std::string>()).second);
    }
    return true;
  });
}

/// Fields of a line of CSV, quotes resolved.
std::vector<std::string> fields_of(const std::string& line, char between) {
  std::vector<std::string> fields{""};
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && between == ',')
      quoted = !quoted;
    else if (line[i] == between && !quoted)
      fields.emplace_back();
    else
      fields.back() += line[i];
  }
  return fields;
}

void check_csv(const std::string& text, char between, FieldTable& table) {
  std::istringstream lines(text);
  std::string line;
  REQUIRE(std::getline(lines, line));
  const std::vector<std::string> titles = fields_of(line, between);
  CHECK(std::set<std::string>(titles.begin(), titles.end()).size() == titles.size());
  Document document{table};
  std::vector<FieldRow> rows;
  for (const std::string& title : titles) rows.push_back(document.row_of(title));
  while (std::getline(lines, line)) {
    // A token may be a line break: its quotes close on another line.
    for (std::string more;
         between == ',' && std::ranges::count(line, '"') % 2 != 0 && std::getline(lines, more);)
      line += "\n" + more;
    const std::vector<std::string> fields = fields_of(line, between);
    INFO(line);
    REQUIRE(fields.size() == titles.size());
    for (std::size_t i = 0; i < titles.size(); ++i) {
      const std::set<std::string_view> types = types_of(rows[i]);
      INFO(titles[i] << " is " << fields[i]);
      if (rows[i].type.empty()) continue;
      if (fields[i].empty()) {
        CHECK((types.contains("null") || types.contains("text")));
      } else if (!types.contains("text")) {
        const bool boolean = fields[i] == "true" || fields[i] == "false";
        char* end = nullptr;
        std::strtod(fields[i].c_str(), &end);
        CHECK((boolean ? types.contains("boolean") : *end == 0));
        if (types.contains("integer") && !types.contains("number"))
          CHECK(fields[i].find_first_not_of("0123456789") == std::string::npos);
      }
    }
  }
}

/// The command in the other formats that have the same fields.
std::vector<std::string> in_formats_alike(const std::string& command) {
  const std::size_t at = command.rfind("-f ") + 3;
  const std::string before = command.substr(0, at), form = command.substr(at);
  const auto is = [&](const char* name) { return command.starts_with(name); };
  const auto has = [&](const char* option) { return command.find(option) != std::string::npos; };
  std::vector<std::string> forms;
  if (is("stats ") || (is("effects ") && !has("--sweep")) || has("--composition"))
    forms = {"json", "ndjson", "csv", "tsv"};
  else if (form == "json" && (is("circuits ") || is("stages ")))
    forms = {"json", "ndjson"};
  else if (form == "csv" &&
           (is("tokens ") || is("bench ") || (is("predict ") && !has("--query all")) ||
            has("--spectrum") || (is("diff ") && !has("--weights"))))
    forms = {"csv", "tsv", "ndjson"};
  else if (form == "csv")
    forms = {"csv", "tsv"};
  std::vector<std::string> commands;
  for (const std::string& other : forms)
    if (other != form) commands.push_back(before + other);
  return commands;
}

/// Runs a command of the page and notes its fields.
void check_command(const std::string& command, FieldTable& table) {
  INFO(command);
  const Result result =
      shell("\"$MHA\" --quiet " + command + " 2>/dev/null || \"$MHA\" " + command);
  INFO(result.err);
  REQUIRE((result.code == 0 || (result.code == 1 && command.starts_with("diff "))));
  const auto check_one = [&](const ordered_json& one) {
    Document document{table};
    check(one, {}, document);
  };
  const bool tsv = command.ends_with("-f tsv");
  if (tsv || command.ends_with("-f csv")) {
    check_csv(result.out, tsv ? '\t' : ',', table);
  } else if (command.ends_with("-f ndjson")) {
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) check_one(parsed_once(line));
  } else {
    const ordered_json all = parsed_once(result.out);
    if (all.is_array())
      for (const ordered_json& one : all) check_one(one);
    else
      check_one(all);
  }
}

/// The page with what its commands print.
MachinePage checked_page() {
  MachinePage page;
  for (FieldTable& table : page.tables)
    for (const std::string& command : table.commands) {
      check_command(command, table);
      for (const std::string& same : in_formats_alike(command)) check_command(same, table);
    }
  return page;
}

} // namespace

TEST_CASE("docs/machine.md: every field of every command's output, with its type") {
  const MachinePage page = checked_page();
  REQUIRE(page.tables.size() > 12);
  INFO("cli-tests '[machine-write]' writes the rows; a new one needs its type and a meaning");
  CHECK(page.text() == page.raw);
  CHECK(page.raw.find("| ? |") == std::string::npos);
}

TEST_CASE("docs/machine.md: written as the commands print", "[.][machine-write]") {
  checked_page().write();
}

TEST_CASE(
    "machine formats: what is above uniform attention is a column once, of one text and of many") {
  const std::string texts = "stats data/bard-gpt2 --text 'my love, my lord' --text 'my king' ";
  for (const std::string more :
       {"--layer 1", "--layer 1 --spread", "--layer 1 --by text", "--layer 1 --by position",
        "--layer 1 --measures previous,previous_above,entropy",
        "--layer 1 --spread --measures first"})
    for (const std::string form : {"json", "ndjson", "csv", "tsv"}) {
      const std::string line = texts + more + " --above-uniform -f " + form;
      INFO(line);
      const Result result = shell("\"$MHA\" " + line);
      REQUIRE(result.code == 0);
      const std::string first = result.out.substr(0, result.out.find('\n'));
      std::vector<std::string> names;
      if (form == "csv" || form == "tsv") {
        names = fields_of(first, form == "tsv" ? '\t' : ',');
      } else {
        const auto all = parsed_once(form == "json" ? result.out : "[" + first + "]");
        for (const auto& [name, value] : all[0].items()) names.push_back(name);
      }
      CHECK(std::set<std::string>(names.begin(), names.end()).size() == names.size());
      CHECK(std::ranges::count(names, "previous") + std::ranges::count(names, "first") == 0);
      CHECK(std::ranges::any_of(names, [](const auto& name) { return name.ends_with("_above"); }));
    }
}

TEST_CASE(
    "machine formats: the top level of JSON follows from how many layers or texts there are") {
  const std::string layer = "data/bard-gpt2 --text 'To be' --layer 1",
                    layers = "data/bard-gpt2 --text 'To be' --layer 0-1",
                    texts = "data/bard-gpt2 --text 'To be' --text 'or not'";
  const std::tuple<std::string, std::string, const char*> cases[]{
      {"explain", layer, "object"},
      {"explain", layers, "array"},
      {"explain", "data/quickstart.json", "object"},
      {"stats", layer, "array"},
      {"stats", layers, "array"},
      {"stats", "data/quickstart.json", "array"},
      {"show", layer, "object"},
      {"show", layers, "object"},
      {"predict", "data/bard-gpt2 --text 'To be'", "object"},
      {"predict", texts, "object"},
      {"tokens", "data/bard-gpt2 --text 'To be'", "object"},
      {"tokens", texts, "array"},
      {"effects", "data/bard-gpt2 --text 'To be'", "array"},
      {"circuits", "data/bard-gpt2", "array"},
      {"circuits", "data/bard-gpt2 --layer 1", "array"},
      {"info", "data/bard-gpt2", "object"},
      {"names", "", "object"},
      {"stages", "", "array"}};
  for (const auto& [command, what, expected] : cases)
    for (const std::string more :
         {"", " --measures all", " --precision 3", " --top 2", " --head 0"}) {
      const std::string line = command + " " + what + more;
      INFO(line);
      const Result result = shell("\"$MHA\" --quiet " + line + " -f json 2>/dev/null || \"$MHA\" " +
                                  line + " -f json");
      if (result.code == 2 && !more.empty()) continue; // the command has no such option
      REQUIRE(result.code == 0);
      CHECK(json::parse(result.out).type_name() == std::string(expected));
    }
}

TEST_CASE("docs/machine.md: every command that has a machine format is there") {
  const MachinePage page;
  const auto has = [&](const std::string& command, const std::string& option,
                       const std::string& form) {
    for (const FieldTable& table : page.tables)
      for (const std::string& shown : table.commands) {
        std::vector<std::string> all = in_formats_alike(shown);
        all.push_back(shown);
        for (const std::string& one : all)
          if (one.starts_with(command + " ") && one.find(option) != std::string::npos &&
              one.ends_with("-f " + form))
            return true;
      }
    return false;
  };
  // The formats that each command lists.
  const std::string machine[]{"json", "ndjson", "csv", "tsv"};
  for (const std::string command :
       {"show", "stats", "predict", "tokens", "effects", "explain", "diff", "diagnose", "circuits",
        "info", "bench", "names", "stages"}) {
    const std::string help = run({command, "--help"}).out;
    const std::size_t at = help.find("--format ");
    REQUIRE(at != std::string::npos);
    const std::string offered =
        "|" + help.substr(at + 9, help.find_first_of(" \n", at + 9) - at - 9) + "|";
    for (const std::string& form : machine) {
      INFO(command << " -f " << form << " of " << offered);
      if (offered.find("|" + form + "|") != std::string::npos) CHECK(has(command, "", form));
    }
  }
  // And what has fields of its own, in each of its formats.
  const std::tuple<const char*, const char*, std::vector<std::string>> modes[]{
      {"effects", "--sweep", {"json", "csv", "tsv"}},
      {"effects", "--per-position", {"json", "csv", "tsv"}},
      {"effects", "--spread", {"json", "csv", "tsv"}},
      {"predict", "--query all", {"json", "csv", "tsv"}},
      {"predict", "--each-layer", {"json"}},
      {"predict", "--of", {"json", "csv", "tsv"}},
      {"stats", "--measures all", {"json", "ndjson", "csv", "tsv"}},
      {"stats", "--spread", {"json", "ndjson", "csv", "tsv"}},
      {"stats", "--by text", {"json", "ndjson", "csv", "tsv"}},
      {"stats", "--by position", {"json", "ndjson", "csv", "tsv"}},
      {"stats", "--by token", {"json", "ndjson", "csv", "tsv"}},
      {"stats", "--top-texts", {"json", "ndjson", "csv", "tsv"}},
      {"circuits", "--spectrum", {"csv", "tsv"}},
      {"circuits", "--composition", {"json", "csv", "tsv"}},
      {"diff", "--weights", {"json", "csv"}}};
  for (const auto& [command, option, forms] : modes)
    for (const std::string& form : forms) {
      INFO(command << " " << option << " -f " << form);
      CHECK(has(command, option, form));
    }
  for (const char* command : {"show", "stats", "predict", "tokens", "effects", "explain", "diff",
                              "diagnose", "circuits", "info", "bench", "names", "stages"})
    CHECK(page.raw.find("\n## " + std::string(command) + "\n") != std::string::npos);
}

TEST_CASE("machine formats: a token is the text as it is, a layer a number, logits have labels") {
  const std::string text = "To be, or not to";
  const json tokens =
      json::parse(run({"tokens", "data/bard-llama", "--text", text, "-f", "json"}).out);
  const std::size_t last = tokens["tokens"].size() - 1;
  CHECK(tokens["tokens"][last] == " to");
  CHECK(tokens["pieces"][last] == "Ġto");
  const std::vector<std::string> layer{"data/bard-llama", "--text", text, "--layer", "1"};
  const auto with = [&](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), layer.begin(), layer.end());
    words.insert(words.end(), more.begin(), more.end());
    const Result result = run(words);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return result.out;
  };
  const std::string at = std::to_string(last);
  const json line =
      json::parse(with({"show"}, {"-s", "row_sum", "--query", at, "--head", "0", "-f", "ndjson"}));
  CHECK(line["layer"] == 1);
  const json explained =
      json::parse(with({"explain"}, {"--query", at, "--head", "0", "-f", "json"}));
  CHECK(explained["layer"] == 1);
  CHECK(explained["token"] == " to");
  CHECK(explained["heads"][0]["keys"][last]["token"] == " to");
  const std::string csv = with({"show"}, {"-s", "row_sum", "--head", "0", "-f", "csv"});
  CHECK(csv.find(", to,") != std::string::npos);
  CHECK(csv.find("␣") == std::string::npos);
  const std::string logits =
      run({"show", "data/bard-llama", "--text", text, "-s", "logits", "--query", at, "-f", "csv"})
          .out;
  CHECK(logits.find(", to, be\n") != std::string::npos);
}

TEST_CASE("machine formats: a byte, a line break and a sign of a blank are what they are") {
  const std::string text = "a ␣b\n\tç";
  const json tokens =
      json::parse(run({"tokens", "data/bard-gpt2", "--text", text, "-f", "json"}).out);
  std::string all;
  for (const json& token : tokens["tokens"])
    if (const auto word = token.get<std::string>(); !word.starts_with("<")) all += word;
  CHECK(all.find("\n") != std::string::npos);
  CHECK(all.find("⏎") == std::string::npos);
  // A line a token in TSV, whatever it holds; quotes in CSV.
  const std::string signs = "a\tb\nc\\ \"d\r.";
  const std::string tsv = run({"tokens", "data/bard-llama", "--text", signs, "-f", "tsv"}).out,
                    csv = run({"tokens", "data/bard-llama", "--text", signs, "-f", "csv"}).out;
  for (const char* field : {"\t\\t\t", "\t\\n\t", "\t\\\\\t", "\t\\r\t", "\t\"\t"})
    CHECK_THAT(tsv, Catch::Contains(field));
  std::istringstream lines(tsv);
  for (std::string line; std::getline(lines, line);) CHECK(std::ranges::count(line, '\t') == 6);
  for (const char* field : {",\t,", ",\"\n\",", ",\\,", ",\"\"\"\"", ",\\u000d,"})
    CHECK_THAT(csv, Catch::Contains(field));
}
