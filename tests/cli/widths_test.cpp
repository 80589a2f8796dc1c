// What is for eyes fits its window: every command in windows of 80, 60 and 40 columns.

#include "support/run.hpp"
#include <mha/render/text.hpp>

#include <catch2/catch.hpp>

#include <set>
#include <sstream>

using namespace mha::test;

namespace {

constexpr const char* layer_of_induction =
    "data/induction --layer 1 X=data/induction/hidden.npz:layers.1 "
    "--tokens data/induction/tokens.json";
constexpr const char* layers_of_induction =
    "data/induction --layer all 'X=data/induction/hidden.npz:layers.{layer}' "
    "--tokens data/induction/tokens.json";
constexpr const char* shakespeare =
    "data/shakespeare --layer 0 X=data/shakespeare/hidden.npz:layers.0";
constexpr const char* romeo =
    "data/bard-gpt2 --text 'O Romeo, Romeo! wherefore art thou Romeo?' --layer all";

struct Line {
  std::string command, rest;
};

/// Each command as it is mostly used, with its widest tables and longest sentences, and its errors.
std::vector<Line> lines() {
  const std::string induction = layer_of_induction, play = shakespeare, text = romeo;
  const std::string two = "data/bard-gpt2 --text 'my love, my lord' --text 'the king is dead'";
  const std::string port = " --against data/port/stages.safetensors";
  return {
      {"info", "data/quickstart.json"},
      {"info", "data/bard-gpt2"},
      {"info", "data/bard-bert"},
      {"info", "data/bard-llama --layer 1"},
      {"info", "data/bard-llama --text 'to be' --layer 0"},
      {"info", "data/wheel"},
      {"info", "data/onnx"},
      {"info", "data/port"},
      {"info", induction},
      {"stages", ""},
      {"stages", "data/bard-llama --layer 0 --text 'to be or not'"},
      {"names", ""},
      {"show", "data/quickstart.json"},
      {"show", "data/bard-llama --layer all --text 'My kingdom for a horse'"},
      {"show", play + " -s weights,row_max,output --query 3"},
      {"show", "data/quickstart.json -s weights --precision 17"},
      {"show", "data/quickstart.json -s banana"},
      {"show", "data/quickstart.json --num-heads 3"},
      {"map", induction},
      {"map", text},
      {"map", text + " --head 0 -s scores"},
      {"map", text + " --minus data/bard-gpt2 --minus-layer 1"},
      {"map", text + " --annotate"},
      {"explain", "data/quickstart.json"},
      {"explain", "data/quickstart.json --query 1 --head 0"},
      {"explain", "data/quickstart.json --precision 12"},
      {"explain", "data/quickstart.json --precision 15 --head 0"},
      {"explain", "data/bard-gpt2 --text 'my love, my lord' --layer 1 --precision 10 --head 2"},
      {"explain", "data/quickstart.json --tokens 'supercalifragilistic antidisestablishment x'"},
      {"explain", "data/quickstart.json --head 0 --alibi true --softcap 3 --tokens "
                  "'supercalifragilistic antidisestablishment x'"},
      {"explain", "data/bard-gpt2 --text 'my love, my lord' --layer all"},
      {"explain", induction + " --query 17 --head 0"},
      {"explain", "data/bard-llama --text 'My kingdom for a horse' --layer 1 --query 4"},
      {"stats", layers_of_induction},
      {"stats", text},
      {"stats", text + " --measures all"},
      {"stats", text + " --by token"},
      {"stats", two + " --spread --layer all"},
      {"stats", two + " --by text --layer all --measures previous,first,entropy_share"},
      {"stats", two + " --by position --layer 1"},
      {"stats", text + " --head 1 --grid entropy_share"},
      {"stats", "data/bard-gpt2 --text 'O Romeo' --text 'my love' --layer all"},
      {"stats", "data/bard-gpt2 --text 'O Romeo' --layer 1 --head 0 --top-texts 2"},
      {"stats", "data/bard-gpt2 --text 'O Romeo' --measures banana"},
      {"report", "data/bard-llama -o -"},
      {"dump", "data/quickstart.json"},
      {"convert", "data/quickstart.json -o x.banana"},
      {"diff", play + " --dtype f64" + port},
      {"diff", "data/bard-llama data/bard-gpt2 --weights"},
      {"diff", "data/bard-llama data/bard-llama --weights"},
      {"diff", "data/bard-llama --text 'to be' --layer all --against data/bard-llama/expected"},
      {"diagnose", play + port},
      {"diagnose", play + " --against output=data/port/stages.safetensors:attn.out"},
      {"bench", "data/quickstart.json --repeat 1"},
      {"bench", "data/bard-llama --text 'to be or not' --repeat 1"},
      {"predict", "data/bard-llama --text 'To be, or not to'"},
      {"predict",
       "data/bard-llama --text 'To be, or not to' --text 'my love' --query all --each-layer"},
      {"predict", "data/bard-gpt2 --text 'my love' --of layers.3.head_result[0]"},
      {"predict", "data/quickstart.json"},
      {"effects", "data/bard-gpt2 --text 'What news from'"},
      {"effects", "data/bard-gpt2 --text 'What news from' --text 'my lord is' --spread"},
      {"effects", "data/bard-gpt2 --text 'What news from' --per-position"},
      {"effects", two + " --spread --per-position"},
      {"predict", two + " --each-layer --query all"},
      {"effects", "data/bard-gpt2 --text 'What news from' --grid logit_change"},
      {"effects", "data/bard-gpt2 --text 'What news from' --patch-from 'What says my' --sweep "
                  "resid_pre --over layer,query"},
      {"effects", "data/bard-gpt2 --text 'What news from' --grid banana"},
      {"circuits", "data/bard-gpt2"},
      {"circuits", "data/bard-gpt2 --composition k"},
      {"circuits", "data/bard-gpt2 --grid copying"},
      {"circuits", "data/bard-gpt2 --grid banana"},
      {"tokens", "data/bard-gpt2 --text '東京タワー 🗼 שלום O Romeo, wherefore art thou'"},
      {"completion", "banana"},
  };
}

/// Words between spaces.
std::vector<std::string> words_of(const std::string& line) {
  std::istringstream from(line);
  std::vector<std::string> words;
  for (std::string word; from >> word;) words.push_back(word);
  return words;
}

} // namespace

TEST_CASE("widths: no line is wider than its window, unless it is a single word") {
  const std::string columns = GENERATE("80", "60", "40");
  for (const auto& [command, rest] : lines()) {
    const Result result = shell("COLUMNS=" + columns + " \"$MHA\" " + command + " " + rest);
    INFO(columns << ": " << command << " " << rest);
    CHECK(result.code >= 0);
    CHECK(result.code <= 2);
    CHECK_FALSE((result.out + result.err).empty());
    for (const std::string* text : {&result.out, &result.err}) {
      std::istringstream from(*text);
      for (std::string line; std::getline(from, line);) {
        INFO(line);
        // A single word of a command to copy goes on after its backslash.
        if (const auto words = words_of(line);
            words.size() > 1 && !(words.size() == 2 && words[1] == "\\"))
          CHECK(mha::render::display_width(line) <= std::stoul(columns));
      }
    }
  }
}

TEST_CASE("widths: every command has a line in the table") {
  std::set<std::string> named;
  for (const auto& [command, rest] : lines()) named.insert(command);
  const std::string script = run({"completion", "bash"}).out, before = "local commands='";
  const std::size_t at = script.find(before) + before.size();
  const std::vector<std::string> names = words_of(script.substr(at, script.find('\'', at) - at));
  CHECK(names.size() > 15);
  for (const std::string& name : names) {
    INFO(name);
    CHECK(named.contains(name));
  }
}

TEST_CASE("widths: a message is one line where nothing says how wide lines are") {
  const std::string line = "\"$MHA\" show data/quickstart.json --num-heads 3";
  CHECK(one_line(shell(line).err));
  const std::string whole = shell(line).err, narrow = shell("COLUMNS=60 " + line).err;
  CHECK_FALSE(one_line(narrow));
  CHECK(words_of(narrow) == words_of(whole));
}

TEST_CASE("widths: a command to copy goes on behind a backslash, and runs") {
  const std::string line = std::string("\"$MHA\" diff ") + shakespeare +
                           " --dtype f64 --against data/port/stages.safetensors";
  const std::string text = shell("COLUMNS=60 " + line).out;
  const std::string title = "Look at it: mha-inspect ";
  const std::size_t at = text.find(title);
  REQUIRE(at != std::string::npos);
  const std::string command =
      text.substr(at + title.size(), text.find("\nFind why") - at - title.size());
  CHECK(command.find("\\\n") != std::string::npos);
  const Result shown = shell("\"$MHA\" " + command);
  INFO(command);
  CHECK(shown.code == 0);
  CHECK(shown.out.find("query 8") != std::string::npos);
}
