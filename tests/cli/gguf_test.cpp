// GGUF: files that a writer in Python makes of checkpoints (tests/models/gguf.py) are computed to
// the checkpoint's own bits, and every type of blocks is decoded to the bits of NumPy.

#include "support/files.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>

using namespace mha;
using namespace mha::test;

namespace {

/// The writer; nothing where there is no NumPy.
bool gguf(const std::string& arguments) {
  const Result made = shell("/usr/bin/python3 tests/models/gguf.py " + arguments);
  if (made.code != 0) WARN("no NumPy, so nothing to compare with: " << made.err);
  return made.code == 0;
}

/// Writes the variants of tests/models; nothing where there is no NumPy.
bool checkpoints(const Folder& folder, const std::vector<std::string>& variants) {
  std::string names;
  for (const std::string& variant : variants) names += " " + variant;
  const Result made = shell("/usr/bin/python3 tests/models/make.py " + folder.path() + names);
  if (made.code != 0) WARN("no NumPy, so nothing to compare with: " << made.err);
  return made.code == 0;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

/// Every stage of both for the same text or numbers: the same names, and the same bits, or within
/// `limit` of each stage's root mean square. BERT's file has no head, so no logits.
void check_same(const std::string& a, const std::string& b, const std::vector<std::string>& text,
                double limit = 0) {
  const bool headless = b.find("bert") != std::string::npos;
  const Folder folder;
  const auto dumped = [&](const std::string& model, const char* name) {
    std::vector<std::string> command{"dump", model, "-q", "-o", folder.path(name)};
    command.insert(command.end(), text.begin(), text.end());
    const Result result = run(command);
    INFO(model << " " << result.err);
    REQUIRE(result.code == 0);
    return io::open(folder.path(name));
  };
  const io::Contents found = dumped(a, "a.npz"), wanted = dumped(b, "b.npz");
  CHECK(wanted.tensors.size() > 6);
  for (const io::Entry& entry : wanted.tensors) {
    INFO(a << " " << entry.name);
    if (headless && entry.name == "logits") continue;
    REQUIRE(found.find(entry.name));
    const Tensor have = found.find(entry.name)->read(), want = entry.read();
    if (limit == 0) {
      CHECK(same_bits(have, want));
      continue;
    }
    REQUIRE(have.shape() == want.shape());
    double squares = 0, largest = 0;
    std::size_t finite = 0;
    for (std::size_t i = 0; i < want.count(); ++i) {
      const double x = value_at(want, i), y = value_at(have, i);
      if (!std::isfinite(x) || !std::isfinite(y)) {
        CHECK(x == y);
        continue;
      }
      squares += x * x, ++finite;
      largest = std::max(largest, std::abs(x - y));
    }
    if (squares > 0) CHECK(largest <= limit * std::sqrt(squares / static_cast<double>(finite)));
  }
}

const std::vector<std::string> some_ids{"--ids", "5,6,7,8,30,5,6", "--dtype", "f32"};

} // namespace

TEST_CASE("GGUF: every type is decoded to the bits of NumPy", "[gguf]") {
  const Folder folder;
  for (const char* seed : {"0", "1"}) {
    if (!gguf("types " + folder.path("t.gguf") + " " + folder.path("t.npz") + " --seed " + seed))
      return;
    const io::Contents found = io::open(folder.path("t.gguf")),
                       wanted = io::open(folder.path("t.npz"));
    std::size_t blocks = 0, scalars = 0;
    for (const io::Entry& entry : found.tensors) {
      INFO(entry.name);
      const io::Entry* want = wanted.find(entry.name);
      if (!want) { // numbers without axes
        ++scalars;
        CHECK(entry.shape.empty());
        CHECK(entry.read().count() == 1);
        continue;
      }
      const Tensor have =
          entry.dtype == DType::bf16 ? convert(entry.read(), DType::f32) : entry.read();
      CHECK(same_bits(have, want->read()));
      if (!entry.blocks) continue;
      ++blocks;
      CHECK(entry.name.starts_with(std::string(entry.type_name()) + "."));
      // Neighbouring numbers are a step apart: no two different ones of a block are nearer.
      const Tensor steps = entry.steps(), values = entry.read();
      REQUIRE(steps.shape() == values.shape());
      const std::span<const float> v = values.as<float>(), s = steps.as<float>();
      if (entry.type_name() == "MXFP4") continue;
      for (std::size_t i = 1; i < v.size(); ++i)
        if (i % 16 != 0 && v[i] != v[i - 1])
          if (std::abs(v[i] - v[i - 1]) < 0.99f * s[i]) FAIL("nearer than a step at " << i);
    }
    CHECK(blocks == 44);
    CHECK(scalars == 8);
  }
}

TEST_CASE("GGUF of a checkpoint: the same text gives the same tokens and bits", "[gguf]") {
  const Folder folder;
  const std::string out = folder.path("model.gguf");
  for (const char* name : {"bard-llama", "bard-gpt2", "bard-bert"})
    for (const char* type : {"F32", "F16"}) {
      const std::string checkpoint = in_source(std::string("data/") + name);
      if (!gguf("model " + checkpoint + " " + out + " " + type)) return;
      check_same(out, checkpoint, {"--text", "To be, or not to be: that's 3 questions.\n"});
      for (const char* text :
           {"", " ", "Romeo", "  two  blanks\n\nand lines", "caf\u00e9 \u4f60 \U0001f600 1234567",
            "<|begin_of_text|>[MASK]</s>", "DON'T we'll I've", "x=1;\ty++ ...!?"}) {
        const Result have = run({"tokens", out, "--text", text, "-f", "json"}),
                     want = run({"tokens", checkpoint, "--text", text, "-f", "json"});
        INFO(name << " '" << text << "' " << have.err << want.err);
        CHECK(have.code == 0);
        CHECK(have.out == want.out);
      }
    }
}

TEST_CASE("GGUF in blocks: the bits of a checkpoint with the rounded numbers", "[gguf]") {
  const Folder folder;
  const std::string out = folder.path("model.gguf");
  for (const char* name : {"bard-llama", "bard-gpt2", "bard-bert"}) {
    const std::string checkpoint = in_source(std::string("data/") + name),
                      rounded = folder.path(name);
    if (!gguf("model " + checkpoint + " " + out + " Q8_0 --rounded " + rounded)) return;
    check_same(out, rounded, {"--text", "To be, or not to be"});
    check_same(out, checkpoint, {"--text", "To be, or not to be", "-s", "output,head_out"}, 0.2);
  }
}

TEST_CASE("GGUF of random checkpoints of every architecture: the same bits", "[gguf]") {
  const Folder folder;
  const std::vector<std::string> variants{"llama1",
                                          "llama2-gqa",
                                          "mistral",
                                          "qwen2",
                                          "qwen3",
                                          "qwen3-untied",
                                          "gpt2",
                                          "neox-parallel",
                                          "phi3",
                                          "gemma-of-4-relu",
                                          "gemma2",
                                          "gemma3-layer-types",
                                          "llama3.1",
                                          "llama3.2",
                                          "llama2-linear-rope",
                                          "qwen2.5-yarn",
                                          "phi3-longrope"};
  if (!checkpoints(folder, variants)) return;
  for (const std::string& variant : variants) {
    const std::string out = folder.path(variant + ".gguf");
    REQUIRE(gguf("model " + folder.path(variant) + " " + out + " F32"));
    // A norm that is stored + 1 lost its last bits; factors of frequencies are float32 in the file.
    const bool rounded = variant.starts_with("gemma") || variant.starts_with("llama3.") ||
                         variant.ends_with("longrope");
    check_same(out, folder.path(variant), some_ids, rounded ? 1e-4 : 0);
  }
}

TEST_CASE("GGUF of Gemma: the embedding's factor is float32, as llama.cpp's, in files of any type",
          "[gguf]") {
  const Folder folder;
  if (!checkpoints(folder, {"gemma"})) return;
  const auto embedded = [&](const std::string& model) {
    const std::string out = folder.path("embed.npz");
    REQUIRE(run({"dump", model, "--ids", "3", "-s", "embed", "-q", "-o", out}).code == 0);
    return tensor_in(io::open(out), "embed");
  };
  const std::string out = folder.path("gemma.gguf");
  REQUIRE(gguf("model " + folder.path("gemma") + " " + out + " BF16"));
  const Tensor rounded = embedded(folder.path("gemma")), own = embedded(out);
  const double root = std::sqrt(static_cast<double>(own.count()));
  // Transformers rounds √d to the 8 bits of the checkpoint's bfloat16.
  const double step = std::exp2(std::floor(std::log2(root)) - 7);
  const double expected = root / (std::nearbyint(root / step) * step);
  REQUIRE(std::fabs(expected - 1) > 1e-4);
  for (std::size_t i = 0; i < own.count(); ++i)
    if (const double x = value_at(rounded, i); x != 0)
      CHECK(std::fabs(value_at(own, i) / x - expected) < 1e-6);
}

TEST_CASE("GGUF of further families: the checkpoint's numbers", "[gguf]") {
  const Folder folder;
  for (const std::string maker : {"more_text_families", "later_families"}) {
    const Result made = shell("/usr/bin/python3 tests/models/" + maker + ".py " + folder.path());
    if (made.code != 0) {
      WARN("no NumPy, so nothing to compare with: " << made.err);
      return;
    }
  }
  for (const std::string variant :
       {"granite",   "smollm3",    "stablelm", "stablelm-parallel", "cohere",     "cohere-plus",
        "cohere2",   "olmo",       "olmo2",    "exaone4",           "ernie",      "glm4",
        "starcoder", "starcoder2", "phi",      "falcon-7b",         "falcon-40b", "seed_oss",
        "arcee",     "jais2",      "nemotron", "eurobert"}) {
    const std::string out = folder.path(variant + ".gguf");
    REQUIRE(gguf("model " + folder.path(variant) + " " + out + " F32"));
    // The base of the rotation, and factors, are float32 in the file.
    const bool rounded = variant == "granite" || variant == "starcoder2";
    check_same(out, folder.path(variant), some_ids, rounded ? 1e-4 : 0);
  }
}

TEST_CASE("GGUF of mixtures of experts: the checkpoint's numbers", "[gguf][mixture]") {
  const Folder folder;
  const std::vector<std::string> variants{"mixtral",
                                          "qwen2_moe",
                                          "qwen3_moe",
                                          "olmoe",
                                          "gpt_oss-truncated",
                                          "deepseek",
                                          "deepseek_v2",
                                          "deepseek_v3",
                                          "glm4_moe",
                                          "granitemoe",
                                          "ernie4_5_moe",
                                          "minimax_m2",
                                          "hunyuan_v1_moe",
                                          "dots1",
                                          "bailing_moe",
                                          "exaone_moe",
                                          "hunyuan_v1_dense-plain"};
  if (!checkpoints(folder, variants)) return;
  for (const std::string& variant : variants)
    // DeepSeek's kv_b is one tensor, or two.
    for (const char* form : {"", " --kv-b"}) {
      if (*form && !variant.starts_with("deepseek_")) continue;
      const std::string out = folder.path(variant + ".gguf");
      REQUIRE(gguf("model " + folder.path(variant) + " " + out + " F32" + form));
      // Numbers of the configuration are float32 in the file.
      check_same(out, folder.path(variant), some_ids, 1e-4);
    }
}

TEST_CASE("GGUF of Gemma 4: the checkpoint's bits", "[gguf]") {
  const Folder folder;
  const std::vector<std::string> variants{"gemma4_text", "gemma4_text-e", "gemma4_text-moe"};
  if (!checkpoints(folder, variants)) return;
  for (const std::string& variant : variants) {
    const std::string out = folder.path(variant + ".gguf");
    REQUIRE(gguf("model " + folder.path(variant) + " " + out + " F32"));
    check_same(out, folder.path(variant), some_ids);
  }
}

TEST_CASE("GGUF of gated models: no key is without effect and without a word", "[gguf]") {
  const Folder folder;
  const Result keys = shell("/usr/bin/python3 tests/models/gguf_keys.py \"$MHA\" " + folder.path());
  INFO(keys.out << keys.err);
  if (keys.err.find("'numpy'") != std::string::npos || keys.code == 127)
    WARN("no NumPy, so nothing to compare with");
  else
    CHECK(keys.code == 0);
}

TEST_CASE("GGUF in shards, and in the file's own order", "[gguf]") {
  const Folder folder;
  const std::string checkpoint = in_source("data/bard-llama"), out = folder.path("model.gguf");
  if (!gguf("model " + checkpoint + " " + out + " F16 --shards 3")) return;
  for (const char* shard : {"1", "2", "3"})
    check_same(folder.path(std::string("model-0000") + shard + "-of-00003.gguf"), checkpoint,
               {"--text", "Romeo", "-s", "q,k,weights,output,logits"});
  std::filesystem::remove(folder.path("model-00002-of-00003.gguf"));
  const Result missing = run({"info", folder.path("model-00001-of-00003.gguf")});
  CHECK(missing.code == 2);
  CHECK(missing.err.find("shard 2 of 3 is missing") != std::string::npos);

  REQUIRE(gguf("model " + checkpoint + " " + out + " F16"));
  const auto dumped = [&](const char* name, const std::vector<std::string>& more) {
    std::vector<std::string> command{"dump", out,  "--text",         "Romeo, Romeo",
                                     "-q",   "-o", folder.path(name)};
    command.insert(command.end(), more.begin(), more.end());
    const Result result = run(command);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return io::open(folder.path(name));
  };
  const io::Contents turned = dumped("a.npz", {}), own = dumped("b.npz", {"--gguf-order"});
  std::size_t moved = 0;
  for (const io::Entry& entry : turned.tensors) {
    const Tensor a = entry.read(), b = own.find(entry.name)->read();
    INFO(entry.name);
    REQUIRE(a.shape() == b.shape());
    const std::string stage = entry.name.substr(entry.name.rfind('.') + 1);
    const bool of_pairs = stage == "q" || stage == "k" || stage == "q_rope" || stage == "k_rope";
    for (std::size_t i = 0; i < a.count(); ++i) {
      std::size_t at =
          i; // element 2 j of a head is element j of the first half, 2 j + 1 of the other
      if (const std::size_t d = a.shape().back(); of_pairs)
        at = i - i % d + i % d % (d / 2) * 2 + i % d / (d / 2);
      const double x = value_at(a, i), y = value_at(b, at);
      if (!(std::abs(x - y) <= 1e-4 * (1 + std::abs(x))) && x != y)
        FAIL("differs at " << i << ": " << x << " " << y);
    }
    moved += of_pairs;
  }
  CHECK(moved == 16);
}

TEST_CASE("GGUF: llama.cpp's queries and keys are recognised in either order of a head", "[gguf]") {
  const Folder folder;
  const std::string model = folder.path("model.gguf");
  if (!gguf("model " + in_source("data/bard-llama") + " " + model + " F16")) return;
  const std::vector<std::string> text{"--ids", "5,300,7,9,30"};
  const auto with = [&](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), text.begin(), text.end());
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  for (const std::string rotated : {"", "_rope"})
    for (const char* order : {"--gguf-order", ""}) {
      std::vector<std::string> dump{"dump",
                                    model,
                                    "-q",
                                    "-s",
                                    "q" + rotated + ",k" + rotated + ",v",
                                    "-o",
                                    folder.path("own.npz")};
      if (*order) dump.push_back(order);
      REQUIRE(with(dump, {}).code == 0);
      // As llama.cpp's graph has them: T, H, d_k, with or without the rotation under one name.
      REQUIRE(shell("/usr/bin/python3 -c \"import numpy as np; o = np.load('" +
                    folder.path("own.npz") + "'); np.savez('" + folder.path("ref.npz") +
                    "', **{f'{s[0].upper()}cur-{n}': o[f'layers.{n}.{s}'].transpose(1, 0, 2) "
                    "for n in range(4) for s in ('q" +
                    rotated + "', 'k" + rotated + "', 'v')})\"")
                  .code == 0);
      for (const char* own : {"--gguf-order", ""}) {
        std::vector<std::string> diff{"diff", model, "--against", folder.path("ref.npz")};
        if (*own) diff.push_back(own);
        const Result result = with(diff, {});
        INFO("reference " << rotated << order << ", own " << own << "\n"
                          << result.out << result.err);
        CHECK(result.code == 0);
        const bool other = std::string(order) != own;
        CHECK((result.err.find("of a head put as") != std::string::npos) == other);
      }
    }
}

TEST_CASE("GGUF: SentencePiece by scores gives the tokens that trying all pairs gives", "[gguf]") {
  const Folder folder;
  for (const char* options : {"", " --no-prefix", " --seed 1", " --seed 2 --no-prefix"}) {
    const Result made =
        shell("/usr/bin/python3 tests/models/gguf.py words " + folder.path("w.gguf") + options);
    if (made.code != 0) {
      WARN("no NumPy, so nothing to compare with: " << made.err);
      return;
    }
    std::size_t texts = 0;
    for (const auto& one : nlohmann::json::parse(made.out)) {
      const std::string text = one["text"];
      const Result found = run({"tokens", folder.path("w.gguf"), "--text", text, "-f", "json"});
      INFO(options << " '" << text << "' " << found.out << found.err);
      REQUIRE(found.code == 0);
      const auto ids = nlohmann::json::parse(found.out)["ids"].get<std::vector<int>>();
      CHECK(ids == one["ids"].get<std::vector<int>>());
      ++texts;
    }
    CHECK(texts > 40);
  }
}

TEST_CASE("GGUF: a file of 5 GB is listed by its header", "[gguf]") {
  const Folder folder;
  if (!gguf("sparse " + folder.path("big.gguf") + " 5000000000")) return;
  const Result listed =
      run({"info", "--headers", folder.path("big-00001-of-00002.gguf"), "-f", "json"});
  INFO(listed.err);
  CHECK(listed.code == 0);
  CHECK(listed.out.find("model.layers.1.mlp.up_proj.weight") != std::string::npos);
}

TEST_CASE("GGUF: what is said of a file", "[gguf]") {
  const Folder folder;
  const std::string out = folder.path("m.gguf");
  if (!gguf("model " + in_source("data/bard-llama") + " " + out + " Q8_0")) return;
  const Result listed = run({"info", out, "--layer", "0"});
  CHECK(listed.code == 0);
  for (const char* said : {"gguf", "Q8_0", "model.layers.0.self_attn.q_proj.weight", "float32"})
    CHECK(listed.out.find(said) != std::string::npos);
  // A tensor is bound by either name.
  for (const char* name : {"blk.0.attn_v.weight", "model.layers.0.self_attn.v_proj.weight"}) {
    const Result bound = run({"info", "W_v=" + out + ":" + name + "@OI", "--num-heads", "2"});
    INFO(bound.err);
    CHECK(bound.code == 0);
  }
  const Result missing = run({"info", "W_v=" + out + ":blk.9.attn_v.weight@OI"});
  CHECK(missing.code == 2);
  CHECK(one_line(missing.err));
}
