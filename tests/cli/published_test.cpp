// Models in the containers, under the names and with the arithmetic of published ones, against what
// PyTorch computed of them: tests/data/published, which its make.py wrote. And models of which
// other projects published results: experts/ there, whose sources experts.py names.

#include "support/files.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>
#include <set>
#include <sstream>

using namespace mha;
using namespace mha::test;

namespace {

std::string in_published(const std::string& name) {
  return in_source("tests/data/published/" + name);
}

/// The largest difference in units of the expected one's root mean square.
double largest_difference(const Tensor& found, const Tensor& expected) {
  REQUIRE(found.count() == expected.count());
  double squares = 0, largest = 0;
  for (std::size_t i = 0; i < expected.count(); ++i) {
    const double want = value_at(expected, i), difference = std::fabs(value_at(found, i) - want);
    squares += want * want;
    largest = std::isfinite(difference) ? std::max(largest, difference) : INFINITY;
  }
  return largest / std::sqrt(squares / static_cast<double>(expected.count()));
}

} // namespace

TEST_CASE("published models' files, names and arithmetic give PyTorch's numbers", "[model]") {
  struct Published {
    const char *file, *input;
    std::size_t stages;
    bool described = true;
    double most = 4e-7;
  };
  // A norm by the deviation is computed to eps / deviation.
  const auto [file, input, stages, described, most] =
      GENERATE(Published{"antibody.pt", "ids", 5}, Published{"esm2.pt", "ids", 5},
               Published{"routing.pt", "inputs_embeds", 6}, Published{"chemistry.pt", "ids", 5},
               Published{"recognition.ckpt", "inputs_embeds", 5}, Published{"turns.pt", "ids", 5},
               Published{"pictures.pth", "inputs_embeds", 5},
               Published{"annotated.pt", "ids", 5, true, 1e-5}, Published{"module.pth", "ids", 5},
               Published{"addition.pt", "ids", 5, false}, Published{"adder.pt", "ids", 5},
               Published{"reaction", "ids", 7, false});
  INFO(file);
  const std::string stem = std::filesystem::path(file).stem().string();
  const io::Contents expected = io::open(in_published(stem + ".npz"));
  const Folder out;
  std::set<std::string> names;
  for (const io::Entry& entry : expected.tensors)
    if (entry.name != input) names.insert(entry.name.substr(entry.name.rfind('.') + 1));
  std::vector<std::string> words{"dump", in_published(file)};
  if (described) words.insert(words.end(), {"--naming", in_published(stem + ".json")});
  words.insert(words.end(),
               {input == std::string("ids") ? "--ids" : "--inputs-embeds",
                in_published(stem + ".npz"), "-s", fmt::format("{}", fmt::join(names, ",")), "-q",
                "--dtype", "f64", "-o", out.path("out.npz")});
  const Result result = run(words);
  CHECK(result.err.empty());
  REQUIRE(result.code == 0);
  const io::Contents found = io::open(out.path("out.npz"));
  std::size_t compared = 0;
  for (const io::Entry& entry : expected.tensors) {
    if (entry.name == input) continue;
    INFO(entry.name);
    REQUIRE(found.find(entry.name));
    CHECK(largest_difference(found.find(entry.name)->read(), entry.read()) < most);
    ++compared;
  }
  CHECK(compared == stages);
}

namespace {

/// A model of tests/data/published/experts, of which another project published a result.
struct PublishedMixture {
  const char *name, *input, *expected, *stage;
  double most; ///< of the root mean square
};

} // namespace

TEST_CASE("published mixtures: another engine's logits", "[model]") {
  // Measured: 1.2e-6, 1.5e-6, 8e-10, 2e-16, 5e-16. Transformers' norms, softmaxes and rotation are
  // float32; gpt-oss' result has nine digits; the other two are closed forms.
  const auto [name, input, key, stage, most] =
      GENERATE(PublishedMixture{"mixtral", "ids", "logits", "logits", 2.5e-6},
               PublishedMixture{"llama4", "ids", "logits", "logits", 3e-6},
               PublishedMixture{"gptoss", "ids", "layers.0.mlp_out", "mlp_out", 4e-9},
               PublishedMixture{"laguna", "X", "output", "output", 1e-14},
               PublishedMixture{"sinks", "X", "output", "output", 1e-14});
  INFO(name);
  const std::string model = in_published(std::string("experts/") + name);
  const std::string expected = model + "/expected.npz";
  const Folder out;
  std::vector<std::string> source{model};
  if (input == std::string("ids"))
    source.insert(source.end(), {"--ids", expected});
  else
    source.insert(source.end(), {"--layer", "0", "X=" + expected + ":X"});
  std::vector<std::string> words{"dump"};
  words.insert(words.end(), source.begin(), source.end());
  words.insert(words.end(), {"-s", stage, "--dtype", "f64", "-q", "-o", out.path("out.npz")});
  const Result result = run(words);
  CHECK(result.err.empty());
  REQUIRE(result.code == 0);
  const Tensor found = tensor_in(io::open(out.path("out.npz")), stage);
  CHECK(largest_difference(found, tensor_in(io::open(expected), key)) < most);

  // As users compare: in the precision of the weights, with the program's own tolerance.
  words.assign({"diff"});
  words.insert(words.end(), source.begin(), source.end());
  words.insert(words.end(), {"--against", expected});
  const Result compared = run(words);
  INFO(compared.out << compared.err);
  CHECK(compared.code == 0);
}

TEST_CASE("published mixtures: DeepSeek V3's last logits and the six tokens that follow",
          "[model]") {
  const Folder folder;
  const Result made =
      shell("/usr/bin/python3 tests/data/published/experts.py deepseek3 --out " + folder.path());
  if (made.code != 0) {
    INFO(made.err);
    REQUIRE((made.code == 127 || made.err.find("'numpy'") != std::string::npos));
    WARN("no NumPy, so nothing to read");
    return;
  }
  const io::Contents given = io::open(in_published("experts/deepseek3/expected.npz"));
  const Tensor prompt = tensor_in(given, "ids"), next = tensor_in(given, "next");
  const auto id = [](const Tensor& of, std::size_t i) {
    return static_cast<std::size_t>(value_at(of, i));
  };
  std::vector<std::size_t> ids;
  for (std::size_t i = 0; i < prompt.count(); ++i) ids.push_back(id(prompt, i));
  for (std::size_t i = 0; i + 1 < next.count(); ++i) ids.push_back(id(next, i));
  // Each row of logits from the prompt's last token on chooses the next token.
  const Result result =
      run({"dump", folder.path("deepseek3"), "--ids", fmt::format("{}", fmt::join(ids, ",")), "-s",
           "logits", "--query", fmt::format("{}-{}", prompt.count() - 1, ids.size() - 1), "--dtype",
           "f64", "-q", "-o", folder.path("out.npz")});
  INFO(result.err);
  REQUIRE(result.code == 0);
  const Tensor found = tensor_in(io::open(folder.path("out.npz")), "logits");
  const Tensor last = tensor_in(given, "logits");
  const std::size_t width = last.count();
  REQUIRE(found.count() == next.count() * width);
  double squares = 0, largest = 0;
  for (std::size_t i = 0; i < width; ++i) {
    squares += value_at(last, i) * value_at(last, i);
    largest = std::max(largest, std::fabs(value_at(found, i) - value_at(last, i)));
  }
  // Measured: 7e-7; the published ones are float32's.
  CHECK(largest < 1.5e-6 * std::sqrt(squares / static_cast<double>(width)));
  for (std::size_t row = 0; row < next.count(); ++row) {
    const std::size_t chosen = id(next, row);
    for (std::size_t i = 0; i < width; ++i)
      if (value_at(found, row * width + i) > value_at(found, row * width + chosen))
        FAIL_CHECK("row " << row << " chooses " << i << " rather than " << chosen);
  }
}

TEST_CASE("ALBERT's .bin from a text: unigram pieces, the ids of trying all cuts") {
  const Result tokens =
      run({"tokens", in_published("reaction"), "--text", "CC(=O)Br c1", "-f", "csv"});
  const Tensor ids = io::open(in_published("reaction.npz")).find("ids")->read();
  std::istringstream lines(tokens.out);
  std::string line;
  std::getline(lines, line); // text,position,id,…
  for (std::size_t i = 0; i < ids.count(); ++i) {
    REQUIRE(std::getline(lines, line));
    const std::string start = fmt::format("0,{},{},", i, value_at(ids, i));
    CHECK(line.substr(0, start.size()) == start);
  }
  CHECK(!std::getline(lines, line));
}

TEST_CASE("PyTorch: an archive of 5 GB is listed by its header") {
  const Folder folder;
  const std::string model = folder.path("big.pt");
  if (shell("/usr/bin/python3 tests/models/pytorch.py sparse " + model + " 5000000000").code != 0)
    return;
  const Result info = run({"info", model, "--no-values"});
  INFO(info.err);
  CHECK(info.code == 0);
  CHECK(info.out.find("large.1  float32  610351 × 1024") != std::string::npos);
}

TEST_CASE("vectors in the place of tokens: what is wrong is told") {
  const Folder folder;
  const std::string tsp = in_published("routing.pt"), naming = in_published("routing.json");
  const auto zeros = [](const std::string& dtype, const std::string& shape, int count) {
    return fmt::format(R"({{"dtype": "{}", "shape": [{}], "data": [{}]}})", dtype, shape,
                       fmt::join(std::vector<int>(static_cast<std::size_t>(count)), ","));
  };
  folder.write("wide.json", "{\"x\": " + zeros("float32", "5,3", 15) + "}");
  folder.write("whole.json", "{\"x\": " + zeros("int64", "5,2", 10) + "}");
  folder.write("flat.json", "{\"x\": " + zeros("float32", "5", 5) + "}");
  folder.write("right.json", "{\"x\": " + zeros("float32", "5,2", 10) + "}");
  folder.write("two.json", "{\"x\": [[1, 2]], \"y\": [[1, 2]]}");
  const auto message = [&](std::vector<std::string> words, const std::string& part) {
    words.insert(words.begin() + 1, {tsp, "--naming", naming});
    const Result result = run(words);
    INFO(result.err);
    CHECK(result.code == 2);
    CHECK(result.err.find(part) != std::string::npos);
  };
  const auto rows = [&](const char* file, const std::string& part) {
    message({"show", "--inputs-embeds", folder.path(file), "-s", "final"}, part);
  };
  rows("wide.json", "x is (5, 3): vectors of 2 numbers expected, which enter the embedding");
  rows("whole.json", "x is int64: floating-point numbers expected; token numbers are --ids");
  rows("flat.json", "x is (5,): T × 2 or B × T × 2 expected");
  rows("two.json", "2 tensors, none is called inputs_embeds");
  message({"show", "--ids", "1,2", "-s", "final"},
          "the model has no table of tokens; give what enters its embedding by --inputs-embeds");
  message({"show", "--ids", "1,2", "--inputs-embeds", folder.path("right.json"), "-s", "final"},
          "--inputs-embeds replace tokens: remove --ids");
  message({"effects", "--inputs-embeds", folder.path("right.json")},
          "--inputs-embeds are vectors, of which no token is known: effects needs --ids or a text");
}

TEST_CASE("vectors that are the tokens' rows give the tokens' bits") {
  const Folder folder;
  for (const char* model : {"data/bard-gpt2", "data/bard-bert"}) {
    const std::string path = in_source(model);
    const io::Contents weights = io::open(path);
    const io::Entry* table = nullptr;
    for (const io::Entry& entry : weights.tensors)
      if (entry.name.ends_with("wte.weight") || entry.name.ends_with("word_embeddings.weight"))
        table = &entry;
    REQUIRE(table);
    const Tensor rows = table->read();
    const std::size_t width = rows.shape()[1];
    std::string given;
    for (const std::size_t id : {7u, 30u, 5u, 99u})
      for (std::size_t i = 0; i < width; ++i)
        given += fmt::format("{}{}", given.empty() ? "" : ",", value_at(rows, id * width + i));
    folder.write(
        "rows.json",
        fmt::format(
            R"({{"inputs_embeds": {{"dtype": "float32", "shape": [4, {}], "data": [{}]}}}})", width,
            given));
    const auto shown = [&](const char* option, const std::string& value) {
      const Result result = run({"show", path, option, value, "-s", "logits", "-f", "csv", "-q"});
      INFO(result.err);
      CHECK(result.code == 0);
      std::string numbers; // the seventh column: tokens after it have their labels or none
      std::istringstream lines(result.out);
      for (std::string line; std::getline(lines, line);)
        if (const std::size_t at = line.find_first_of("-0123456789", line.find(",,,") + 3);
            line.starts_with(",logits,"))
          numbers += line.substr(at, line.find(',', line.find('.', at)) - at) + "\n";
      return numbers;
    };
    const std::string by_rows = shown("--inputs-embeds", folder.path("rows.json"));
    CHECK(by_rows.size() > 1000);
    CHECK(by_rows == shown("--ids", "7,30,5,99"));
  }
}

TEST_CASE("a draft of a description needs few words more") {
  // What names and shapes cannot tell: the edits that make the draft the model's description.
  struct Drafted {
    const char *file, *input;
    std::vector<std::pair<std::string, std::string>> edits;
  };
  const std::pair<std::string, std::string> relu{R"("gelu")", R"("relu")"};
  const std::vector<Drafted> all{
      {"antibody.pt",
       "ids",
       {{"1e-05", "1e-12"},
        {R"("HOW MANY?")", "3"},
        {R"("by": "position")", R"("by": "position", "first": 1)"}}},
      {"esm2.pt", "ids", {{"embed_tokens.weight\"", "embed_tokens.weight\", \"scale\": 0.88"}}},
      {"routing.pt", "inputs_embeds", {relu}},
      {"chemistry.pt",
       "ids",
       {relu,
        {"1e-05", "1e-6"},
        {"emb_luts.0.weight\"", "emb_luts.0.weight\", \"scale\": \"sqrt_d_model\""},
        {R"("causal": true)", R"("causal": false)"}}},
      {"recognition.ckpt", "inputs_embeds", {{"1e-05", "1e-6"}}},
      {"turns.pt",
       "ids",
       {{R"("HOW MANY?")", "3"},
        {R"("by": "position")", R"("by": "position", "scale": 0.22360679774997896)"}}},
      {"module.pth", // which gives its activation and its heads itself
       "ids",
       {{"\"encoder.weight\"", "\"encoder.weight\", \"scale\": \"sqrt_d_model\""},
        {R"("causal": false)", R"("causal": true)"}}},
      {"adder.pt", "ids", {{R"("HOW MANY?")", "3"}}}};
  for (const Drafted& one : all) {
    const std::string file = one.file, input = one.input;
    INFO(file);
    const Folder folder;
    const std::string stem = std::filesystem::path(file).stem().string();
    const Result drafted = run({"info", in_published(file), "--as-naming"});
    CHECK(drafted.err.find("a draft from names and shapes") != std::string::npos);
    REQUIRE(drafted.code == 0);
    std::string naming = drafted.out;
    INFO(naming);
    for (const auto& [what, by] : one.edits) {
      INFO(what);
      REQUIRE(naming.find(what) != std::string::npos);
      naming.replace(naming.find(what), what.size(), by);
    }
    folder.write("draft.json", naming);
    const auto stream = [&](const std::string& description) {
      const Result shown =
          run({"show", in_published(file), "--naming", description,
               input == "ids" ? "--ids" : "--inputs-embeds", in_published(stem + ".npz"), "-s",
               "resid_post", "--layer", "1", "-f", "csv", "-q"});
      CHECK(shown.err.empty());
      CHECK(shown.code == 0);
      return shown.out;
    };
    const std::string by_hand = stream(in_published(stem + ".json"));
    CHECK(by_hand.size() > 1000);
    CHECK(stream(folder.path("draft.json")) == by_hand);
  }
  CHECK(run({"info", in_source("data/quickstart.json"), "--as-naming"}).code == 2);
}

TEST_CASE("a state dictionary in a tuple or a list is the model, beside what trained it") {
  const Folder folder;
  const Result made = shell(R"py(/usr/bin/python3 -c "
import pickle, sys
import numpy as np
state = {'blocks.%d.w' % n: np.ones((2, 3), np.float32) for n in range(2)}
trained = {'state': {0: {'exp_avg': np.ones(3)}}, 'param_groups': [{'lr': 1}]}
for name, value in [('tuple', (state, trained, 7)), ('list', [state]), ('two', [state, {k: v + 1 for k, v in state.items()}])]:
    pickle.dump(value, open('%s/%s.pkl' % (sys.argv[1], name), 'wb'), 2)
" )py" + folder.path());
  if (made.code != 0) {
    WARN("no NumPy, so nothing to read: " << made.err);
    return;
  }
  for (const auto& [name, tensor] :
       {std::pair("tuple", "\nblocks.1.w"), {"list", "\nblocks.1.w"}, {"two", "\n1.blocks.1.w"}}) {
    const Result listed = run({"info", folder.path(std::string(name) + ".pkl"), "--headers"});
    INFO(name << " " << listed.out << listed.err);
    CHECK(listed.code == 0);
    CHECK(listed.out.find(tensor) != std::string::npos);
  }
}

TEST_CASE("a draft is made where no layer's names are known, and one name is a lone layer's") {
  const Folder folder;
  const auto matrix = [](int rows, int columns) {
    std::string text = "[";
    for (int i = 0; i < rows; ++i) {
      text += i > 0 ? ", [" : "[";
      for (int j = 0; j < columns; ++j) text += (j > 0 ? ", " : "") + std::to_string((i + j) % 5);
      text += "]";
    }
    return text + "]";
  };
  std::string json = R"({"norm.weight": [1, 2, 1, 2], "words.weight": )" + matrix(9, 4);
  for (const char* n : {"0", "1"}) {
    const std::string at = std::string(", \"stack.") + n + ".";
    json += at + "mix.wqkv.weight\": " + matrix(12, 4) + at + "mix.wo.weight\": " + matrix(4, 4);
    json += at + "mix_norm.weight\": [1, 2, 3, 4]";
  }
  folder.write("model.json", json + "}");
  const Result drafted = run({"info", folder.path("model.json"), "--as-naming"});
  INFO(drafted.err);
  CHECK(drafted.code == 0);
  CHECK(drafted.out.find(R"("W_qkv": "mix.wqkv.weight")") != std::string::npos);
  CHECK(drafted.out.find(R"("final_norm": "norm.weight")") != std::string::npos);
  // What is asked for is what is reported as missing.
  const Result missing = run({"info", folder.path("no.json"), "--as-naming"});
  CHECK(missing.code == 2);
  CHECK(missing.err.find("no such file") != std::string::npos);
}
