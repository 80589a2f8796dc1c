// Figures as their readers see them: PDF by poppler, whose reading shares nothing with our writing.

#include "support/picture.hpp"
#include "support/places.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>

#include <regex>

using namespace mha::test;
using Catch::Contains;

namespace {

std::vector<std::string> map_of(std::vector<std::string> more) {
  std::vector<std::string> words{"map", "data/quickstart.json", "--quiet"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// How many pixels of two pictures of one size are far apart, as a share of all.
double difference(const Pixels& a, const Pixels& b) {
  REQUIRE(a.width == b.width);
  REQUIRE(a.height == b.height);
  std::size_t far = 0;
  for (std::size_t y = 0; y < a.height; ++y)
    for (std::size_t x = 0; x < a.width; ++x) {
      const auto p = a.at(x, y), q = b.at(x, y);
      far +=
          std::abs(p.red - q.red) + std::abs(p.green - q.green) + std::abs(p.blue - q.blue) > 150;
    }
  return static_cast<double>(far) / static_cast<double>(a.width * a.height);
}

/// A PDF's only page in pixels of 1/96 inch, as poppler draws it.
Pixels drawn(const Folder& folder, const std::string& name) {
  const Result result = shell("cd " + folder.path() + " && pdftoppm -r 96 -png -singlefile " +
                              name + ".pdf page && cat page.png");
  INFO(result.err);
  REQUIRE(result.code == 0);
  CHECK(result.err.empty()); // a broken file is complained about
  return decode_png(result.out);
}

} // namespace

TEST_CASE("figure: a PDF shows what the PNG shows") {
  Folder folder;
  const std::string tokens = folder.write("tokens.json", R"(["Ġcafé", "naïve", "שלום"])");
  const std::string masked = folder.path("masked");
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases{
      {"plain", {"data/quickstart.json"}},
      {"annotated", {"data/quickstart.json", "--annotate", "--tokens", tokens, "--causal"}},
      {"scores", {"data/quickstart.json", "-s", "scores", "--no-title"}},
      {"own", {"data/quickstart.json", "--per-head-range", "--causal"}},
      {"wide", {"data/quickstart.json", "--width", "900"}},
      {"embedded",
       {"data/induction", "--layer", "all", "X=data/induction/hidden.npz:layers.{layer}", "--query",
        "0,0:33,0:33,0:33", "--key", "0:33,0:33,0:33"}},
  };
  for (const auto& [name, words] : cases) {
    INFO(name);
    for (const char* form : {".png", ".pdf"}) {
      std::vector<std::string> line{"map", "--quiet", "-o", folder.path(name + form)};
      line.insert(line.end(), words.begin(), words.end());
      const Result result = run(line);
      INFO(result.err);
      REQUIRE(result.code == 0);
    }
    // Letters and edges are smoothed by other rules.
    CHECK(difference(drawn(folder, name), decode_png(folder.read(name + ".png"))) < 0.02);
  }
}

TEST_CASE("figure: text of a PDF can be found, whatever its script") {
  Folder folder;
  const std::string tokens = folder.write("tokens.json", R"(["Ġcafé", "猫", "שלום"])");
  REQUIRE(run(map_of({"--tokens", tokens, "--annotate", "--title", "A title, é & 猫", "-o",
                      folder.path("t.pdf")}))
              .code == 0);
  const Result text = shell("pdftotext " + folder.path("t.pdf") + " -");
  CHECK_THAT(text.out, Contains("A title, é & 猫") && Contains("café") && Contains("שלום") &&
                           Contains("0.67") && Contains("head 1") && Contains("query"));
  const Result fonts = shell("pdffonts " + folder.path("t.pdf"));
  CHECK_THAT(fonts.out, Contains("DejaVuSans") && Contains("TrueType") && Contains("yes yes yes"));
  CHECK_THAT(shell("pdfinfo " + folder.path("t.pdf")).out, Contains("A title, é & 猫"));
  CHECK(folder.read("t.pdf").size() < 20'000); // the letters that it uses, not the font
}

TEST_CASE("figure: width, zoom and title, in every form") {
  Folder folder;
  const auto draw = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), {"-o", folder.path(name)});
    const Result result = run(map_of(more));
    INFO(result.err);
    REQUIRE(result.code == 0);
    return folder.read(name);
  };
  CHECK(decode_png(draw("a.png", {"--width", "640"})).width == 640);
  CHECK(decode_png(draw("a.png", {"--width", "640", "--zoom", "2.5"})).width == 1600);
  CHECK_THAT(draw("a.svg", {"--width", "640"}),
             Contains("<svg xmlns=\"http://www.w3.org/2000/svg\" "
                      "width=\"640\""));
  CHECK_THAT(draw("a.svg", {"--width", "640", "--zoom", "2"}), Contains("width=\"1280\""));
  draw("a.pdf", {"--width", "640"});
  CHECK_THAT(shell("pdfinfo " + folder.path("a.pdf")).out, Contains("480 x "));
  CHECK_THAT(draw("b.svg", {"--title", "Of cats"}),
             Contains(">Of cats</text>") && !Contains("quickstart"));
  CHECK_THAT(draw("c.svg", {"--no-title"}), !Contains("quickstart"));
  CHECK_THAT(draw("d.txt", {"--no-title"}), !Contains("quickstart"));
  CHECK_THAT(draw("e.txt", {"--title", "Of cats"}), Contains("Of cats\n"));
  // The layer's scale is no size: another picture, of the same size, and a note.
  const Result scaled =
      run({"map", "data/quickstart.json", "--scale", "2", "-o", folder.path("s.png")});
  CHECK_THAT(scaled.err, Contains("note: --scale multiplies the scores; use --zoom"));
  CHECK_THAT(run({"map", "data/quickstart.json", "--scale", "2"}).err, !Contains("--zoom"));
  // What is drawn does not change.
  const Pixels plain = decode_png(draw("p.png", {})),
               large = decode_png(draw("z.png", {"--zoom", "2"}));
  CHECK(large.width == 2 * plain.width);
  for (std::size_t y = 100; y < 300; y += 10)
    for (std::size_t x = 80; x < 300; x += 7) CHECK(plain.at(x, y) == large.at(2 * x, 2 * y));
}

TEST_CASE("figure: pictures of heads take the same options as maps") {
  Folder folder;
  const std::vector<std::vector<std::string>> figures{
      {"stats", "data/bard-gpt2", "--text", "my love, my lord", "--grid", "entropy"},
      {"effects", "data/induction-model", "--ids", "0,5,9,5", "--grid", "kl"},
      {"effects", "data/induction-model", "--ids", "0,5,9,5", "--patch-from-ids", "0,5,8,5",
       "--sweep", "output"},
      {"circuits", "data/induction-model", "--grid", "ov_rank"},
      {"circuits", "data/induction-model", "--composition", "k"},
      {"map", "data/bard-gpt2", "-s", "qk", "--vocab", "king,queen", "--layer", "0"},
      {"map", "data/bard-gpt2", "-s", "rollout", "--text", "my love", "--layer", "0"}};
  for (const std::vector<std::string>& words : figures) {
    const auto draw = [&](const std::string& name, std::vector<std::string> more) {
      std::vector<std::string> line = words;
      line.insert(line.end(), more.begin(), more.end());
      line.insert(line.end(), {"--quiet", "-o", folder.path(name)});
      const Result result = run(line);
      INFO(words[0] << " " << name << result.err);
      REQUIRE(result.code == 0);
      return folder.read(name);
    };
    INFO(words[0] << " " << words.back());
    CHECK(decode_png(draw("a.png", {"--width", "640"})).width == 640);
    CHECK(decode_png(draw("a.png", {"--width", "640", "--zoom", "2"})).width == 1280);
    CHECK_THAT(draw("a.svg", {"--width", "640"}), Contains("width=\"640\""));
    draw("a.pdf", {"--width", "640"});
    CHECK_THAT(shell("pdfinfo " + folder.path("a.pdf")).out, Contains("480 x "));
    CHECK_THAT(draw("b.svg", {"--title", "Of cats"}), Contains(">Of cats</text>"));
    CHECK_THAT(draw("b.svg", {"--no-title"}), !Contains("data/"));
    const auto texts = [](const std::string& svg) {
      std::size_t count = 0;
      for (std::size_t at = 0; (at = svg.find("<text", at)) != std::string::npos; ++at) ++count;
      return count;
    };
    CHECK(texts(draw("n.svg", {"--annotate"})) > texts(draw("p.svg", {})));
  }
  for (const char* option : {"--no-title", "--annotate"})
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"stats", "data/quickstart.json"},
          {"effects", "data/induction-model", "--ids", "0,5,9"},
          {"circuits", "data/induction-model"}}) {
      std::vector<std::string> line = words;
      line.emplace_back(option);
      const Result result = run(line);
      INFO(words[0] << option << result.err);
      CHECK(result.code == 2);
      CHECK_THAT(result.err, Contains(std::string(option) + " applies to pictures"));
    }
  CHECK_THAT(run({"stats", "data/quickstart.json", "--grid", "entropy", "--title", "Of cats"}).out,
             Contains("Of cats\n"));
}

TEST_CASE("figure: texts of unequal lengths stand in one picture without padding") {
  Folder folder;
  const std::vector<std::string> texts{"--text", "To be", "--text", "my love, my good lord"};
  const auto map = [&](std::vector<std::string> more) {
    std::vector<std::string> line{"map", "data/bard-gpt2", "--layer", "1", "--batch", ":", "-q"};
    line.insert(line.end(), texts.begin(), texts.end());
    line.insert(line.end(), more.begin(), more.end());
    const Result result = run(line);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return result.out;
  };
  const std::string both = map({"--head", "0"});
  INFO(both);
  // Each text's rows are labelled by its own tokens, and there are as many as it has.
  CHECK_THAT(both, Contains("␣be │") && Contains("␣lord │") && !Contains("  │· ·"));
  std::size_t rows = 0;
  for (std::size_t at = 0; (at = both.find(" │", at)) != std::string::npos; ++at) ++rows;
  CHECK(rows >= 2 + 6);
  // What is drawn of one of them is what it is alone.
  const std::string svg = map({"--head", "0", "-f", "svg"});
  CHECK_THAT(svg, Contains("batch 0") && Contains("batch 1"));
  for (const char* query : {"0", "1:", "3"}) map({"--head", "0", "--query", query});
}

TEST_CASE("figure: a title names no folder of this machine") {
  Folder folder;
  const std::string data = mha::test::source_folder() + "/data";
  std::filesystem::create_directory_symlink(data, folder.path("data"));
  const std::string file = folder.path("data/quickstart.json");
  const auto title = [&](const std::string& source, const std::string& where) {
    const Result result = shell("cd " + where + " && \"$MHA\" map " + source +
                                " --quiet -f svg -o - | grep -o '<title>.*</title>'");
    return result.out;
  };
  CHECK(title(file, "/") == "<title>weights · quickstart.json</title>\n");
  CHECK(title("data/quickstart.json", folder.path()) ==
        "<title>weights · data/quickstart.json</title>\n");
  const std::string saved = folder.path("maps.npy");
  REQUIRE(run({"dump", file, "-s", "weights", "-o", saved, "--quiet"}).code == 0);
  CHECK(title("weights=" + saved, "/") == "<title>weights · weights=maps.npy</title>\n");
  CHECK(title("weights=maps.npy", folder.path()) == "<title>weights · weights=maps.npy</title>\n");
  const std::string page = shell("\"$MHA\" report " + file + " -o -").out;
  CHECK_THAT(page, Contains("<title>quickstart.json · attention</title>"));
  CHECK_THAT(page, !Contains(folder.path()));
  CHECK_THAT(run({"map", file}).out, Contains("weights · quickstart.json\n"));
}

TEST_CASE("figure: a long causal map is on a log scale, of the largest of each cell") {
  Folder folder;
  REQUIRE(shell("cd " + folder.path() +
                " && /usr/bin/python3 -c 'import numpy as np; w = np.tril(np.ones((2, 300, 300)));"
                " w /= w.sum(-1, keepdims=True); np.save(\"even.npy\", w);"
                " np.save(\"short.npy\", w[:, :100, :100])'")
              .code == 0);
  const auto text = [&](const std::string& name, std::vector<std::string> more) {
    std::vector<std::string> line{"map", "weights=" + folder.path(name), "--causal", "-q", "--head",
                                  "0"};
    line.insert(line.end(), more.begin(), more.end());
    return run(line).out;
  };
  const std::string even = text("even.npy", {});
  CHECK_THAT(even, Contains("log scale") && Contains("the largest of"));
  // Equal weights of row t are 1/(t + 1): none of them is drawn as nothing.
  CHECK_THAT(text("even.npy", {"--color-scale", "linear", "--pool", "mean"}),
             !Contains("log scale") && Contains("the mean of"));
  const auto blank = [](const std::string& map) { // lines of nothing but spaces and dots
    const std::regex empty("│[ ·]+│");
    return std::distance(std::sregex_iterator(map.begin(), map.end(), empty),
                         std::sregex_iterator());
  };
  CHECK(blank(even) < 4);
  CHECK(blank(text("even.npy", {"--color-scale", "linear", "--pool", "mean"})) > 10);
  CHECK_THAT(text("short.npy", {}), !Contains("log scale"));
  CHECK_THAT(text("even.npy", {"--key", "0-9", "--query", "0-9"}), !Contains("log scale"));
}
