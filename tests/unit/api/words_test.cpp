// What a program's author reads: errors and notes without the command line, whatever goes wrong.

#include "unit/api/layers.hpp"

#include <mha/system/watch.hpp>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>

using namespace mha;
using namespace mha::test;
using Catch::Contains;

namespace {

bool is_of_command_line(const std::string& text) {
  // Options (--num-heads, -o FILE), files that are bound (NAME=FILE), commands.
  static const std::regex words(
      R"((^|[^A-Za-z0-9-])(--[a-z]|-[a-z] [A-Z])|mha-inspect|[A-Za-z_]=[A-Z]{2,}|=…|`[a-z]+[ `])");
  return std::regex_search(text, words);
}

/// A checkpoint of data/ with one of its files replaced.
class Damaged {
public:
  Damaged(const std::string& model, const std::string& file, const std::string& content) {
    namespace fs = std::filesystem;
    static int number = 0;
    folder_ = fs::temp_directory_path() / fmt::format("mha-words-{}-{}", getpid(), number++);
    fs::create_directory(folder_);
    for (const auto& entry : fs::directory_iterator(data(model)))
      if (entry.is_regular_file()) fs::copy_file(entry.path(), folder_ / entry.path().filename());
    std::ofstream(folder_ / file) << content;
  }
  ~Damaged() { std::filesystem::remove_all(folder_); }
  Damaged(const Damaged&) = delete;
  Damaged& operator=(const Damaged&) = delete;
  std::string path() const { return folder_.string(); }

private:
  std::filesystem::path folder_;
};

} // namespace

TEST_CASE("api: no error speaks of the command line", "[api]") {
  const auto layer_with = [](const std::string& name, const Tensor& value, Settings settings = {}) {
    Tensors tensors = small_tensors();
    std::erase_if(tensors, [&](const auto& entry) { return entry.first == name; });
    tensors.emplace_back(name, value);
    if (settings.num_heads == 0) settings.num_heads = 2;
    return layer(std::move(tensors), std::move(settings));
  };
  const auto setting = [](const char* name, const char* value) {
    return layer(small_tensors(), {.num_heads = 2}, {.settings = {{name, value}}});
  };
  const Layer small = small_layer();
  const Model model(data("bard-gpt2")), llama(data("bard-llama"));
  const Tokens king = model.tokens("The king"), longer = model.tokens("The king is dead, my lord");
  const Run run = model.run(king, {.keep = {"layers.0.q"}});
  const Damaged config("bard-gpt2", "config.json", "{ broken");
  const Damaged tokenizer("bard-gpt2", "tokenizer.json", R"({"model": {"type": "Nonsense"}})");
  const Damaged weights("bard-gpt2", "model.safetensors", "short");
  const Tensor ones = numbers({2, 3}, 1);
  const std::vector<std::pair<const char*, std::function<void()>>> misuses{
      {"no heads", [&] { layer(small_tensors()); }},
      {"heads that do not divide", [&] { layer(small_tensors(), {.num_heads = 4}); }},
      {"key heads", [&] { layer(small_tensors(), {.num_heads = 2, .num_kv_heads = 4}); }},
      {"W_q", [&] { layer_with("W_q", ones); }},
      {"W_o", [&] { layer_with("W_o", ones); }},
      {"W_q the other way",
       [&] {
         layer_with("W_q", numbers({6, 4}, 1));
       }},
      {"W_o the other way",
       [&] {
         layer_with("W_o", numbers({4, 6}, 1));
       }},
      {"mask", [&] { layer_with("mask", ones); }},
      {"mask of 0 and 1",
       [&] {
         layer_with("mask", tensor(std::vector<float>(25, 1), {5, 5}));
       }},
      {"block_mask",
       [&] {
         layer_with("block_mask", numbers({5, 5}, 1));
       }},
      {"unknown tensor", [&] { layer_with("wieghts", ones); }},
      {"nothing like it", [&] { layer_with("foo", ones); }},
      {"k_bias", [&] { layer_with("k_bias", ones); }},
      {"key", [&] { layer_with("key", ones); }},
      {"past alone",
       [&] {
         layer_with("k_past", numbers({2, 1, 3}, 1));
       }},
      {"sinks", [&] { layer_with("sinks", ones); }},
      {"X of one axis too many",
       [&] {
         layer_with("X", numbers({1, 1, 5, 4}, 1));
       }},
      {"no X",
       [&] {
         mha::run(layer({{"W_q", numbers({4, 6}, 1)}}, {.num_heads = 2}));
       }},
      {"no tensors", [&] { mha::run(layer({}, {.num_heads = 2})); }},
      {"rope of odd width", [&] { setting("rope", "half"); }},
      {"setting", [&] { setting("causl", "true"); }},
      {"setting's value", [&] { setting("causal", "maybe"); }},
      {"softcap", [&] { setting("softcap", "1e39"); }},
      {"labels", [&] { layer(small_tensors(), {.num_heads = 2}, {.tokens = {"a"}}); }},
      {"with a stage of another shape", [&] { small.with("weights", ones); }},
      {"with a misspelt stage", [&] { small.with("wieghts", ones); }},
      {"with what the layer lacks", [&] { small.with("q_rope", ones); }},
      {"a misspelt stage", [&] { mha::run(small, {"wieghts"}); }},
      {"an ambiguous stage", [&] { mha::run(small, {"attn_weights"}); }},
      {"a stage of the model", [&] { mha::run(small, {"logits"}); }},
      {"a lacking stage", [&] { stream(small, Stage::q_rope, [](Place, const Tensor&) {}); }},
      {"a kept stage", [&] { mha::run(small, {"q"}).tensor("k"); }},
      {"no file", [&] { load("nowhere"); }},
      {"a broken file", [&] { load(weights.path() + "/model.safetensors"); }},
      {"several layers", [&] { load(data("induction")); }},
      {"no such layer", [&] { load(data("induction"), 9); }},
      {"no such input", [&] { load(data("induction"), 1, "nowhere.npy"); }},
      {"no such tensor", [&] { load(data("induction"), 1, "hidden.npz:layers.7"); }},
      {"input's width",
       [&] {
         load(data("induction"), 1, {{"X", ones}});
       }},
      {"no input", [&] { mha::run(load(data("induction"), 1), {Stage::q}); }},
      {"X twice",
       [&] {
         load(data("induction"), 1, {{"X", ones}, {"hidden_states", ones}});
       }},
      {"a source's setting",
       [&] {
         load(data("induction"), 1, "", {.settings = {{"rope", "x"}}});
       }},
      {"no model", [&] { Model(data("quickstart.json")); }},
      {"a model's file", [&] { Model(data("bard-gpt2/model.safetensors")); }},
      {"a broken config", [&] { Model(config.path()); }},
      {"broken weights", [&] { Model(weights.path()); }},
      {"a broken tokenizer", [&] { Model(tokenizer.path()).tokens("text"); }},
      {"a model's setting",
       [&] {
         Model(data("bard-gpt2"), {.settings = {{"causl", "1"}}});
       }},
      {"a model's rope",
       [&] {
         Model(data("bard-llama"), {.settings = {{"rope", "x"}}});
       }},
      {"ids", [&] { model.tokens({70000}); }},
      {"no ids", [&] { model.batch(std::vector<std::vector<int>>{{}}); }},
      {"a text too long",
       [&] { model.run(model.tokens(std::vector<int>(3000, 5)), {.keep = {"logits"}}); }},
      {"keep", [&] { model.run(king, {.keep = {"wieghts"}}); }},
      {"keep of no layer", [&] { model.run(king, {.keep = {"layers.9.q"}}); }},
      {"keep what is lacking", [&] { model.run(king, {.keep = {"q_rope"}}); }},
      {"not kept", [&] { run.tensor("layers.1.q"); }},
      {"patch's sign", [&] { Patch("layers.0.q"); }},
      {"patch's stage", [&] { Patch("layers.0.wieghts = zero"); }},
      {"patch's value", [&] { model.run(king, {.patches = {"layers.0.q = nonsense"}}); }},
      {"patch's place", [&] { model.run(king, {.patches = {"layers.0.q[99] = zero"}}); }},
      {"patch's token", [&] { model.run(king, {.patches = {"layers.0.q[*,'sun'] = zero"}}); }},
      {"patch of ids by token",
       [&] {
         model.run(model.tokens({5, 6}), {.patches = {"layers.0.q[*,'sun'] = zero"}});
       }},
      {"patch of no layer", [&] { model.run(king, {.patches = {"q = zero"}}); }},
      {"patch that nothing reads",
       [&] { model.run(king, {.patches = {"layers.0.logsumexp = 1"}}); }},
      {"patch's shape",
       [&] {
         run.with({{"layers.0.q", ones}});
       }},
      {"patch from another length",
       [&] {
         run.with({Patch::from({Stage::q, 0}, model.run(longer))});
       }},
      {"patch from another model",
       [&] {
         run.with({Patch::from({Stage::q, 0}, llama.run(llama.tokens("The king")))});
       }},
      {"patch from a text", [&] { run.with({"layers.0.q = from 'much longer than it is'"}); }},
      {"another model's tokens", [&] { llama.run(king); }},
      {"effects", [&] { run.effects("nonsense"); }},
      {"effects' positions", [&] { run.effects("kl", 99); }},
      {"measures", [&] { run.heads("entropi"); }},
      {"predictions", [&] { run.predictions(77); }},
      {"weight", [&] { model.weight("layers.0.W_x"); }},
      {"weight's layer", [&] { model.weight("layers.9.W_q"); }},
      {"another weight", [&] { model.with("layers.0.W_o", ones); }},
      {"no model's name", [&] { Model(""); }},
      {"neither model nor layer", [&] { Model(data("wheel")); }},
      {"a weight of the model", [&] { model.weight("W_V"); }},
      {"a weight that it does not have", [&] { model.weight("b_U"); }},
      {"a weight that stays", [&] { model.with("layers.0.mlp.in", ones); }},
      {"a stage as a weight", [&] { model.weight("layers.0.q"); }},
      {"a layer by itself", [&] { mha::run(model.layer(1)); }},
      {"a layer by itself with X", [&] { model.layer(1).with("X", ones); }},
      {"layers that are none", [&] { model.run(king, {.keep = {"layers.2-1.q"}}); }},
      {"a layer beyond the first", [&] { run.tensor("layers.-9.q"); }},
      {"a patch's layers", [&] { run.with({"layers.-9.q = zero"}); }},
      {"a patch's word", [&] { run.with({"layers.0.q = zeor"}); }},
      {"a patch's file", [&] { run.with({"layers.0.q = nowhere.npy"}); }},
      {"a patch's axes", [&] { run.with({"layers.0.q[0,1,2,3] = zero"}); }},
      {"a patch without streams",
       [&] {
         const Run bare = model.run(king, {.streams = false});
         run.with({Patch::from("layers.0.q", bare)});
       }},
      {"losses without streams", [&] { model.run(king, {.streams = false}).losses(); }},
      {"heads without streams", [&] { model.run(king, {.streams = false}).heads("entropy"); }},
      {"effects of a patched run", [&] { run.with({"layers.0.q = zero"}).effects(); }},
      {"a stream before the first", [&] { run.resid(-6); }},
      {"a text's number", [&] { run.predictions(0, 1, 9); }},
      {"no function", [&] { model.stream(king, {"q"}, nullptr); }},
      {"no stage", [&] { model.stream(king, {}, [](const At&, Place, Tensor) {}); }},
      {"kept while streamed",
       [&] { model.stream(king, {"q"}, [](const At&, Place, Tensor) {}, {.keep = {"q"}}); }},
      {"patches twice", [&] { run.with({}, {.patches = {"layers.0.q = zero"}}); }},
      {"a description", [&] { load(data("wheel")); }},
      {"stream's stage", [&] { model.stream(king, {"wieghts"}, [](const At&, Place, Tensor) {}); }},
  };
  for (const auto& [name, misuse] : misuses) {
    const std::string message = error_of(misuse);
    INFO(name << ": " << message);
    CHECK_FALSE(message.empty());
    CHECK_FALSE(is_of_command_line(message));
  }
}

TEST_CASE("api: a name that looks like an option or a reference stays as it is", "[api]") {
  for (const std::string name : {"a --num-heads 3", "a W_q=FILE:b", "a <num_heads>"}) {
    Tensors tensors = small_tensors();
    tensors.emplace_back(name, numbers({2, 3}, 1));
    CHECK_THAT(error_of([&] { layer(tensors, {.num_heads = 2}); }), Contains("'" + name + "'"));
  }
  Tensors tensors = small_tensors();
  tensors.emplace_back("a" + message("<num_heads>").marked(), numbers({2, 3}, 1));
  CHECK_THAT(error_of([&] { layer(tensors, {.num_heads = 2}); }), !Contains("'anum_heads'"));
}

namespace {

/// The operations of all computations while it lives.
class CountedWork : public Watcher {
public:
  CountedWork() { watch_computations(this); }
  ~CountedWork() override { watch_computations(nullptr); }
  CountedWork(const CountedWork&) = delete;
  CountedWork& operator=(const CountedWork&) = delete;
  void begin(double work) override { announced_ = announced_ + work; }
  void advance(double) override {}
  void end() override {}
  double take() { return std::exchange(announced_, 0); }

private:
  double announced_ = 0;
};

} // namespace

TEST_CASE("api: a changed run computes what is behind its first patch", "[api][model]") {
  const Model model(data("bard-gpt2"));
  const Tokens text = model.tokens("To be, or not to be");
  CountedWork work;
  const Run clean = model.run(text);
  const double whole = work.take();
  (void)clean.loss();
  const double head = work.take();
  REQUIRE((whole > 0 && head > 0));
  const auto layers = static_cast<double>(model.layers());
  for (std::size_t n = 0; n < model.layers(); ++n)
    for (const char* stage : {"head_result[2] = zero", "q[0] *= 2", "mlp_out = zero"}) {
      INFO(n << " " << stage);
      const Run changed = clean.with({fmt::format("layers.{}.{}", n, stage)});
      CHECK(work.take() <= whole * (layers - static_cast<double>(n)) / layers * 1.0001);
      (void)changed.loss();
      CHECK(work.take() <= head * 1.0001);
    }
  // What is kept of an unchanged layer is computed again, and no other layer is.
  (void)clean.with({"layers.3.output = zero"}, {.keep = {"layers.1.weights"}});
  CHECK(work.take() <= whole * 2 / layers * 1.0001);
}
