// What was answered with a riddle, with zeros, or not at all: tables of command lines and of what
// they say now.

#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <sstream>

using namespace mha::test;
using Catch::Contains;
using nlohmann::json;

namespace {

using Words = std::vector<std::string>;
using Shapes = std::vector<std::pair<std::string, std::vector<std::size_t>>>;

/// A checkpoint of a model's names, all of its numbers 0.
void write_checkpoint(const Folder& folder, const json& config, const Shapes& shapes) {
  std::filesystem::create_directory(folder.path("model"));
  folder.write("model/config.json", config.dump());
  json header;
  std::size_t end = 0;
  for (const auto& [name, shape] : shapes) {
    std::size_t bytes = sizeof(float);
    for (const std::size_t axis : shape) bytes *= axis;
    header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {end, end + bytes}}};
    end += bytes;
  }
  const std::string text = header.dump();
  const std::uint64_t length = text.size();
  folder.write("model/model.safetensors", std::string(reinterpret_cast<const char*>(&length), 8) +
                                              text + std::string(end, '\0'));
}

struct Case {
  Words words;
  std::string said;
  int code = 2;
};

/// Each line with code 2 is one line that reports it; others report it in a note or a warning.
void check(const std::vector<Case>& cases, const std::string& folder = "") {
  for (const auto& [words, said, code] : cases) {
    const Result result = run(words, {.folder = folder});
    std::string line;
    for (const std::string& word : words) line += word + " ";
    INFO(line << "\n" << result.err);
    CHECK(result.code == code);
    CHECK_THAT(result.err, Contains(said));
    if (code == 2) CHECK(result.out.empty());
  }
}

} // namespace

TEST_CASE("unsaid: a model that is not covered is named by its model_type, whatever is asked") {
  Shapes xlnet{{"transformer.word_embedding.weight", {50, 16}}},
      ctrl{{"transformer.w.weight", {50, 16}}},
      squeezebert{{"bert.embeddings.word_embeddings.weight", {50, 16}}};
  const auto linear = [](Shapes& to, const std::string& name, std::size_t out, std::size_t in) {
    to.push_back({name + ".weight", {out, in}}), to.push_back({name + ".bias", {out}});
  };
  for (const std::string n : {"0", "1"}) {
    const std::string layer = "transformer.layer." + n + ".";
    for (const std::string name : {"q", "k", "v", "o", "r"})
      xlnet.push_back({layer + "rel_attn." + name, {16, 2, 8}});
    linear(xlnet, layer + "ff.layer_1", 32, 16), linear(xlnet, layer + "ff.layer_2", 16, 32);
    const std::string h = "transformer.h." + n + ".";
    for (const std::string name : {"Wq", "Wk", "Wv", "dense"})
      linear(ctrl, h + "multi_head_attention." + name, 16, 16);
    linear(ctrl, h + "ffn.0", 32, 16), linear(ctrl, h + "ffn.2", 16, 32);
    const std::string b = "bert.encoder.layer." + n + ".";
    for (const std::string name : {"query", "key", "value"})
      linear(squeezebert, b + "attention." + name, 16, 16);
    linear(squeezebert, b + "post_attention.conv1d", 16, 16);
    linear(squeezebert, b + "intermediate.dense", 32, 16),
        linear(squeezebert, b + "output.dense", 16, 32);
  }
  const json bert{{"model_type", "squeezebert"}, {"hidden_size", 16}, {"num_attention_heads", 2}};
  for (const auto& [config, shapes] :
       {std::pair(json{{"model_type", "xlnet"}, {"d_model", 16}, {"n_head", 2}}, xlnet),
        {json{{"model_type", "ctrl"}, {"n_embd", 16}, {"n_head", 2}}, ctrl},
        {bert, squeezebert}}) {
    const Folder folder;
    write_checkpoint(folder, config, shapes);
    const std::string said =
        "model_type '" + config["model_type"].get<std::string>() + "' is not covered";
    check({{{"show", "model", "--layer", "0"}, said},
           {{"circuits", "model"}, said},
           {{"predict", "model", "--ids", "1,2"}, said},
           {{"stats", "model", "--layer", "0"}, said}},
          folder.path());
  }
}

TEST_CASE("unsaid: a layer of a model that takes a text says so where its input is missing") {
  const std::string said = "X, (T, 96), is the input: give X=FILE:TENSOR, or a text of the model, "
                           "--text WORDS or --ids N,N…",
                    model = "data/bard-gpt2";
  const Folder folder;
  check({{{"show", model, "--layer", "0"}, said},
         {{"show", model, "--layer", "0", "-s", "weights"}, said},
         {{"map", model, "--layer", "0"}, said},
         {{"explain", model, "--layer", "0"}, said},
         {{"dump", model, "--layer", "0", "-o", folder.path("x.npz")}, said},
         {{"report", model, "--layer", "0", "-o", folder.path("x.html")}, said}});
  const std::string told = run({"info", model, "--layer", "1"}, {.env = {{"COLUMNS", "400"}}}).out;
  CHECK_THAT(told, Contains("none can be computed; X, (T, 96), is the input"));
  CHECK_THAT(told, Contains("--text WORDS"));
  // A layer by itself takes none.
  CHECK(run({"show", "data/induction", "--layer", "0"}).err.find("--text") == std::string::npos);
}

TEST_CASE("unsaid: messages name the option that was given") {
  const std::string model = "data/bard-gpt2";
  const Words text{"--text", "To be, or not"};
  const auto with_text = [&](Words words) {
    words.insert(words.begin() + 1, model);
    words.insert(words.end(), text.begin(), text.end());
    return words;
  };
  check({{with_text({"map", "--layer", "1", "--minus-layer", "9"}), "--minus-layer 9"},
         {with_text({"map", "--layer", "1", "--minus-layer", "2", "--vmin", "0"}),
          "--vmin 0: the scale of a difference is symmetric around 0"},
         {with_text({"map", "--layer", "1", "--minus-layer", "2", "--vmax", "-1"}),
          "--vmax -1: the scale of a difference"},
         {{"map", "data/quickstart.json", "--width", "20000", "-o", "/tmp/never.png"},
          "--width 20000: the picture would be"},
         {with_text({"predict", "--of", "missing.npy"}), "--of missing.npy: no such file"},
         {with_text({"predict", "--of", "no/such/vector"}), "--of no/such/vector: no such file"},
         {with_text({"effects", "--sweep", "banana"}), "banana"},
         {with_text({"predict", "--of", "layers.1.output", "-o", "x{layer}.json"}),
          "{layer} needs --each-layer"},
         {with_text({"effects", "--answer", " the", "--versus", " the"}),
          "--answer and --versus are both ' the'"}});
  CHECK(run(with_text({"effects", "--sweep", "banana"})).err.find("--patch-from") ==
        std::string::npos);
  // The answer is what the model predicts.
  const json top = json::parse(run(with_text({"predict", "--top", "1", "-f", "json"})).out);
  const std::string id = std::to_string(top["predictions"][0]["next"][0]["id"].get<int>());
  check({{with_text({"effects", "--versus-id", id}), "is the answer itself"}});
}

TEST_CASE("unsaid: a file a text of what a part writes, and a vector needs no text") {
  const Folder folder;
  const Words line{"predict", "data/bard-gpt2",  "--text", "To be", "--text", "O Romeo",
                   "--of",    "layers.1.output", "-f",     "json",  "-o"};
  Words all = line, each = line;
  all.push_back("-"), each.push_back(folder.path("p{batch}.json"));
  REQUIRE(run(each).code == 0);
  const json whole = json::parse(run(all).out);
  REQUIRE(whole.size() == 2);
  for (const std::size_t b : {std::size_t{0}, std::size_t{1}})
    CHECK(json::parse(folder.read("p" + std::to_string(b) + ".json")) == json::array({whole[b]}));
  std::string list = "1";
  for (int i = 1; i < 96; ++i) list += ", " + std::to_string(i % 7);
  folder.write("v.json", "{\"v\": [" + list + "]}");
  const Words vector{"predict", "data/bard-gpt2", "--of", folder.path("v.json")};
  Words beside = vector;
  beside.insert(beside.end(), {"--text", "To be, or not"});
  const Result alone = run(vector);
  INFO(alone.err);
  CHECK(alone.code == 0);
  CHECK(alone.out == run(beside).out);
}

TEST_CASE("unsaid: JSON that is no array of numbers, and what is made of one part of Q, K, V") {
  const Folder folder;
  const auto file = [&](const std::string& name, const std::string& text) {
    folder.write(name, text);
    return name;
  };
  check({{{"show", file("a.json", R"({"Q": [[1, 0], [0, true]], "K": [[1, 0], [0, 1]]})")},
          "true or false in an array of numbers"},
         {{"show", file("b.json", R"({"Q": [[true, 0]], "K": [[1, 0]]})")},
          "true or false in an array"},
         {{"show", file("c.json", R"({"Q": [["1", "x"]], "K": [[1, 0]], "V": [[1, 0]]})")},
          "c.json: Q is a list of text; numbers expected"}},
        folder.path());
  folder.write("ids.json", "[true, 5]"), folder.write("null.json", "[null]");
  for (const auto& [name, said] : {std::pair("ids.json", "true or false in an array of numbers"),
                                   {"null.json", "number 0 is null or NaN"}})
    check({{{"predict", "data/bard-gpt2", "--ids", folder.path(name)}, said}});
  for (const auto& [text, said] :
       {std::pair(R"({"Q": [[1, 0]]})",
                  "note: Q is taken as one head: no number of heads is given; "),
        {R"({"Q": [[1, 0]], "K": [[1, 0]]})", "note: Q and K are taken as one head"},
        {R"({"Q": [[1, 0]], "K": [[1, 0]], "V": [[1, 2]]})",
         "note: Q, K and V are taken as one head"}})
    check({{{"show", file("qkv.json", text)}, said, 0}}, folder.path());
}

TEST_CASE("unsaid: explain names every stage that it was given") {
  const Folder folder;
  folder.write("qkv.json",
               R"({"Q": [[1, 0], [0, 1]], "K": [[1, 2], [0, 1]], "V": [[1, 2], [3, 4]]})");
  for (const Words& more : {Words{}, Words{"-H", "0"}}) {
    Words line{"explain", "qkv.json", "-q"};
    line.insert(line.end(), more.begin(), more.end());
    CHECK_THAT(run(line, {.folder = folder.path()}).out, Contains("given: q, k, v"));
    line.insert(line.end(), {"-f", "json"});
    CHECK(json::parse(run(line, {.folder = folder.path()}).out)["given"] ==
          json::array({"q", "k", "v"}));
  }
}

TEST_CASE("unsaid: words that no token is, and kinds of heads of a text that is too short") {
  const Words text{"stats", "data/bard-gpt2", "--layer", "1", "--text", "To be, or not to be"};
  Words none = text, short_text{"stats", "data/bard-gpt2", "--layer",       "1", "--text",
                                "O",     "--kind",         "previous-token"};
  none.insert(none.end(), {"--separators", "zzz"});
  check({{none, "--separators: no token is 'zzz'", 0},
         {short_text, "has too few rows to decide", 1}});
  none.push_back("--strict");
  CHECK(run(none).code == 2);
}

TEST_CASE("unsaid: maps of several heads fit the window, and their JSON has the tokens") {
  const Words text{"--text", "To be, or not to be, that is the question", "--layer", "1"};
  for (const std::string stage :
       {"rollout", "weights_mean", "value_norms", "received", "divergence"}) {
    Words line{"show", "data/bard-gpt2", "-s", stage, "-q"};
    line.insert(line.end(), text.begin(), text.end());
    for (const std::string columns : {"40", "60", "80"}) {
      std::istringstream out(run(line, {.env = {{"COLUMNS", columns}}}).out);
      for (std::string row; std::getline(out, row);) {
        std::size_t wide = 0; // characters of UTF-8
        for (const char c : row) wide += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
        INFO(stage << " " << columns << ": " << row);
        CHECK(wide <= std::stoul(columns));
      }
    }
    if (stage == "divergence") continue; // between heads
    line.insert(line.end(), {"-f", "json"});
    const json one = json::parse(run(line).out)[stage];
    const std::size_t rows = one["shape"][one["shape"].size() == 1 ? 0 : one["shape"].size() - 1];
    CHECK(one["col_tokens"].size() == rows);
    line.insert(line.end(), {"--text", "O Romeo"});
    CHECK(json::parse(run(line).out)[stage]["col_tokens"].size() == 2); // a list a text
  }
}
