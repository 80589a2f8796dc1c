// -o FILE.EXT: an extension means a format; what -f refuses, an extension does not get another way.

#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <sstream>

using namespace mha::test;
using Catch::Contains;
using nlohmann::json;

namespace {

using Words = std::vector<std::string>;

struct Command {
  Words words;
  Words formats;      ///< that it writes
  Words else_forms{}; ///< and those that it writes with other options
};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

const std::vector<Command>& commands() {
  const std::string layer = "data/quickstart.json", model = "data/bard-gpt2";
  const Words rows{"table", "csv", "tsv", "json", "ndjson", "markdown"}; // of results with rows
  static const std::vector<Command> list{
      {{"show", layer}, {"table", "csv", "tsv", "json", "ndjson"}}, // an .npy is of one stage
      {{"explain", layer}, {"text", "json"}},
      {{"stats", layer}, rows, {"png", "svg", "pdf"}},
      {{"map", layer}, {"text", "png", "svg", "pdf"}},
      {{"info", layer}, rows},
      {{"bench", layer, "--repeat", "1"}, rows},
      {{"names"}, rows},
      {{"stages"}, rows},
      {{"tokens", model, "--text", "To be"}, rows},
      {{"predict", model, "--text", "To be"}, rows},
      {{"predict", model, "--text", "To be", "--query", "all"}, rows},
      {{"predict", model, "--text", "To be", "--of", "layers.1.output"}, rows},
      {{"effects", model, "--text", "To be"}, with(rows, {"png", "svg", "pdf"})},
      {{"circuits", model}, with(rows, {"png", "svg", "pdf"})},
      {{"dump", layer, "-s", "weights"}, {"npz", "npy", "safetensors", "json"}},
      {{"convert", layer}, {"npz", "safetensors", "json"}},
      {{"report", layer}, {"html"}}};
  return list;
}

struct Extension {
  std::string text, format;
};
const std::vector<Extension> extensions{{".txt", "table"},    {".txt", "text"},
                                        {".csv", "csv"},      {".tsv", "tsv"},
                                        {".json", "json"},    {".ndjson", "ndjson"},
                                        {".jsonl", "ndjson"}, {".md", "markdown"},
                                        {".png", "png"},      {".svg", "svg"},
                                        {".pdf", "pdf"},      {".npz", "npz"},
                                        {".html", "html"},    {".safetensors", "safetensors"}};

bool are_meant(const Words& formats, const std::string& extension) {
  return std::ranges::any_of(extensions, [&](const Extension& one) {
    return one.text == extension && std::ranges::find(formats, one.format) != formats.end();
  });
}

/// Whether what a file holds begins as its format does.
bool is_of(const std::string& text, const std::string& extension) {
  const std::string line = text.substr(0, text.find('\n'));
  if (extension == ".csv") return line.find(',') != std::string::npos;
  if (extension == ".tsv") return line.find('\t') != std::string::npos;
  if (extension == ".json") return json::accept(text);
  if (extension == ".ndjson" || extension == ".jsonl") return json::accept(line);
  if (extension == ".png") return text.starts_with("\x89PNG");
  if (extension == ".svg") return text.starts_with("<svg") || text.starts_with("<?xml");
  if (extension == ".pdf") return text.starts_with("%PDF");
  if (extension == ".npz") return text.starts_with("PK");
  if (extension == ".html") return text.find("<html") != std::string::npos;
  return !json::accept(text);
}

} // namespace

TEST_CASE("extensions: a file holds what its name says, or there is an error and no file") {
  for (const Command& command : commands())
    for (const auto& [extension, format] : extensions) {
      const Folder folder;
      const std::string path = folder.path("a" + extension);
      Words words = command.words;
      words.insert(words.end(), {"-o", path, "-q"});
      const Result result = run(words);
      INFO(command.words[0] << " -o a" << extension << ": " << result.err);
      if (are_meant(command.formats, extension)) {
        CHECK(result.code == 0);
        REQUIRE(folder.has("a" + extension));
        CHECK(is_of(folder.read("a" + extension), extension));
        continue;
      }
      CHECK(result.code == 2);
      CHECK(folder.names().empty());
      if (are_meant(command.else_forms, extension)) continue;
      CHECK_THAT(result.err, Contains("a" + extension + ": " + command.words[0] + " writes ."));
      CHECK(folder.names().empty());
      if (extension == ".txt" || command.words[0] == "report") continue;
      words[words.size() - 3] = "-f", words[words.size() - 2] = format;
      CHECK(run(words).code == 2);
    }
}

TEST_CASE("extensions: a picture's name has no other format") {
  for (const auto& [line, found] : std::vector<std::pair<std::string, std::string>>{
           {"map data/quickstart.json -f svg -o a.png", "means png, but --format is svg"},
           {"map data/quickstart.json -f png -o a.pdf", "means pdf, but --format is png"},
           {"map data/quickstart.json -f text -o a.svg", "means svg, but --format is text"},
           {"show data/quickstart.json -s weights -f npy -o a.png",
            "means png, but --format is npy"},
           {"stats data/quickstart.json -f csv -o a.svg", "means svg, but --format is csv"},
           {"map data/quickstart.json -f png -o a.csv", ""},
           {"stats data/quickstart.json -f csv -o a.txt", ""},
           {"stats data/quickstart.json -f ndjson -o a.json", ""},
           {"map data/quickstart.json -f svg -o a.svg", ""},
           {"map data/quickstart.json -f png -o -", ""},
           {"map data/quickstart.json -f png -o /dev/null", ""}}) {
    const Folder folder;
    Words words;
    std::istringstream line_words(line);
    for (std::string word; line_words >> word;)
      words.push_back(word.starts_with("a.") ? folder.path(word) : word);
    const Result result = run(words);
    INFO(line << ": " << result.err);
    CHECK(result.code == (found.empty() ? 0 : 2));
    CHECK(folder.names().size() == (found.empty() && line.find("-o a.") != line.npos ? 1 : 0));
    CHECK_THAT(result.err, Contains(found));
  }
}

TEST_CASE("extensions: one that means nothing names those that the command writes") {
  for (const Command& command : commands()) {
    const std::string& name = command.words[0];
    if (name == "report" || name == "dump" || name == "convert") continue; // a name, or a folder's
    const Folder folder;
    Words words = command.words;
    words.insert(words.end(), {"-o", folder.path("a.xyz")});
    const Result result = run(words);
    INFO(name << ": " << result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains("a.xyz: unknown extension (expected "));
    for (const auto& [extension, format] : extensions) {
      const bool there = result.err.find(extension + ",") != std::string::npos ||
                         result.err.find(extension + ")") != std::string::npos;
      CHECK(there ==
            (are_meant(command.formats, extension) || are_meant(command.else_forms, extension)));
    }
    CHECK(folder.names().empty());
    // A device has no name to go by, and --format needs none.
    words.back() = "/dev/null";
    CHECK(run(words).code == 0);
  }
}
