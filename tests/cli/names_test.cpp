// Paths and labels as people, and enemies, have them.

#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

using namespace mha::test;
using Catch::Contains;

TEST_CASE("names: paths with spaces, other scripts, quotes and a leading dash") {
  const Folder folder;
  const Result plain =
      run({"show", folder.write("layer.json", small_layer_json()), "-s", "output", "-f", "csv"});
  for (const std::string name :
       {"a layer.json", "слой.json", "层.json", "it's \"one\".json", "-s.json", "--help.json",
        "a\\b.json", "*.json", "100%.json", "tab\tin.json"}) {
    INFO(name);
    folder.write(name, small_layer_json());
    const Setting here{.folder = folder.path()};
    const Result shown = run({"show", "-s", "output", "-f", "csv", "--", name}, here);
    CHECK(shown.out == plain.out);
    CHECK(run({"show", "./" + name, "-s", "output", "-f", "csv"}, here).out == plain.out);
    CHECK(run({"show", "X=" + name, "layer.json", "-s", "output", "-f", "csv"}, here).out ==
          plain.out);
    // Written under such a name, too, and reported in one line where it cannot be read.
    CHECK(run({"dump", "layer.json", "-s", "q", "--output=./" + name + ".npz"}, here).code == 0);
    CHECK(folder.has(name + ".npz"));
    CHECK(run({"info", "./" + name + ".npz"}, here).code == 0);
    folder.write(name, "{");
    const Result broken = run({"show", "./" + name}, here);
    CHECK(broken.code == 2);
    CHECK(one_line(broken.err));
    CHECK(broken.err.find('\t') == std::string::npos);
  }
}

TEST_CASE("names: labels of tokens reach no terminal unescaped, in any command") {
  const Folder folder;
  std::string layer = small_layer_json();
  const std::string tokens = R"(["the", "cat", "sat"])";
  // A tab, quotes, a clear-screen, a C1 escape, a newline, an override of direction; an emoji of
  // several code points and right-to-left words, which stay what they are.
  layer.replace(layer.find(tokens), tokens.size(),
                R"(["a\tb\"c'", "\u001b[2J\u009b1m\n\u202e\u0000x", "👩‍🚀 שלום"])");
  folder.write("layer.json", layer);
  std::filesystem::create_directory(folder.path("data"));
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"info"},
                                             {"stages"},
                                             {"show"},
                                             {"show", "-s", "weights"},
                                             {"show", "-s", "weights", "--color", "always"},
                                             {"explain", "--query", "1", "--head", "0"},
                                             {"explain", "--query", "2"},
                                             {"bench", "--repeat", "1"}}) {
    std::vector<std::string> arguments = words;
    arguments.insert(arguments.begin() + 1, "layer.json");
    const Result result = run(arguments, {.folder = folder.path()});
    INFO(words[0] << ": " << result.err);
    CHECK(result.code == 0);
    for (const std::string text : {"\x1b[2J", "\xc2\x9b", "\xe2\x80\xae", "\t"})
      CHECK((result.out + result.err).find(text) == std::string::npos);
    CHECK((result.out + result.err).find('\0') == std::string::npos);
  }
  const Result table =
      run({"show", "layer.json", "-s", "weights", "--query", "1"}, {.folder = folder.path()});
  CHECK_THAT(table.out,
             Contains("👩‍🚀 ש") && Contains("a⇥b\"c'") && Contains("\\u001b[2J\\u009b1"));
  // Where a terminal may be, as CSV, they are escaped; files give them back.
  CHECK(shell("\"$MHA\" show layer.json -s weights -f csv | /usr/bin/python3 -c \"import csv, sys; "
              "print(sorted({row['col_token'] for row in csv.DictReader(sys.stdin)}))\"",
              {.folder = folder.path()})
            .out ==
        "['\\\\u001b[2J\\\\u009b1m\\n\\\\u202e\\\\u0000x', 'a\\tb\"c\\'', '👩\\u200d🚀 שלום']\n");
  REQUIRE(run({"convert", "layer.json", "-o", "layer.npz"}, {.folder = folder.path()}).code == 0);
  CHECK(run({"show", "layer.npz", "-s", "weights", "-f", "csv"}, {.folder = folder.path()}).out ==
        run({"show", "layer.json", "-s", "weights", "-f", "csv"}, {.folder = folder.path()}).out);
}

TEST_CASE("names: tensors in files reach no terminal unescaped") {
  const Folder folder;
  folder.write("layer.json", R"({"\u001b[31mX\n": [[1, 2]], "X": [[1, 2]], "num_heads": 1})");
  for (const std::string command : {"info", "show"}) {
    const Result result = run({command, "layer.json"}, {.folder = folder.path()});
    INFO(result.out << result.err);
    CHECK((result.out + result.err).find("\x1b[31m") == std::string::npos);
  }
}

TEST_CASE("names: layers that are listed reach no terminal unescaped") {
  const Folder folder;
  std::string text;
  for (const std::string layer : {"\\u202eevil", "\\u0085"})
    for (const char* letter : {"q", "k", "v", "o"})
      text += fmt::format(R"({}"{}.self_attn.{}_proj.weight": [[1, 0], [0, 1]])",
                          text.empty() ? "{" : ", ", layer, letter);
  folder.write("evil.json", text + "}");
  const Result result = run({"info", "evil.json"}, {.folder = folder.path()});
  INFO(result.out << result.err);
  CHECK_THAT(result.out, Contains("\\u202eevil"));
  for (const std::string raw : {"\u202e", "\u0085"})
    CHECK((result.out + result.err).find(raw) == std::string::npos);
}

TEST_CASE("names: W_Q as papers write it is no checkpoint of TransformerLens, and not causal") {
  const std::string matrix = "[[1, 0, 0, 1], [0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1]]";
  const std::string same = R"(, "X": [[1, 0, 1, 0], [0, 1, 0, 1]], "num_heads": 2})";
  const auto layer = [&](const std::string& form) {
    std::string text;
    for (char letter : std::string("QKVO"))
      text += fmt::format(R"({} "{}": {})", text.empty() ? "{" : ",",
                          fmt::format(fmt::runtime(form), letter), matrix);
    return run({"show", "-", "-s", "weights", "-f", "csv"}, {.input = text + same});
  };
  const Result papers = layer("W_{}"), ours = layer("W{}");
  INFO(papers.out << papers.err);
  CHECK(papers.code == 0);
  CHECK(papers.out == ours.out);
  CHECK_THAT(run({"info", "-"}, {.input = "{" + ("\"W_Q\": " + matrix) + same}).out,
             !Contains("TransformerLens"));
}
