// Whole models: every stage of every layer from token numbers, beside what PyTorch computed for the
// trained models of data/, and beside the NumPy reference of tests/models for random checkpoints of
// every family.

#include "support/files.hpp"
#include "support/run.hpp"
#include "support/share.hpp"
#include <mha/formats/folder.hpp>
#include <mha/naming/stage_names.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <tuple>

#include <fmt/format.h>

using namespace mha;
using namespace mha::test;

namespace {

/// Whether query t of text b is no padding; `mask` may be empty.
bool is_token(const Tensor& mask, std::size_t b, std::size_t t) {
  return mask.empty() || value_at(mask, b * mask.shape()[1] + t) != 0;
}

/// The largest difference of two tensors in units of the expected one's root mean square, where
/// there are tokens, of maps to tokens; infinite where one is finite and the other is not. `inner`:
/// the axes after the tokens.
double difference(const Tensor& found, const Tensor& expected, const Tensor& mask, bool map = false,
                  std::size_t inner = 1) {
  if (found.shape() != expected.shape()) return INFINITY;
  const Shape& shape = expected.shape();
  const std::size_t T = shape.at(shape.size() - 1 - inner);
  std::size_t width = 1;
  for (std::size_t axis = shape.size() - inner; axis < shape.size(); ++axis) width *= shape[axis];
  const std::size_t items = mask.empty() ? 1 : shape[0];
  double squares = 0, largest = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < expected.count(); ++i) {
    const std::size_t b = i / (expected.count() / items), t = i / width % T;
    if (!is_token(mask, b, t) || (map && !is_token(mask, b, i % width))) continue;
    const double want = value_at(expected, i), have = value_at(found, i);
    if (!std::isfinite(want) || !std::isfinite(have)) {
      if (want != have) return INFINITY;
      continue;
    }
    squares += want * want, ++count;
    largest = std::max(largest, std::abs(want - have));
  }
  return squares > 0 ? largest / std::sqrt(squares / static_cast<double>(count)) : largest;
}

/// Our names for the stages of data/.
std::string our_name(std::string name) {
  for (const auto& [theirs, ours] :
       {std::pair<std::string, std::string>("attn_out", "output"), {"resid_mid", "residual"}})
    if (name.ends_with("." + theirs))
      name.replace(name.size() - theirs.size(), theirs.size(), ours);
  return name;
}

/// Dumps every stage for the ids of `expected`, and compares each stage that is there.
void check_stages(const std::string& checkpoint, const std::string& expected_path,
                  const std::string& precision, double limit) {
  const Folder folder;
  const std::string path = folder.path("out.npz");
  const Result result =
      run({"dump", checkpoint, "--ids", expected_path, "--dtype", precision, "-q", "-o", path});
  INFO(checkpoint << " " << precision << " " << result.err);
  REQUIRE(result.code == 0);
  const io::Contents found = io::open(path), expected = io::open(expected_path);
  const io::Entry* mask_entry = expected.find("attention_mask");
  const Tensor mask = mask_entry ? mask_entry->read() : Tensor();
  std::size_t compared = 0;
  for (const io::Entry& entry : expected.tensors) {
    if (entry.name == "ids" || entry.name == "attention_mask") continue;
    const std::string name = our_name(entry.name);
    INFO(name);
    const io::Entry* ours = found.find(name);
    REQUIRE(ours);
    const std::optional<Stage> stage = find_stage(name.substr(name.rfind('.') + 1));
    const bool map = stage && info_of(*stage).kind == Kind::map;
    // The numbers of chosen experts have an axis of their own.
    const bool of_experts =
        stage && info_of(*stage).letters.size() == 2 && !mask.empty() && entry.shape.size() == 4;
    CHECK(difference(ours->read(), entry.read(), mask, map, of_experts ? 2 : 1) <= limit);
    ++compared;
  }
  CHECK(compared > 5);
}

/// The attention of single layers, each from its own stream, where a model's other layers are of
/// kinds that are not computed.
void check_lone_layers(const std::string& checkpoint, const std::string& expected_path) {
  const Folder folder;
  const io::Contents expected = io::open(expected_path);
  std::size_t layers = 0;
  for (const io::Entry& stream : expected.tensors) {
    if (!stream.name.ends_with(".resid_pre")) continue;
    const std::string prefix = stream.name.substr(0, stream.name.rfind('.') + 1),
                      layer = prefix.substr(7, prefix.size() - 8), path = folder.path(layer);
    std::vector<std::string> words{
        "dump",       checkpoint, "X=" + expected_path + ":" + stream.name,
        "--layer",    layer,      "--input-norm",
        "checkpoint", "--dtype",  "f64",
        "-q",         "-o",       path + ".npz"};
    if (!expected.find(prefix + "k")) // those of an earlier layer
      for (const char* stage : {"k_rope", "v_norm"})
        words.push_back(fmt::format("{}={}:{}{}", stage, expected_path, prefix, stage));
    const Result result = run(words);
    INFO(checkpoint << " " << layer << " " << result.err);
    REQUIRE(result.code == 0);
    const io::Contents found = io::open(path + ".npz");
    for (const io::Entry& entry : expected.tensors) {
      if (!entry.name.starts_with(prefix) || entry.name == stream.name) continue;
      INFO(entry.name);
      const io::Entry* ours = found.find(entry.name.substr(prefix.size()));
      REQUIRE(ours);
      CHECK(difference(ours->read(), entry.read(), {}) <= 1e-10);
    }
    ++layers;
  }
  CHECK(layers > 0);
}

/// "llama" of "llama3.1-yarn": variants of one family begin alike.
std::string family_of_variant(const std::string& variant) {
  return variant.substr(0, variant.find_first_of("-_.0123456789"));
}

} // namespace

TEST_CASE("trained models: every stage as PyTorch computed it", "[model]") {
  for (const auto& [name, text] : {std::pair("bard-gpt2", "line"),
                                   {"bard-gpt2", "sonnet"},
                                   {"bard-llama", "line"},
                                   {"bard-llama", "sonnet"},
                                   {"bard-bert", "line"},
                                   {"bard-bert", "sonnet"},
                                   {"induction-model", "repeat"}}) {
    const std::string folder = in_source(std::string("data/") + name);
    const std::string expected = folder + "/expected/" + text + ".npz";
    check_stages(folder, expected, "f64", 1e-6); // the file holds float32
    check_stages(folder, expected, "f32", 1e-4);
  }
}

TEST_CASE("random checkpoints of every family: every stage as the NumPy reference", "[model]") {
  const Folder folder;
  const Result made = shell("/usr/bin/python3 tests/models/make.py " + folder.path());
  if (made.code != 0) {
    WARN("no NumPy, so nothing to compare with: " << made.err);
    return;
  }
  const std::vector<std::string> variants = folder.names();
  CHECK(variants.size() >= 50);
  Share share(5);
  for (const std::string& variant : variants) {
    if (!share.takes(family_of_variant(variant))) continue;
    const std::string checkpoint = folder.path(variant), expected = checkpoint + "/expected.npz";
    if (!io::open(expected).find("ids")) {
      check_lone_layers(checkpoint, expected);
      continue;
    }
    check_stages(checkpoint, expected, "f64", 1e-10);
    if (!sanitized) check_stages(checkpoint, expected, "f32", 1e-4);
  }
  // What hooks on the modules of their attention give is no difference.
  if (!share.takes("modules")) return;
  const Result modules =
      shell("/usr/bin/python3 tests/models/modules.py \"$MHA\" " + folder.path());
  INFO(modules.out << modules.err);
  CHECK(modules.code == 0);
}

TEST_CASE("further families whose texts are run: every stage as the NumPy reference", "[model]") {
  const Folder folder;
  const std::string each = folder.path();
  const Result made = shell("/usr/bin/python3 tests/models/text_families.py " + each +
                            " && /usr/bin/python3 tests/models/more_text_families.py " + each +
                            " && /usr/bin/python3 tests/models/later_families.py " + each);
  if (made.code != 0) {
    WARN("no NumPy, so nothing to compare with: " << made.err);
    return;
  }
  const std::vector<std::string> names = folder.names();
  CHECK(names.size() >= 66);
  Share share(5);
  for (const std::string& name : names) {
    if (!share.takes(family_of_variant(name))) continue;
    const std::string checkpoint = folder.path(name);
    check_stages(checkpoint, checkpoint + "/expected.npz", "f64", 1e-10);
    if (!sanitized) check_stages(checkpoint, checkpoint + "/expected.npz", "f32", 1e-4);
  }
}

TEST_CASE("every model_type whose texts are computed has a NumPy reference", "[model]") {
  const Folder folder;
  const std::string each = folder.path();
  std::string all = "true";
  for (const char* script : {"make", "text_families", "more_text_families", "later_families"})
    all += fmt::format(" && /usr/bin/python3 tests/models/{}.py {} >/dev/null", script, each);
  if (const Result made = shell(all); made.code != 0) {
    WARN("no NumPy, so there are no references: " << made.err);
    return;
  }
  std::set<std::string> referenced;
  for (const std::string& name : folder.names())
    for (const auto& [key, value] : io::read_config(folder.path(name) + "/config.json"))
      if (key == "model_type" || key == "text_config.model_type") referenced.insert(value);
  std::ifstream table(in_source("tests/data/model_types/computed.txt"));
  std::size_t count = 0;
  for (std::string line; std::getline(table, line);) {
    if (line.find("| whole |") == line.npos) continue;
    const std::string type = line.substr(0, line.find(' '));
    INFO(type);
    CHECK(referenced.count(type) == 1);
    ++count;
  }
  CHECK(count >= 65);
}

TEST_CASE("a layer of a whole model has the bits of a lone layer with the same X", "[model]") {
  const Folder folder;
  const std::string ids = "65,300,12,7,900,44,3,150,27";
  for (const char* name : {"bard-gpt2", "bard-llama", "bard-bert"}) {
    const std::string model = in_source(std::string("data/") + name), whole = folder.path("w.npz"),
                      lone = folder.path("l.npz");
    REQUIRE(run({"dump", model, "--ids", ids, "--layer", "2", "-q", "-o", whole}).code == 0);
    REQUIRE(run({"dump", model, "--layer", "2", "X=" + whole + ":resid_pre", "--input-norm",
                 "checkpoint", "-q", "-o", lone})
                .code == 0);
    const io::Contents found = io::open(whole), expected = io::open(lone);
    for (const io::Entry& entry : expected.tensors) {
      INFO(name << " " << entry.name);
      const Tensor a = entry.read(), b = tensor_in(found, entry.name);
      REQUIRE(a.bytes() == b.bytes());
      CHECK(std::equal(a.raw(), a.raw() + a.bytes(), b.raw()));
    }
    CHECK(expected.tensors.size() > 10);
    CHECK_FALSE(expected.find("resid_post")); // of whole models only
  }
}

TEST_CASE("rows of chosen queries have the bits that they have among all", "[model]") {
  const Folder folder;
  // Two blocks of queries, and a part of one; GPT-2 has a position for each of 128 tokens.
  for (const auto& [name, T, last] : {std::tuple("bard-llama", 300, 280), {"bard-gpt2", 90, 81}}) {
    std::string ids = "65";
    for (int i = 1; i < T; ++i) ids += "," + std::to_string((i * 37 + 11) % 400);
    const std::string model = in_source(std::string("data/") + name), all = folder.path("all.npz"),
                      some = folder.path("some.npz");
    const std::vector<std::string> dump{"dump", model, "--ids",
                                        ids,    "-q",  "--layer",
                                        "all",  "-s",  "residual,mlp_x,mlp_act,mlp_out,resid_post"};
    const auto with = [&](std::vector<std::string> more) {
      more.insert(more.begin(), dump.begin(), dump.end());
      return more;
    };
    REQUIRE(run(with({"-o", all})).code == 0);
    REQUIRE(run(with({"-o", some, "-Q", fmt::format("3,{}", last)})).code == 0);
    const io::Contents whole = io::open(all), chosen = io::open(some);
    std::size_t rows = 0;
    for (const io::Entry& entry : chosen.tensors) {
      if (!is_floating(entry.dtype) || entry.shape.size() != 2 || entry.shape[0] != 2) continue;
      INFO(name << " " << entry.name);
      const Tensor two = entry.read(), of = tensor_in(whole, entry.name);
      const std::size_t row = entry.shape[1] * size_of(entry.dtype);
      CHECK(std::equal(two.raw(), two.raw() + row, of.raw() + 3 * row));
      CHECK(std::equal(two.raw() + row, two.raw() + 2 * row,
                       of.raw() + static_cast<std::size_t>(last) * row));
      ++rows;
    }
    CHECK(rows == 4 * 5);
  }
}

TEST_CASE("a text in a batch has the bits that it has alone", "[model]") {
  const Folder folder;
  for (const char* name : {"bard-gpt2", "bard-llama", "bard-bert"}) {
    const std::string model = in_source(std::string("data/") + name), all = folder.path("all.npz"),
                      one = folder.path("one.npz");
    REQUIRE(
        run({"dump", model, "--ids", "5,6,7,8,9,10,11", "--ids", "90,80,70,60", "-q", "-o", all})
            .code == 0);
    REQUIRE(run({"dump", model, "--ids", "90,80,70,60", "-q", "-o", one}).code == 0);
    const io::Contents batch = io::open(all), alone = io::open(one);
    for (const char* stage : {"embed", "layers.0.q", "layers.1.resid_post", "layers.3.output",
                              "layers.3.mlp_act", "layers.3.resid_post", "logits"}) {
      INFO(name << " " << stage);
      const Tensor item = tensor_in(batch, stage).at(1), want = tensor_in(alone, stage);
      const std::size_t row = want.shape().back(), T = want.shape()[want.rank() - 2];
      const std::size_t padded = item.shape()[item.rank() - 2], heads = want.count() / (row * T);
      for (std::size_t h = 0; h < heads; ++h)
        for (std::size_t i = 0; i < T * row; ++i)
          if (value_at(item, h * padded * row + i) != value_at(want, h * T * row + i))
            FAIL("differs at " << h << ", " << i);
    }
  }
}

TEST_CASE("logits of chosen positions have the bits that they have among all", "[model]") {
  const Folder folder;
  const std::string model = in_source("data/bard-llama"), all = folder.path("all.npz");
  std::string ids = "9"; // two blocks of queries, and a shorter text
  for (int t = 1; t < 300; ++t) ids += "," + std::to_string((t * 37 + t / 7) % 900);
  const auto dumped = [&](const std::string& path, const std::vector<std::string>& chosen) {
    std::vector<std::string> command{"dump", model,          "--ids", ids,  "--ids", "8,7,6,5",
                                     "-s",   "logits,final", "-q",    "-o", path};
    command.insert(command.end(), chosen.begin(), chosen.end());
    REQUIRE(run(command).code == 0);
    return io::open(path);
  };
  const io::Contents whole = dumped(all, {});
  for (const std::vector<std::size_t>& positions :
       std::vector<std::vector<std::size_t>>{{299}, {3}, {2, 5, 254}, {255, 256}, {1, 257, 298}}) {
    std::string list;
    for (std::size_t t : positions) list += (list.empty() ? "" : ",") + std::to_string(t);
    const io::Contents some = dumped(folder.path("some.npz"), {"--query", list});
    for (const char* stage : {"final", "logits"}) {
      const Tensor found = tensor_in(some, stage), want = tensor_in(whole, stage);
      const std::size_t row = want.shape().back() * size_of(want.dtype());
      INFO(stage << " " << list);
      REQUIRE(found.count() == 2 * positions.size() * want.shape().back());
      for (std::size_t b = 0; b < 2; ++b)
        for (std::size_t i = 0; i < positions.size(); ++i) {
          const std::byte* const a = found.raw() + (b * positions.size() + i) * row;
          CHECK(std::equal(a, a + row, want.raw() + (b * 300 + positions[i]) * row));
        }
    }
  }
}

TEST_CASE("a step of a whole model is replaced, and everything after follows", "[model]") {
  const Folder folder;
  const std::string model = in_source("data/bard-gpt2"), ids = "65,300,12,7",
                    a = folder.path("a.npz"), b = folder.path("b.npz");
  REQUIRE(run({"dump", model, "--ids", ids, "-q", "-o", a}).code == 0);
  // Its own values change nothing.
  REQUIRE(run({"dump", model, "--ids", ids, "-q", "-o", b,
               "layers.1.weights=" + a + ":layers.1.weights"})
              .code == 0);
  const io::Contents before = io::open(a);
  {
    const io::Contents after = io::open(b);
    CHECK(difference(tensor_in(after, "logits"), tensor_in(before, "logits"), {}) < 1e-6);
  }
  // Another layer's do, from there on.
  REQUIRE(run({"dump", model, "--ids", ids, "-q", "-o", b,
               "layers.1.mlp_out=" + a + ":layers.0.mlp_out"})
              .code == 0);
  const io::Contents after = io::open(b);
  CHECK(difference(tensor_in(after, "layers.1.residual"), tensor_in(before, "layers.1.residual"),
                   {}) == 0);
  CHECK(difference(tensor_in(after, "layers.1.mlp_out"), tensor_in(before, "layers.0.mlp_out"),
                   {}) == 0);
  CHECK(difference(tensor_in(after, "layers.2.resid_pre"), tensor_in(before, "layers.2.resid_pre"),
                   {}) > 1e-3);
}
