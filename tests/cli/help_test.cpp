// What the help promises works: every example of every command, as it is printed.

#include "support/places.hpp"
#include "support/run.hpp"

#include <mha/render/text.hpp>
#include <mha/system/message.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>

using namespace mha::test;

namespace {

/// The lines under "Examples" that are commands, in their order.
std::vector<std::string> examples_of(const std::string& help) {
  std::vector<std::string> lines;
  std::istringstream text(help.substr(std::min(help.find("\nExamples\n"), help.size())));
  for (std::string line, more; std::getline(text, line);) {
    if (!line.starts_with("  mha-inspect ")) continue;
    while (line.ends_with("\\") && std::getline(text, more)) // as the shell reads it
      line.pop_back(), line += more;
    lines.push_back(line.substr(2));
  }
  return lines;
}

/// The commands that the program lists.
std::vector<std::string> commands() {
  std::vector<std::string> names;
  std::istringstream text(run({"--help"}).out);
  std::string line;
  while (std::getline(text, line) && line != "Commands") {
  }
  while (std::getline(text, line) && line.starts_with("  ")) {
    const std::string name = line.substr(2, line.find(' ', 2) - 2);
    if (!name.empty()) names.push_back(name); // a summary may run on, further in
  }
  return names;
}

/// Runs lines of help where a reader would: beside data/, with the program in PATH.
void try_examples(const std::string& help) {
  const std::vector<std::string> lines = examples_of(help);
  CHECK_FALSE(lines.empty());
  Folder folder;
  std::filesystem::create_directory_symlink(mha::test::source_folder() + "/data",
                                            folder.path("data"));
  for (const std::string& line : lines) {
    const Result result =
        shell("PATH=\"$(dirname \"$MHA\"):$PATH\"; " + line, {.folder = folder.path()});
    INFO("$ " << line << "\n" << result.err);
    // A comparison that finds a difference is an example that works.
    const bool differs = line.starts_with("mha-inspect diff ") && result.code == 1;
    CHECK((result.code == 0 || differs));
    CHECK(result.err.empty());
  }
}

/// The literals of a call that begins at `at`.
std::string literals_of_call(const std::string& code, std::size_t at) {
  std::string literals;
  bool inside = false;
  for (; at < code.size() && (inside || code[at] != ';'); ++at) {
    if (code[at] == '"') inside = !inside;
    if (inside && code[at] == '\\') ++at;
    if (inside && at < code.size() && code[at] != '"') literals += code[at];
  }
  return literals;
}

/// The settings and arguments that messages of the library refer to: "num_heads", "causal false".
std::set<std::string> references_of_messages() {
  static const std::regex call(R"(\b(?:fail|message)\()"), reference("<([a-z_]+(?: false)?)>");
  std::set<std::string> names;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(mha::test::source_folder() + "/lib")) {
    if (entry.path().extension() != ".cpp" && entry.path().extension() != ".hpp") continue;
    std::ifstream file(entry.path());
    const std::string code{std::istreambuf_iterator<char>(file), {}};
    for (std::sregex_iterator it(code.begin(), code.end(), call), end; it != end; ++it) {
      const std::string text =
          literals_of_call(code, static_cast<std::size_t>(it->position() + it->length()));
      for (std::sregex_iterator at(text.begin(), text.end(), reference); at != end; ++at)
        names.insert((*at)[1]);
    }
  }
  return names;
}

} // namespace

TEST_CASE("help: every example of every command works as it is printed") {
  const std::vector<std::string> names = commands();
  CHECK(names.size() >= 6);
  for (const std::string& name : names) {
    INFO(name);
    const Result help = run({name, "--help"});
    REQUIRE(help.code == 0);
    try_examples(help.out);
  }
}

TEST_CASE("help: the first lines to try work as they are printed") {
  try_examples(run({"--help"}).out);
}

TEST_CASE("help fits windows of 80 and 60 columns, without broken words") {
  const std::string columns_of = GENERATE("80", "60");
  const std::size_t columns = std::stoul(columns_of);
  Setting setting;
  setting.env["COLUMNS"] = columns_of;
  std::vector<std::vector<std::string>> pages{{"--help"}};
  for (const std::string& name : commands()) {
    pages.push_back({name, "--help"});
  }
  const auto words = [](const std::string& text) {
    std::vector<std::string> list;
    std::istringstream from(text);
    for (std::string word; from >> word;)
      if (word != "\\" && word != "#") list.push_back(word);
    return list;
  };
  setting.env["COLUMNS"] = "500";
  std::map<std::vector<std::string>, std::vector<std::string>> whole;
  for (const auto& page : pages) whole[page] = words(run(page, setting).out);
  setting.env["COLUMNS"] = columns_of;
  for (const auto& page : pages) {
    const std::string text = run(page, setting).out;
    INFO(page[0] << " in " << columns);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      INFO(line);
      // Only a single word may be longer: a path of an example, a pair of quotes.
      const bool one = words(line).size() <= 1 || line.starts_with("      ");
      if (!one || line.find(' ', line.find_first_not_of(' ')) != std::string::npos)
        CHECK(mha::render::display_width(line) <= columns);
    }
    // What is broken is put together again: the same words in any window, but lists of choices.
    const auto joined = [](const std::vector<std::string>& list) {
      std::string all;
      for (const std::string& word : list) all += word;
      return all;
    };
    CHECK(joined(words(text)) == joined(whole[page]));
  }
}

TEST_CASE("help is every option, -h a page of 60 lines") {
  Setting narrow;
  narrow.env["COLUMNS"] = "80";
  for (const std::string& name : commands()) {
    const std::string whole = run({name, "--help"}, narrow).out,
                      page = run({name, "-h"}, narrow).out;
    INFO(name << "\n" << page);
    CHECK(run({name, "--help", "all"}, narrow).out == whole);
    CHECK(run({"help", name}, narrow).out == whole);
    CHECK(run({"help", name, "all"}, narrow).out == whole);
    CHECK(std::count(page.begin(), page.end(), '\n') <= 60);
    CHECK(page.find("\nExamples\n") < page.find("\nGeneral\n"));
    CHECK(page.find("`mha-inspect " + name + " --help` describes every option in full") !=
          std::string::npos);
    std::istringstream lines(page);
    for (std::string line; std::getline(lines, line);)
      CHECK(mha::render::display_width(line) <= 80);
  }
  for (const std::string& name : {std::string("show"), std::string("map"), std::string("stats")}) {
    CHECK(run({name, "--help"}).out.find("--rope-base") != std::string::npos);
    CHECK(run({name, "-h"}).out.find("--rope-base") == std::string::npos);
    CHECK(run({name, "-h"}).out.find("`mha-inspect names` lists them") != std::string::npos);
  }
}

TEST_CASE("help: -h has a family of options as one, --help each of them") {
  const std::string page = run({"map", "-h"}).out, whole = run({"map", "--help"}).out;
  CHECK(page.find("--minus-{layer,head,batch,text,ids,patch}") != std::string::npos);
  CHECK(page.find("--minus-layer") == page.rfind("--minus-layer")); // in an example
  for (const char* option : {"--minus-layer LAYER", "--minus-head ", "--minus-batch ",
                             "--minus-text WORDS", "--minus-ids N", "--minus-patch PLACE"})
    CHECK(whole.find(std::string("      ") + option) != std::string::npos);
  CHECK(whole.find("--minus-{") == std::string::npos);
  // Two beside the option that they are variants of.
  const std::string effects = run({"effects", "-h"}).out;
  for (const char* family : {"--answer-{id,file}", "--versus-{id,file}", "--patch-from-{ids,file}"})
    CHECK(effects.find(family) != std::string::npos);
}

TEST_CASE("former spellings of options are taken, with a note") {
  const std::vector<std::pair<std::string, std::string>> spellings{
      {"predict data/bard-gpt2 --text 'To be' --all",
       "predict data/bard-gpt2 --text 'To be' --query all"},
      {"predict data/bard-gpt2 --text 'To be' --all --query 1",
       "predict data/bard-gpt2 --text 'To be' --query all,1"},
      {"predict data/bard-gpt2 --text 'To be' --query 1 --all",
       "predict data/bard-gpt2 --text 'To be' --query all,1"},
      {"stats data/quickstart.json --all", "stats data/quickstart.json --measures all"},
      {"stats data/quickstart.json --all=true", "stats data/quickstart.json --measures all"},
      {"stats data/quickstart.json --window=2 -f json",
       "stats data/quickstart.json --near 2 -f json"},
      {"effects data/bard-gpt2 --text 'To be' --set 'layers.0.mlp_out'",
       "effects data/bard-gpt2 --text 'To be' --together 'layers.0.mlp_out'"},
      {"circuits data/bard-llama --offset 1", "circuits data/bard-llama --distance 1"}};
  for (const auto& [then, now] : spellings) {
    INFO(then);
    const Result former = shell("\"$MHA\" " + then), plain = shell("\"$MHA\" " + now);
    REQUIRE(plain.code == 0);
    CHECK(plain.err.find("has been renamed") == std::string::npos);
    CHECK(former.code == 0);
    CHECK(former.out == plain.out);
    CHECK(former.err.find("the old spelling stops working in 0.4") != std::string::npos);
    CHECK(shell("\"$MHA\" " + then + " -q").err.find("has been renamed") == std::string::npos);
  }
}

TEST_CASE("settings may stand among the sources") {
  const std::string layer = "data/quickstart.json";
  CHECK(run({"show", layer, "causal=true", "-s", "weights"}).out ==
        run({"show", layer, "--causal", "-s", "weights"}).out);
  CHECK(run({"show", "num_heads=4", layer, "-s", "q"}).out ==
        run({"show", layer, "--num-heads", "4", "-s", "q"}).out);
  CHECK(run({"show", layer, "num-heads=4", "-s", "q"}).code == 0);
  CHECK(run({"show", layer, "causal=perhaps"}).err.find("true or false expected") !=
        std::string::npos);
  CHECK(run({"show", layer, "causal=true", "--no-causal"}).err.find("takes one value") !=
        std::string::npos);
  CHECK(run({"show", "causal=true"}).err.find("needs a SOURCE") != std::string::npos);
}

TEST_CASE("header lines fit their window, and hold what they hold in a wide one") {
  const std::vector<std::string> layer{
      "data/bard-llama", "--text", "My kingdom for a horse", "--layer", "0", "--rope-base", "5000"};
  for (const char* command : {"show", "stats", "info"}) {
    const auto header = [&](const char* columns) {
      Setting setting;
      setting.env["COLUMNS"] = columns;
      std::vector<std::string> line{command};
      line.insert(line.end(), layer.begin(), layer.end());
      const std::string text = run(line, setting).out;
      const std::size_t at = text.find("data/bard-llama layer 0");
      std::string found;
      std::istringstream lines(text.substr(std::min(at, text.size())));
      for (std::string one; std::getline(lines, one);) {
        if (!found.empty() && !one.starts_with("  · ")) break;
        CHECK(mha::render::display_width(one) <= std::stoul(columns));
        found += found.empty() ? one : one.substr(1);
      }
      return found;
    };
    INFO(command);
    CHECK(header("60") == header("400"));
    CHECK(header("60").find(" · causal") != std::string::npos);
    CHECK(header("60").find("data/bard-llama layer 0") == 0);
  }
}

TEST_CASE("what a message refers to is an option of a command") {
  std::string help;
  for (const std::string& name : commands()) help += run({name, "--help", "all"}).out;
  const std::set<std::string> references = references_of_messages();
  CHECK(references.size() > 40);
  for (const std::string& reference : references) {
    const std::string option = mha::setting_in_words(reference, mha::Wording::command_line);
    INFO(reference);
    CHECK(std::regex_search(help, std::regex(option + "\\b(?!-)")));
  }
}
