#include "support/picture.hpp"
#include "support/places.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <fstream>
#include <iterator>

using namespace mha::test;
using Catch::Contains;

namespace {

std::string golden(const std::string& name) {
  std::ifstream file(mha::test::source_folder() + "/tests/golden/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

const std::vector<std::string> induction{"map",
                                         "data/induction",
                                         "--layer",
                                         "1",
                                         "X=data/induction/hidden.npz:layers.1",
                                         "--tokens",
                                         "data/induction/tokens.json"};

std::vector<std::string> operator+(std::vector<std::string> words,
                                   const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Result narrow(const std::vector<std::string>& words, const std::string& columns,
              const std::map<std::string, std::string>& env = {}) {
  Setting setting;
  setting.env = env;
  setting.env["COLUMNS"] = columns;
  return run(words, setting);
}

/// On a terminal of 80 columns and 24 lines.
std::string on_terminal(const std::string& options, const std::string& env) {
  const Result result =
      shell("script -qec \"stty cols 80 rows 24; env -u NO_COLOR -u COLORTERM " + env +
            " $MHA map data/induction --layer 1 X=data/induction/hidden.npz:layers.1 --tokens "
            "data/induction/tokens.json " +
            options + "\" /dev/null < /dev/null");
  INFO(result.out << result.err);
  REQUIRE(result.code == 0);
  std::string text;
  for (char c : result.out)
    if (c != '\r') text += c;
  return text;
}

std::size_t lines_in(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

/// Saved maps, as other programs write them.
struct SavedMaps {
  Folder folder;
  SavedMaps() {
    const Result made =
        shell("cd " + folder.path() +
              " && /usr/bin/python3 -c 'import numpy as np; w = np.random.default_rng(1)"
              ".dirichlet(np.ones(7), (2, 3, 4, 5)).astype(np.float32); np.save(\"maps.npy\", w); "
              "np.save(\"one.npy\", w[0, 0]); np.savez(\"att.npz\", w[0], w[1])'");
    REQUIRE(made.code == 0);
  }
};

} // namespace

TEST_CASE("map: one head in a pipe, in shades with its tokens") {
  const Result result = narrow(induction + std::vector<std::string>{"--head", "0"}, "80");
  CHECK(result.err == "");
  CHECK(result.code == 0);
  CHECK(result.out == golden("map-head.txt"));
}

TEST_CASE("map: a terminal of 80 × 24 without colours shows a whole head") {
  const std::string text = on_terminal("--head 0", "NO_COLOR=1 TERM=xterm-256color");
  CHECK(text == golden("map-80x24.txt"));
  CHECK(lines_in(text) < 24);
  CHECK(on_terminal("--head 0", "TERM=dumb COLORTERM=truecolor") == text);
  CHECK(on_terminal("--head 0 --color never", "TERM=xterm COLORTERM=truecolor") == text);
}

TEST_CASE("map: colours as the terminal has them") {
  const std::string full = on_terminal("--head 0", "TERM=xterm COLORTERM=truecolor");
  CHECK_THAT(full, Contains("\x1b[38;2;253;231;37m") && Contains("▀"));
  CHECK(lines_in(full) < 24);
  const std::string palette = on_terminal("--head 0", "TERM=screen-256color");
  CHECK_THAT(palette, Contains("\x1b[38;5;") && !Contains("38;2;"));
  const std::string plain = on_terminal("--head 0", "TERM=vt100");
  CHECK_THAT(plain, !Contains("\x1b[38") && Contains("█"));
  const Result piped = narrow(induction + std::vector<std::string>{"--color", "always"}, "80",
                              {{"COLORTERM", "24bit"}});
  CHECK_THAT(piped.out, Contains("\x1b[48;2;"));
  CHECK_THAT(narrow(induction, "80", {{"COLORTERM", "24bit"}}).out, !Contains("\x1b"));
}

TEST_CASE("map: saved maps alone: B, H, T, S, with layers, and a file a layer") {
  SavedMaps maps;
  const std::string folder = maps.folder.path();
  const std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>> cases{
      {{"weights=" + folder + "/one.npy"}, {"head 0", "head 2", "head 3"}},
      {{"weights=" + folder + "/maps.npy", "--layer", "1", "--quiet"}, {"head 3"}},
      {{"weights=" + folder + "/maps.npy", "--layer", "all", "--batch", "0-1"},
       {"L0 B0 H0", "L1 B1 H3"}},
      {{"weights=" + folder + "/att.npz:arr_{layer}", "--layer", "all", "--head", "1-2", "--batch",
        "2"},
       {"layer 0 head 1", "layer 1 head 2"}},
      {{"weights=" + folder + "/one.npy", "--tokens", "a b c d e", "--key-tokens", "t u v w x y z"},
       {"a │", "e │", "t u v w x y z"}},
  };
  for (const auto& [words, expected] : cases) {
    const Result result = narrow(std::vector<std::string>{"map"} + words, "100");
    INFO(words[0] << "\n" << result.out << result.err);
    CHECK(result.code == 0);
    CHECK(result.err == "");
    for (const std::string& text : expected) CHECK_THAT(result.out, Contains(text));
    CHECK_THAT(result.out, !Contains("masked"));
  }
  const Result several = run({"map", "weights=" + folder + "/maps.npy"});
  CHECK(several.code == 2);
  CHECK_THAT(several.err, Contains("choose with --layer N"));
  const Result batches = run({"map", "weights=" + folder + "/maps.npy", "--layer", "0"});
  CHECK(batches.code == 0);
  CHECK_THAT(batches.err, Contains("note: only batch item 0 of 3 is drawn"));
}

TEST_CASE("map: a file a head, a layer or a batch item") {
  Folder folder;
  const Result heads =
      run(induction + std::vector<std::string>{"--head", "1-2", "-o", folder.path("h{head}.png")});
  CHECK(heads.err == "");
  CHECK(folder.names() == std::vector<std::string>{"h1.png", "h2.png"});
  CHECK(decode_png(folder.read("h2.png")).width > 300);
  const Result layers =
      run({"map", "data/induction", "--layer", "all", "X=data/induction/hidden.npz:layers.{layer}",
           "-o", folder.path("l{layer}.svg")});
  CHECK(layers.code == 0);
  CHECK(xml_fault(folder.read("l1.svg")) == "");
  CHECK_THAT(folder.read("l0.svg"),
             Contains("data/induction layer 0") && Contains(">head 3</text>"));
  const Result text = run(induction + std::vector<std::string>{"-o", folder.path("maps.txt")});
  CHECK(text.code == 0);
  CHECK_THAT(folder.read("maps.txt"), Contains("head 3"));
}

TEST_CASE("map: characters that a font lacks, and those of XML, come through") {
  Folder folder;
  for (const char* form : {"png", "svg"}) {
    const std::string path = folder.path(std::string("t.") + form);
    const Result result = run({"map", "data/quickstart.json", "--tokens", "<&> 猫 \"", "-o", path});
    INFO(result.err);
    CHECK(result.code == 0);
  }
  CHECK(xml_fault(folder.read("t.svg")) == "");
  CHECK_THAT(folder.read("t.svg"), Contains("猫") && Contains("&lt;&amp;&gt;"));
  CHECK(decode_png(folder.read("t.png")).width > 300);
}

TEST_CASE("map: labels that the font lacks characters of are positions, and a note says so") {
  Folder folder;
  const std::string tokens = folder.write("tokens.json", R"(["猫が好き", "cat🙂", "sat"])"),
                    as_numbers = folder.write("numbers.json", R"(["#0", "#1", "sat"])");
  const auto draw = [&](const std::string& name, const std::string& labels,
                        std::vector<std::string> more = {}) {
    more.insert(more.end(),
                {"map", "data/quickstart.json", "--tokens", labels, "-o", folder.path(name)});
    std::rotate(more.begin(), more.end() - 6, more.end());
    const Result result = run(more);
    CHECK(result.code == 0);
    return result.err;
  };
  const std::string lacks =
      "lacks characters of 2 labels, numbered by position: #3; an SVG";
  CHECK_THAT(draw("a.png", tokens), Contains(lacks));
  CHECK_THAT(draw("a.png", as_numbers), !Contains("lacks"));
  draw("b.png", tokens), draw("c.png", as_numbers);
  CHECK(folder.read("b.png") == folder.read("c.png"));
  CHECK_THAT(draw("a.pdf", tokens), Contains("lacks characters of 2 labels") && Contains("PDF"));
  CHECK_THAT(shell("pdftotext " + folder.path("a.pdf") + " -").out,
             Contains("#0") && Contains("#1") && Contains("sat"));
  CHECK_THAT(draw("a.svg", tokens), !Contains("lacks"));
  CHECK_THAT(folder.read("a.svg"), Contains("猫が好き") && !Contains("#0"));
  CHECK_THAT(draw("a.txt", tokens), !Contains("lacks"));
  CHECK_THAT(draw("a.png", as_numbers, {"--title", "猫"}),
             Contains("lacks characters of the title"));
  CHECK_THAT(draw("a.png", tokens, {"--query", "1-2", "--key", "1-2"}),
             Contains("lacks characters of 1 label, numbered by position: "));
  CHECK(draw("a.png", tokens, {"--quiet"}).empty());
}

TEST_CASE("map: labels read as text in every picture, and stay as they are in JSON and CSV") {
  Folder folder;
  const std::string tokens = folder.write("tokens.json", R"(["Ġcat", "##ing", "שלום"])");
  const std::vector<std::string> layer{"data/quickstart.json", "--tokens", tokens};
  const auto out_of = [&](std::vector<std::string> words) { return run(words + layer).out; };
  for (const std::string& text : {out_of({"map"}), out_of({"show", "-s", "weights", "-f", "table"}),
                                  out_of({"explain", "--head", "0", "--query", "2"}),
                                  out_of({"map", "-f", "svg", "-o", "-"})}) {
    INFO(text);
    CHECK_THAT(text, Contains("cat") && Contains("ing") && Contains("שלום"));
    CHECK_THAT(text, !Contains("Ġ") && !Contains("##"));
  }
  CHECK_THAT(out_of({"show", "-s", "weights", "-f", "csv"}), Contains("Ġcat") && Contains("##ing"));
  CHECK_THAT(out_of({"explain", "--query", "2", "-f", "json"}),
             Contains("Ġcat") && Contains("##ing"));
}

TEST_CASE("map: long maps are pooled, and say so") {
  const std::vector<std::string> head{"--head", "0"};
  const std::vector<std::string> few{"--cells", "11"};
  const Result pooled = narrow(induction + head + few, "80");
  CHECK_THAT(pooled.out, Contains("each cell: the largest of 3 queries × 3 keys"));
  const Result mean =
      narrow(induction + head + few + std::vector<std::string>{"--pool", "mean"}, "80");
  CHECK_THAT(mean.out, Contains("each cell: the mean of 3 queries × 3 keys"));
  CHECK(mean.out != pooled.out);
  CHECK_THAT(narrow(induction + head + few + std::vector<std::string>{"-s", "scores"}, "80").out,
             Contains("each cell: the mean of 3 queries × 3 keys"));
}

TEST_CASE("map: says what is wrong, and how to cure it") {
  Folder folder;
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"-s", "q"}, "q is not a map of queries × keys: choose scores"},
      {{"-s", "row_sum"}, "row_sum is not a map"},
      {{"-s", "scores,weights"}, "map draws one stage"},
      {{"-o", folder.path("a.jpg")}, "unknown extension (expected .txt, .png, .svg, .pdf, .npy)"},
      {{"--vmin", "1", "--vmax", "1"}, "--vmin 1 is not below --vmax 1"},
      {{"-s", "scores", "--color-scale", "log"}, "scores has negative numbers"},
      {{"--color-scale", "log", "--colormap", "diverging"}, "choose viridis, magma or greys"},
      {{"--color-scale", "log", "--vmin", "0"}, "--vmin is 0: a number above 0 expected"},
      {{"--colormap", "jet"}, "viridis"},
      {{"--cells", "0"}, "--cells is 0"},
      {{"--annotate"},
       "--annotate applies to pictures: write to FILE.png, FILE.svg or FILE.pdf; `show`"},
      {{"--zoom", "2"}, "--zoom applies to pictures"},
      {{"--width", "300", "-o", folder.path("a.txt")}, "--width applies to pictures"},
      {{"--zoom", "0", "-o", folder.path("a.png")}, "--zoom is 0: more than 0 expected"},
      {{"--width", "0", "-o", folder.path("a.png")}, "--width is 0: at least 1 expected"},
      {{"--width", "60", "-o", folder.path("a.png")}, "--width 60"},
      {{"--title", "a", "--no-title"}, "--title and --no-title"},
      {{"--head", "9"}, "--head 9: there are 4 heads (0 to 3)"},
      {{"-o", folder.path("none/h.png")}, "there is no folder"},
  };
  for (const auto& [options, message] : cases) {
    const Result result = run(induction + options);
    INFO(message << "\n" << result.err);
    CHECK(result.code == 2);
    CHECK(result.out.empty());
    CHECK(one_line(result.err));
    CHECK_THAT(result.err, Contains(message));
  }
  CHECK(folder.names().empty());
}

TEST_CASE("map: the pictures of docs/maps.md are what its commands draw") {
  const std::string root = mha::test::source_folder();
  Folder folder;
  std::filesystem::create_directory_symlink(root + "/data", folder.path("data"));
  std::ifstream page(root + "/docs/maps.md");
  std::size_t drawn = 0;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("$ mha-inspect map")) continue;
    const std::size_t at = line.find(" -o ");
    const std::string name = at == std::string::npos ? "" : line.substr(at + 4);
    std::ifstream kept(root + "/docs/pictures/" + name);
    if (name.empty() || !kept) continue;
    REQUIRE(shell("\"$MHA\"" + line.substr(line.find(" map")), {.folder = folder.path()}).code ==
            0);
    const std::string want{std::istreambuf_iterator<char>(kept), {}}, got = folder.read(name);
    INFO(name);
    ++drawn;
    CHECK(want.size() < 150'000);
    if (name.ends_with(".svg")) {
      const auto texts = [](const std::string& svg) { return svg.substr(svg.find("<text")); };
      CHECK(texts(got) == texts(want));
      continue;
    }
    const Pixels a = decode_png(got), b = decode_png(want);
    REQUIRE(a.width == b.width);
    REQUIRE(a.rgba.size() == b.rgba.size());
    int most = 0; // the last bit of a weight may depend on the machine
    for (std::size_t i = 0; i < a.rgba.size(); ++i)
      most = std::max(most, std::abs(a.rgba[i] - b.rgba[i]));
    CHECK(most <= 3);
  }
  CHECK(drawn == 2);
}
