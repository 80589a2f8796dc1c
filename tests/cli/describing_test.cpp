// Models by description: three under names of their own beside their NumPy reference, every family
// as it describes itself, and what is reported of a description that is wrong.

#include "support/files.hpp"
#include "support/run.hpp"
#include "support/share.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

using namespace mha;
using namespace mha::test;

namespace {

/// The writer of tests/models; nothing where there is no NumPy.
bool written(const std::string& script) {
  const Result made = shell("/usr/bin/python3 tests/models/" + script);
  if (made.code != 0) WARN("no NumPy, so nothing to compare with: " << made.err);
  return made.code == 0;
}

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// The largest difference in units of the expected one's root mean square; infinite where one is
/// finite and the other is not.
double difference(const Tensor& found, const Tensor& expected) {
  if (found.shape() != expected.shape()) return INFINITY;
  double squares = 0, largest = 0;
  std::size_t finite = 0;
  for (std::size_t i = 0; i < expected.count(); ++i) {
    const double want = value_at(expected, i), have = value_at(found, i);
    if (!std::isfinite(want) || !std::isfinite(have)) {
      if (want != have) return INFINITY;
      continue;
    }
    squares += want * want, ++finite;
    largest = std::max(largest, std::fabs(want - have));
  }
  return squares > 0 ? largest / std::sqrt(squares / static_cast<double>(finite)) : largest;
}

void check_model(const std::string& folder, const std::string& precision, double limit) {
  const Folder out;
  const Result result =
      run({"dump", folder, "--naming", folder + "/naming.json", "--ids", folder + "/expected.npz",
           "--dtype", precision, "-q", "-o", out.path("out.npz")});
  INFO(folder << " " << precision << " " << result.err);
  REQUIRE(result.code == 0);
  const io::Contents found = io::open(out.path("out.npz")),
                     expected = io::open(folder + "/expected.npz");
  std::size_t compared = 0;
  for (const io::Entry& entry : expected.tensors) {
    if (entry.name == "ids" || entry.name == "loss" || entry.name == "perplexity") continue;
    INFO(entry.name);
    REQUIRE(found.find(entry.name));
    CHECK(difference(found.find(entry.name)->read(), entry.read()) <= limit);
    ++compared;
  }
  CHECK(compared >= 40);
}

/// Whether the description that is printed of a family's model is read to the family's bits.
void check_printed(const std::string& model) {
  const Folder folder;
  const std::string naming = folder.path("naming.json"), ids = model + "/expected.npz";
  INFO(model);
  const Result said = run({"info", model, "--as-naming", "-o", naming});
  INFO(said.err);
  const io::Contents expected = io::open(ids);
  if (!expected.find("ids")) return; // layers of a model that is not computed whole
  if (std::ranges::any_of(expected.tensors,
                          [](const io::Entry& entry) { return entry.name.ends_with(".router"); })) {
    CHECK(said.code == 2);
    CHECK(said.err.find("a mixture of experts, whose description is not printed") !=
          std::string::npos);
    return;
  }
  REQUIRE(said.code == 0);
  const auto has = [&](const char* text) { return said.err.find(text) != std::string::npos; };
  if (has("norm.weight, a norm without a weight")) {
    CHECK((model.find("gemma4") != model.npos || model.find("llama4") != model.npos));
    return;
  }
  CHECK(said.err.find("draft") == std::string::npos);
  const Result own = run({"dump", model, "--ids", ids, "-q", "-o", folder.path("a.npz")}),
               described = run({"dump", model, "--naming", naming, "--ids", ids, "-q", "-o",
                                folder.path("b.npz")});
  INFO(own.err << described.err);
  REQUIRE(own.code == 0);
  REQUIRE(described.code == 0);
  const Result again = run({"info", model, "--naming", naming, "--as-naming", "-q"});
  CHECK(again.out == text_of(naming));
  const io::Contents a = io::open(folder.path("a.npz")), b = io::open(folder.path("b.npz"));
  CHECK(a.tensors.size() == b.tensors.size());
  for (const io::Entry& entry : a.tensors) {
    INFO(entry.name);
    REQUIRE(b.find(entry.name));
    const Tensor want = entry.read(), have = b.find(entry.name)->read();
    REQUIRE(want.shape() == have.shape());
    CHECK(std::memcmp(want.raw(), have.raw(), want.bytes()) == 0);
  }
}

} // namespace

TEST_CASE("describing: models under names of their own, every stage as the NumPy reference",
          "[model]") {
  const Folder folder;
  if (!written("own_names.py " + folder.path())) return;
  for (const char* name : {"pre", "post", "shared", "vaswani", "fairseq"}) {
    const std::string model = folder.path(name);
    check_model(model, "f64", 1e-10);
    check_model(model, "f32", 1e-4);
    const std::string description = text_of(model + "/naming.json");
    CHECK(std::ranges::count(description, '\n') <= 40);
  }
}

TEST_CASE("describing: every family is said by a description, and read to its bits", "[model]") {
  Share share(7);
  for (const auto& [script, count] :
       {std::pair("make.py ", 55), {"text_families.py ", 11}, {"more_text_families.py ", 25}}) {
    const Folder folder;
    if (!written(script + folder.path())) return;
    const std::vector<std::string> names = folder.names();
    for (const std::string& name : names)
      if (share.takes()) check_printed(folder.path(name));
    CHECK(static_cast<int>(names.size()) >= count);
  }
}

TEST_CASE("describing: names of GGUF are described as the checkpoint's", "[model]") {
  const Folder folder;
  if (!written("gguf.py model data/bard-llama " + folder.path("m.gguf") + " F16")) return;
  const std::string naming = folder.path("naming.json");
  REQUIRE(run({"info", folder.path("m.gguf"), "--as-naming", "-o", naming}).code == 0);
  const auto logits = [&](std::vector<std::string> extra) {
    extra.insert(extra.begin(),
                 {"show", folder.path("m.gguf"), "--ids", "5,300,7", "-s", "logits", "-f", "csv"});
    const Result shown = run(extra);
    INFO(shown.err);
    CHECK(shown.code == 0);
    return shown.out;
  };
  CHECK(logits({}) == logits({"--naming", naming}));
}

TEST_CASE("describing: layers of a list of prefixes, and whole names") {
  // The wheel's layer twice under two names, given as a list and by {layer} in the names.
  const std::string wheel = in_source("data/wheel");
  const Folder folder;
  std::string naming = text_of(wheel + "/naming.json");
  const auto replace = [&](const std::string& what, const std::string& by) {
    REQUIRE(naming.find(what) != std::string::npos);
    naming.replace(naming.find(what), what.size(), by);
  };
  const auto stream = [&](const std::string& path) {
    const Result shown =
        run({"show", wheel, "--naming", path, "--ids", "3,14,15", "-s", "final", "-f", "csv"});
    INFO(shown.err);
    CHECK(shown.code == 0);
    return shown.out;
  };
  const std::string four = stream(wheel + "/naming.json");
  replace("\"wheel.\"", R"(["wheel.", "wheel.", "wheel.", "wheel."])");
  replace(" \"num_layers\": \"config:turns\",\n", "");
  std::ofstream(folder.path("list.json")) << naming;
  CHECK(stream(folder.path("list.json")) == four);
  replace(R"(["wheel.", "wheel.", "wheel.", "wheel."])", R"(["wheel.", "wheel."])");
  std::ofstream(folder.path("two.json")) << naming;
  CHECK(stream(folder.path("two.json")) != four);
}

TEST_CASE("describing: what is wrong is told by line and tensor") {
  const std::string wheel = in_source("data/wheel");
  const std::string right = text_of(wheel + "/naming.json");
  const Folder folder;
  const std::string path = folder.path("n.json");
  const auto message = [&](const std::string& what, const std::string& by) {
    std::string naming = right;
    INFO(what);
    REQUIRE(naming.find(what) != std::string::npos);
    naming.replace(naming.find(what), what.size(), by);
    std::ofstream(path) << naming;
    const Result result = run({"show", wheel, "--naming", path, "--ids", "3,14", "-s", "logits"});
    CHECK(result.code == 2);
    std::string text = result.err;
    for (const std::string& place : {folder.path(), wheel})
      for (std::size_t at; (at = text.find(place)) != std::string::npos;)
        text.replace(at, place.size(), place == wheel ? "WHEEL" : "F/");
    return text;
  };
  const auto says = [&](const std::string& what, const std::string& by, const std::string& wanted) {
    CHECK(message(what, by) == "mha-inspect: " + wanted + "\n");
  };
  says("\"block\"", "\"blok\"",
       "F/n.json: line 4, column 2: 'blok' is not a key of a description; "
       "did you mean 'block'?");
  says(
      "\"parallel\"", "\"sideways\"",
      "F/n.json: line 4, column 2: block is 'sideways': pre, post, parallel, sandwich, post_inside "
      "or attention_only expected");
  says("\"mlp.out\"", "\"mlp.outer\"",
       "F/n.json: line 11, column 3: 'mlp.outer' is not a tensor of a layer; did you mean "
       "'mlp.out'?");
  says("push.weight", "pusch.weight",
       "F/n.json: line 9, column 3: \"W_o\": WHEEL has no tensor wheel.pusch.weight; did you mean "
       "'wheel.push.weight'?");
  says(R"("layout": "io", "split")", R"("layout": "oi", "split")",
       "F/n.json: line 8, column 3: \"W_qkv\": WHEEL: wheel.pull.kernel, read as oi, takes 90, but "
       "30 are expected; \"layout\": \"io\" would fit");
  says("k,v,q", "k,v",
       "F/n.json: line 8, column 52: split is 'k,v': q,k,v expected, in the order "
       "of the rows");
  says("\"gelu_new\"", "\"config:act\"", "F/n.json: line 5, column 2: config.json has no act");
  says("\"config:turns\"", "\"config:turn\"",
       "F/n.json: line 3, column 2: config.json has no turn; did you mean 'turns'?");
  says("\"config:turns\"", "100000",
       "F/n.json: line 3, column 2: num_layers is 100000: a whole number from 1 to 4096 expected");
  says(
      "\"road\"", "\"hub.weight\"",
      "F/n.json: line 6, column 77: \"embed.position\": WHEEL: hub.weight, read as io, has rows of "
      "14, but 30 are expected");
  says("\"causal\": true", "\"causal\": [true, false]",
       "F/n.json: line 15, column 80: 2 values of causal, but the model has 4 layers");
  says("\"softcap\": 6", "\"softkap\": 6",
       "F/n.json: line 16, column 15: 'softkap' is not a setting; did you mean 'softcap'?");
  says("\"kind\": \"layer\"", "\"kind\": \"group\"",
       "F/n.json: line 13, column 41: kind is 'group': layer, std, rms, batch or none expected");
  says("\"gelu_new\",\n", "\"gelu_new\"\n",
       "F/n.json: line 6, column 2: ',' or '}' expected: a comma is missing before it\n"
       "   \"embed\": [{\"table\": \"hub.weigh\n"
       "   ^");
  says(
      "\"wheel.\"", "\"wheel.{layr}.\"",
      "F/n.json: line 2, column 2: '{layr}' in 'wheel.{layr}.': {layer}, {layer+1}, {2*layer+1} or "
      "{head} expected");
  says("\"grip.weight\"", "\"grip.bias\"",
       "F/n.json: line 10, column 3: \"mlp.in\": WHEEL: wheel.grip.bias is (22,): a matrix "
       "expected");
  says("\"grip.weight\"", "7",
       "F/n.json: line 10, column 3: a tensor's name must be text in quotes");
  says("\"slip_offset\"", "\"grip.bias\"",
       "F/n.json: line 11, column 3: \"mlp.out\": WHEEL: its bias wheel.grip.bias is (22,): 30 "
       "numbers "
       "expected");
  says(
      "\"bell.weight\"", "\"hub.weight\"",
      "F/n.json: line 14, column 11: \"head\": WHEEL: hub.weight, read as oi, takes 14, but 30 are "
      "expected");
  says(R"("push.weight")", R"({"name": "push.weight", "times": "grip.bias"})",
       "F/n.json: line 9, column 3: \"W_o\": WHEEL: wheel.grip.bias is (22,): 30 numbers expected, "
       "one for each output of wheel.push.weight");
  says(R"({"weight": "rim.weight", "kind": "layer"})",
       R"({"weight": "rim.weight", "kind": "std", "one_plus": true})",
       "F/n.json: line 13, column 2: final_norm: one_plus is only for layer and rms norms with a "
       "weight");
  says("{\"config\": \"spokes_or_heads|spokes\", \"default\": 9}", "7",
       "F/n.json: line 8, column 3: \"W_qkv\": WHEEL: wheel.pull.kernel, read as io, gives 90 "
       "numbers, "
       "which do not split into 21 parts of heads");
  says("\"scale\": \"none\"", "\"scale\": \"nothing\"",
       "F/n.json: line 15, column 96: scale is 'nothing': a number, d_k (1/√d_k), d_model "
       "(1/√d_model) "
       "or none (1) expected");
  says("\"gelu_new\"", "\"gelu_newest\"",
       "F/n.json: line 5, column 2: activation is 'gelu_newest', which is not known here: relu, "
       "relu2, "
       "silu, "
       "gelu, gelu_new (gelu_pytorch_tanh), gelu_fast, quick_gelu, solu");
  says("\"softcap\": 6", "\"softcap\": -6",
       "F/n.json: line 16, column 15: softcap is '-6': a number that is not negative expected");
  says("\"road\", \"by\": \"position\"", "\"road\", \"by\": \"position\", \"scale\": \"twice\"",
       "F/n.json: line 6, column 112: 'twice': a number expected");
  const std::pair<const char*, const char*> sinusoids[]{
      {R"("sinusoid": "whole")", "77: sinusoid is 'whole': interleaved or half expected"},
      {R"("sinusoid": "half", "by": "position")",
       "97: by is only for a table or a linear map; sinusoid is computed"},
      {R"("sinusoid": "half", "length": 0)",
       "97: length is 0: a whole number from 1 to 65536 expected"},
      {R"("sinusoid": "half", "base": -2)", "97: base is -2: a number above 0 expected"},
      {R"("table": "road", "by": "position", "base": 2)", "112: base is only for sinusoid"},
      {R"("sinusoid": "half"}, {"table": "road", "by": "position")",
       "98: a second table by position"},
      {R"("prepend": "road")",
       "76: prepend is for models that take vectors, but embed has a table by token"},
      {R"("table": "road", "sinusoid": "half")",
       "76: a step of embed is one of table, sinusoid, linear, prepend and norm"}};
  for (const auto& [step, wanted] : sinusoids)
    says(R"("table": "road", "by": "position")", step,
         "F/n.json: line 6, column " + std::string(wanted));
  // What would be read past without a word.
  says(R"({"weight": "rim.weight", "kind": "layer"})",
       R"({"weight": "rim.weight", "kind": "rms", "bias": "rim.bias"})",
       "F/n.json: line 13, column 2: \"final_norm\": an rms norm has no bias");
  says(R"({"name": "bell.weight"})", R"({"tied": true, "layout": "io"})",
       "F/n.json: line 14, column 25: a tied head is stored as the tokens' table is: it has no "
       "layout");
  says(R"("push.weight")", R"({"name": "push.weight", "bias": false}, "b_o": "slip_offset")",
       "F/n.json: line 9, column 50: \"b_o\": W_o gives its bias as well: remove one of the two");
  says(R"("W_o": "push.weight")", R"("b_qkv": {"values": [1, 2]}, "W_o": "push.weight")",
       "F/n.json: line 9, column 3: \"b_qkv\": values, or a bias that layers may lack, need a "
       "W_qkv "
       "without split and times");
  says(R"("mlp.in": "grip.weight")",
       R"("mlp.in": "grip.weight", "mlp.up": "grip.weight", "mlp.product_bias": "grip.bias")",
       "F/n.json: line 10, column 28: \"mlp.up\": wheel.grip.bias is a bias of mlp.up beside "
       "mlp.product_bias: one of them alone is covered here; \"bias\": false leaves it out");
  says(" \"activation\": \"gelu_new\",\n", "",
       "F/n.json: line 1, column 1: activation is missing: what the feed-forward does, such as "
       "\"gelu\"");
}

TEST_CASE("describing: a tensor that no key names is listed, what is ignored is not") {
  const std::string wheel = in_source("data/wheel");
  const Folder folder;
  std::string naming = text_of(wheel + "/naming.json");
  const std::string head = " \"head\": {\"name\": \"bell.weight\"},\n";
  REQUIRE(naming.find(head) != std::string::npos);
  naming.erase(naming.find(head), head.size());
  const std::string path = folder.path("n.json");
  std::ofstream(path) << naming;
  const std::string unnamed = "nothing in " + path + " names bell.weight";
  const Result whole = run({"show", wheel, "--naming", path, "--ids", "3,14", "-s", "final"});
  CHECK(whole.code == 0);
  CHECK(whole.err.find("bell.weight") != std::string::npos);
  const Result layer = run({"info", wheel, "--naming", path, "--layer", "1"});
  CHECK(layer.code == 0);
  std::string said, word; // lines are wrapped
  std::istringstream words(layer.out + layer.err);
  while (words >> word) said += word + " ";
  CHECK(said.find(unnamed + "; list under \"ignore\" what is not part of the model") !=
        std::string::npos);
  naming.insert(naming.find(" \"settings\""), " \"ignore\": [\"bell.*\"],\n");
  std::ofstream(path) << naming;
  const Result ignored = run({"show", wheel, "--naming", path, "--ids", "3,14", "-s", "final"});
  CHECK(ignored.code == 0);
  CHECK(ignored.err.find("bell.weight") == std::string::npos);
}

TEST_CASE("describing: a rotary base and an eps of config.json that nothing reads are told") {
  const Folder folder;
  const std::string model = folder.path("model"), naming = folder.path("n.json");
  std::filesystem::copy(in_source("data/bard-llama"), model);
  const Result described = run({"info", model, "--as-naming", "-q"});
  REQUIRE(described.code == 0);
  nlohmann::json said = nlohmann::json::parse(described.out);
  nlohmann::json config = nlohmann::json::parse(text_of(model + "/config.json"));
  config["rope_theta"] = 500000.0;
  std::ofstream(model + "/config.json") << config;
  const auto errors = [&] {
    std::ofstream(naming) << said;
    const Result shown =
        run({"predict", model, "--naming", naming, "--ids", "1,5,9", "--top", "1"});
    INFO(shown.err);
    CHECK(shown.code == 0);
    std::string words, word; // lines are wrapped
    std::istringstream lines(shown.err);
    while (lines >> word) words += word + " ";
    return words;
  };
  said["settings"]["rope_base"] = "config:rope_theta";
  CHECK(errors().find("rope_base") == std::string::npos);
  said["settings"].erase("rope_base");
  CHECK(errors().find("config.json: rope_theta is 500000, which " + naming +
                      " does not read: rope_base is 10000; add \"rope_base\": "
                      "\"config:rope_theta\"") != std::string::npos);
  said["settings"]["rope"] = "none";
  CHECK(errors().find("rope_base") == std::string::npos);
}

TEST_CASE("describing: a family's file says what it has otherwise than another", "[model]") {
  const Folder folder;
  const std::string path = folder.path("mine.json");
  const auto logits = [&](const std::string& model, std::vector<std::string> extra) {
    extra.insert(extra.begin(), {"show", model, "--ids", "5,30,7", "-s", "logits", "-f", "csv"});
    const Result shown = run(extra);
    INFO(shown.err);
    CHECK(shown.code == 0);
    return shown.out;
  };
  for (const auto& [model, family] : {std::pair("data/bard-llama", "llama"),
                                      {"data/bard-gpt2", "gpt2"},
                                      {"data/bard-bert", "bert"}}) {
    std::ofstream(path) << "{\"like\": \"" << family << "\"}";
    CHECK(logits(model, {"--naming", path}) == logits(model, {}));
  }
  // Names and a setting of its own, where its config asks for it: names as long as those that were.
  const std::string model = folder.path("model");
  std::filesystem::copy("data/bard-llama", model);
  std::string file = text_of(model + "/model.safetensors");
  for (const auto& [was, is] : {std::pair<std::string, std::string>("\\.mlp\\.", ".ffn."),
                                {"self_attn\\.o_proj", "self_attn.w_proj"},
                                {"model\\.norm\\.", "model.last."}})
    file = std::regex_replace(file, std::regex(was), is);
  std::ofstream(model + "/model.safetensors", std::ios::binary) << file;
  nlohmann::json config = nlohmann::json::parse(text_of("data/bard-llama/config.json"));
  config["model_type"] = "barder", config.erase("architectures");
  std::ofstream(model + "/config.json") << config;
  std::ofstream(path) << R"({
    "title": "Barder", "like": "llama",
    "needs": "q_proj.weight k_proj.weight v_proj.weight w_proj.weight",
    "tensors": {"W_o": "w_proj.weight", "mlp.in": "ffn.gate_proj", "mlp.up": "ffn.up_proj",
                "mlp.out": "ffn.down_proj"},
    "final_norm": "last",
    "cases": [{"when": {"model": "barder"}, "settings": {"scale": 0.5}}]})";
  CHECK(run({"predict", model, "--ids", "5,30,7"}).code == 2);
  CHECK(logits(model, {"--naming", path}) == logits("data/bard-llama", {"--scale", "0.5"}));
  CHECK(run({"info", model, "--naming", path}).out.find("Barder") != std::string::npos);
}

TEST_CASE("describing: what is wrong with a family's file is told by its line") {
  const Folder folder;
  const auto says = [&](const std::string& text, const std::string& wanted) {
    std::ofstream(folder.path("f.json")) << text;
    const Result result =
        run({"predict", "data/bard-llama", "--naming", folder.path("f.json"), "--ids", "5,6"});
    INFO(text << "\n" << result.err);
    CHECK(result.code == 2);
    std::string words, word; // lines are wrapped
    std::istringstream lines(result.err);
    while (lines >> word) words += (words.empty() ? "" : " ") + word;
    CHECK(words.find(wanted) != std::string::npos);
  };
  says(R"({"like": "lama"})",
       "f.json: line 1, column 2: no family is called 'lama'; did you mean 'llama'?");
  says(R"({"like": 3})", "line 1, column 2: like must be text in quotes");
  says(R"({"like": "llama", "bloc": "pre"})",
       "'bloc' is not a key of a family's file; did you mean 'block'?");
  says(R"({"like": "llama", "cases": 5})", "line 1, column 19: cases must be a list");
  says(R"({"like": "llama", "cases": [{"block": "pre"}]})", "a case has no \"when\"");
  says(R"({"like": "llama", "cases": [{"when": {"mdel": "x"}}]})",
       "line 1, column 39: 'mdel' is not a condition; did you mean 'model'?");
  says(R"({"like": "llama", "steps": {"rotary": true}})", "rotary has no style");
  says(R"({"like": "llama", "tests": {"a": {"test": "a"}}, "cases": [{"when": {"test": "a"}}]})",
       "test 'a' uses itself");
  says(R"({"like": "llama", "cases": [{"when": {"all": "x"}}]})",
       "all must be a list of conditions");
  says(R"({"like": "llama", "cases": [{"when": {"number": -1}}]})", "number is -1: a whole number");
  says(R"({"like": "llama", "biases": 3})", "biases must be an object");
  says(R"({"like": "albert"})", "layers share their weights");
  says(R"({"like": "llama_like", "needs": ""})", "\"needs\" is missing");
  says(R"({"like": "bert"})", "has no layer with the tensors of f: self.query.weight");
}

TEST_CASE(
    "describing: a model that is described in full is told of nothing, all its layers are held") {
  const Folder folder;
  const std::string naming = folder.path("naming.json"), model = folder.path("model");
  std::filesystem::copy(in_source("data/bard-llama"), model);
  REQUIRE(run({"info", model, "--as-naming", "-o", naming}).code == 0);
  CHECK(run({"info", model, "--naming", naming}).out.find("nothing in") == std::string::npos);
  CHECK(run({"info", model, "--naming", naming, "--layer", "0", "--strict"}).code == 0);
  // A norm of a later layer that the file lacks is reported whatever is asked for.
  std::string file = text_of(model + "/model.safetensors");
  const std::string name = "layers.2.input_layernorm";
  REQUIRE(file.find(name) != std::string::npos);
  file.replace(file.find(name), name.size(), "layers.2.imput_layernorm");
  std::ofstream(model + "/model.safetensors", std::ios::binary) << file;
  const Result missing = run({"info", model, "--naming", naming, "--layer", "0"});
  CHECK(missing.code == 2);
  CHECK(missing.err.find("input_layernorm") != std::string::npos);
}

TEST_CASE("describing: info --schema is a JSON schema that knows every key") {
  const Result result = run({"info", "--schema"});
  REQUIRE(result.code == 0);
  const nlohmann::json schema = nlohmann::json::parse(result.out);
  const nlohmann::json naming = nlohmann::json::parse(text_of(in_source("data/wheel/naming.json")));
  for (const auto& [key, value] : naming.items()) CHECK(schema["properties"].contains(key));
  for (const auto& [key, value] : naming["tensors"].items())
    CHECK(schema["properties"]["tensors"]["properties"].contains(key));
  for (const auto& [key, value] : naming["settings"].items())
    CHECK(schema["properties"]["settings"]["properties"].contains(key));
  CHECK(schema["additionalProperties"] == false);
  CHECK(run({"info", "--schema", "data/wheel"}).code == 2);
  CHECK(run({"info", "--as-naming"}).code == 2);
  CHECK(run({"info"}).code == 2);
}
