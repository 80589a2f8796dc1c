// What would change nothing, or something else than was meant, without a word.

#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

using namespace mha::test;
using Catch::Contains;

namespace {

const std::string matrix = "[[1, 0, 0, 1], [0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1]]";

/// A layer of two tokens with more in its file.
std::string layer_with(const std::string& more) {
  return fmt::format(R"({{"X": [[1, 0, 1, 0], [0, 1, 0, 1]], "W_q": {0}, "W_k": {0}, "W_v": {0},
                         "W_o": {0}, "num_heads": 2, {1}}})",
                     matrix, more);
}

Result shown(const std::string& more, std::vector<std::string> arguments = {}) {
  arguments.insert(arguments.begin(), {"show", "-", "-s", "output", "-f", "csv"});
  return run(arguments, {.input = layer_with(more)});
}

/// A trained model with another config, or without some tensors (tests/models/edit.py).
std::string edited(const Folder& folder, const std::string& name, const std::string& model,
                   const std::string& edits) {
  const Result result = shell(fmt::format("/usr/bin/python3 tests/models/edit.py data/{} {} {}",
                                          model, folder.path(name), edits));
  INFO(result.err);
  REQUIRE(result.code == 0);
  return folder.path(name);
}

Result predicted(const std::string& model, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"predict", model, "--text", "To be [MASK]", "--top", "1"});
  return run(more);
}

} // namespace

TEST_CASE("silent: one value under a tensor's name, a list under a setting's") {
  for (const std::string more :
       {R"("kv_lengths": 2)", R"("mask": true)", R"("mask": "causal")", R"("b_q": 0.5)"}) {
    const Result result = shown(more);
    INFO(more << result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains("is a tensor") && Contains("not one value"));
  }
  for (const std::string more :
       {R"("causal": [true])", R"("num_kv_heads": [1])", R"("scale": [0.125, 2])"}) {
    const Result result = shown(more);
    INFO(more << result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains("is a setting, one value"));
  }
}

TEST_CASE("silent: settings in a file that change nothing are told as options are") {
  for (const std::string more : {R"("rope": {"base": 500000})", R"("rope_factor": 4)",
                                 R"("qk_norm_eps": 0.5)", R"("input_norm_eps": 0.5)"}) {
    const Result result = shown(more);
    INFO(more << result.err);
    CHECK(result.code == 0);
    CHECK_THAT(result.err, Contains("warning: ") && Contains("changes nothing"));
    CHECK(shown(more, {"--strict"}).code == 2);
  }
  CHECK(shown(R"("rope": {"style": "half", "base": 500000})").err.empty());
  CHECK(shown(R"("rope": {"style": "half"})").out != shown(R"("causal": false)").out);
  CHECK(shown(R"("rope_base": 10000)").err.empty()); // as it is by itself
}

TEST_CASE("silent: a patch of a layer that the model does not have") {
  const Folder folder;
  const std::string stages = folder.path("stages.npz");
  REQUIRE(run({"dump", "data/bard-llama", "--text", "To be [MASK]", "-s", "weights", "-q", "-o",
               stages})
              .code == 0);
  const std::string from = stages + ":layers.0.weights";
  for (const std::string name : {"layers.4.weights", "layers.9.weights", "layers.foo.weights"}) {
    const Result result = predicted("data/bard-llama", {name + "=" + from});
    INFO(name << result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains("layer"));
  }
  const Result patched = predicted("data/bard-llama", {"layers.1.weights=" + from});
  CHECK(patched.code == 0);
  CHECK(patched.out != predicted("data/bard-llama").out);
  CHECK(predicted("data/bard-llama", {"weights=" + from}).code == 2);
}

TEST_CASE("silent: what a file of ids says beside the ids") {
  const Folder folder;
  const auto ids = [&](const std::string& more) {
    return run({"predict", "data/bard-bert", "--ids",
                folder.write("ids.json", R"({"input_ids": [2, 20, 4, 30, 3], )" + more + "}")});
  };
  CHECK(ids(R"("token_type_ids": [0, 0, 0, 0, 0])").code == 0);
  CHECK(ids(R"("position_ids": [0, 1, 2, 3, 4])").code == 0);
  CHECK_THAT(ids(R"("token_type_ids": [0, 0, 0, 1, 1])").err, Contains("segment 1"));
  CHECK_THAT(ids(R"("position_ids": [9, 8, 7, 6, 5])").err, Contains("position_ids has 9"));
  CHECK_THAT(ids(R"("attention_masks": [1, 1, 1, 0, 0])").err,
             Contains("did you mean 'attention_mask'"));
  CHECK(ids(R"("attention_mask": [1, 1, 1, 0, 0])").code == 0);
  CHECK(ids(R"("lengths": [3])").out == ids(R"("attention_mask": [1, 1, 1, 0, 0])").out);
  CHECK_THAT(ids(R"("lengths": [6])").err, Contains("lengths has 6 for text 0: 0 to 5 expected"));
  CHECK_THAT(ids(R"("lengths": [3, 2])").err, Contains("a number for each of 1 texts expected"));
  CHECK_THAT(ids(R"("attention_mask": [[1], [1], [1], [0], [0]])").err, Contains("(5, 1), but"));
  for (const std::string value : {"0.3", "-1", "NaN", "2"})
    CHECK_THAT(ids(R"("attention_mask": [1, 1, 1, 1, )" + value + "]").err,
               Contains("1 for a token and 0 for padding expected"));
  for (const std::string name : {"mask", "padding_mask", "key_padding_mask", "attn_mask"})
    CHECK_THAT(ids("\"" + name + R"(": [1, 1, 1, 0, 0])").err,
               Contains("'" + name + "' is not read beside ids"));
  CHECK_THAT(
      run({"predict", "data/bard-llama", "--ids", folder.write("one.json", R"({"ids": 5})")}).err,
      Contains("holds no list of token numbers: (T) or (B, T) expected"));
}

TEST_CASE("silent: a pad_token_id that is no token is none") {
  const Folder folder;
  std::size_t n = 0;
  for (const std::string pad : {"-1", "99999"}) {
    const std::string path =
        edited(folder, fmt::format("pad{}", n++), "bard-llama", "pad_token_id=" + pad);
    const Result result = run({"predict", path, "--ids", "5,6,7", "--ids", "5,6"});
    INFO(result.err);
    CHECK(result.code == 0);
    CHECK(result.out == run({"predict", "data/bard-llama", "--ids", "5,6,7", "--ids", "5,6"}).out);
  }
}

TEST_CASE("silent: a tensor that the other layers have, or that the config says there is") {
  const Folder folder;
  for (const auto& [model, edits] : {std::pair("bard-gpt2", "-transformer.h.1.attn.c_attn.bias"),
                                     {"bard-gpt2", "-transformer.h.1.mlp.c_fc.bias"},
                                     {"bard-gpt2", "-transformer.ln_f.bias"},
                                     {"bard-llama", "attention_bias=true"},
                                     {"bard-llama", "mlp_bias=true"},
                                     {"bard-bert", "-bert.embeddings.token_type_embeddings.weight"},
                                     {"bard-bert", "-cls.predictions.bias"},
                                     {"bard-bert", "'position_embedding_type=\"relative_key\"'"}}) {
    const std::string path = edited(folder, fmt::format("{}", folder.names().size()), model, edits);
    const Result result = predicted(path);
    INFO(model << " " << edits << "\n" << result.out << result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains("is missing"));
  }
}

TEST_CASE("silent: a rotary scaling or a kind of layer that config.json half says") {
  const Folder folder;
  for (const char* edit : {"'rope_scaling={\"factor\": 4}'", "rope_scaling=4",
                           "'rope_scaling={\"type\": \"linear\"}'"}) {
    const Result result =
        predicted(edited(folder, fmt::format("{}", folder.names().size()), "bard-llama", edit));
    INFO(edit << result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains("rope_scaling"));
  }
  for (const char* types : {"[\"sliding\", \"full_attention\"]", "[\"full_attention\"]"}) {
    const Result result = predicted(
        edited(folder, fmt::format("{}", folder.names().size()), "bard-llama",
               fmt::format("'layer_types={}' sliding_window=3 'model_type=\"mistral\"'", types)));
    INFO(types << result.err);
    CHECK_THAT(result.err, Contains("layer_types"));
  }
}

TEST_CASE("silent: as many items as heads, and a mask of three axes") {
  const Folder folder;
  const std::string input = folder.write(
      "layer.json",
      fmt::format(R"({{"X": [[[1, 0, 1, 0], [0, 1, 0, 1]], [[1, 1, 0, 0], [0, 0, 1, 1]]],
                      "W_q": {0}, "W_k": {0}, "W_v": {0}, "W_o": {0}, "num_heads": 2}})",
                  matrix));
  const std::string mask =
      folder.write("mask.json", R"([[[true, true], [true, true]], [[true, true], [true, false]]])");
  CHECK_THAT(run({"show", input, "mask=" + mask}).err, Contains("warning: ") && Contains("@BTS"));
  CHECK(run({"show", input, "mask=" + mask + "@BTS"}).err.empty());
}

TEST_CASE("silent: measures of what is no weight") {
  const Folder folder;
  const auto warned = [&](const std::string& maps) {
    return run({"stats", "weights=" + folder.write("maps.json", maps)});
  };
  CHECK_THAT(warned("[[[100, 0], [40, 60]]]").err,
             Contains("warning: rows of the weights do not sum to 1"));
  CHECK_THAT(warned("[[[0, -20], [-0.7, -0.7]]]").err, Contains("do not sum to 1"));
  CHECK(warned("[[[1, 0], [0.4, 0.6]]]").err.find("sum") == std::string::npos);
}

TEST_CASE("silent: --query counts from the end of each text, and --layer chooses nothing") {
  const std::vector<std::string> texts{"predict", "data/bard-llama", "--text", "To be",
                                       "--text",  "No, no go",       "--top",  "1"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), texts.begin(), texts.end());
    return run(more);
  };
  CHECK(with({"--query", "-1"}).out == with({}).out);
  CHECK_THAT(with({"--layer", "1"}).err, Contains("--each-layer"));
}

TEST_CASE("silent: settings in an object of their own count") {
  const std::string causal = shown(R"("causal": true)").out;
  CHECK(causal != shown(R"("causal": false)").out);
  for (const char* more : {R"("config": {"causal": true})", R"("attention": {"is_causal": true})",
                           R"("layers": {"0": {"causal": true}})"}) {
    const Result result = shown(more);
    INFO(more << result.err);
    CHECK(result.out == causal);
    CHECK(result.err.empty());
  }
  CHECK_THAT(shown(R"("config": {"cuasal": true})").err,
             Contains("warning: ") && Contains("is it 'causal'?"));
  CHECK(shown(R"("config": {"cuasal": true})", {"--strict"}).code == 2);
  CHECK(shown(R"("training": {"learning_rate": 0.1})", {"--strict"}).code == 0);
  const Result other = shown(R"("norm": {"scale": 7})"); // not attention's
  CHECK(other.out == shown(R"("causal": false)").out);
  CHECK_THAT(other.err, Contains("warning: ") && Contains("skipped, as part of something else: norm.scale"));
}

TEST_CASE("silent: a mask with NaN is the mask's fault, not an overflow") {
  for (const char* more : {R"("mask": [[0, NaN], [0, 0]])", R"("bias": [[0, Infinity], [0, 0]])",
                           R"("key_padding_mask": [0, NaN])"}) {
    const Result result = shown(more);
    INFO(more << result.err);
    CHECK(result.code == 0);
    CHECK_THAT(result.err, Contains("warning: ") && Contains("NaN or inf, the first at") &&
                               !Contains("overflow"));
    CHECK(shown(more, {"--strict"}).code == 2);
  }
  CHECK(shown(R"("mask": [[0, -Infinity], [0, 0]])").err.empty());
}

TEST_CASE("silent: the bias of a numbered module is no position bias") {
  for (const char* more : {R"("ff.linear1.bias": [1, 2], "ff.linear2.bias": [1, 2])",
                           R"("ff.linear1.bias": [[1, 2], [3, 4]])"}) {
    const Result result = shown(more);
    INFO(more << result.err);
    CHECK(result.code == 0);
    CHECK(result.out == shown(R"("causal": false)").out);
    CHECK_THAT(result.err, Contains("skipped, not a tensor of a layer: ff.linear1.bias"));
  }
  const std::string layer =
      fmt::format(R"({{"layers.0.X": [[1, 0, 1, 0]], "layers.0.W_q": {0}, "layers.0.W_k": {0},
                       "layers.0.W_v": {0}, "num_heads": 2, "layers.0.net.0.bias": [1, 2],
                       "layers.0.net.2.bias": [1, 2]}})",
                  matrix);
  const Result numbered = run({"show", "-", "--layer", "0", "-s", "output"}, {.input = layer});
  INFO(numbered.err);
  CHECK(numbered.code == 0);
  CHECK_THAT(numbered.err, Contains("layers.0.net.0.bias"));
}

TEST_CASE("silent: adapters and scales beside a projection's weight") {
  const Folder folder;
  const std::string q = "model.layers.2.self_attn.q_proj", o = "model.layers.2.self_attn.o_proj";
  for (const std::string& edit : {"+" + q + ".lora_A.weight=model.norm.weight",
                                  "+" + o + ".lora_B.weight=model.norm.weight"}) {
    const std::string path =
        edited(folder, fmt::format("{}", folder.names().size()), "bard-llama", edit);
    const Result all = predicted(path),
                 later = run({"show", path, "--text", "To be", "--layer", "3"}),
                 own = run({"show", path, "--text", "To be", "--layer", "2"});
    INFO(edit << all.err << later.err << own.err);
    CHECK_THAT(all.err, Contains("warning: layer 2: ") && Contains("beside a projection's weight"));
    CHECK_THAT(later.err, Contains("warning: layer 2: "));
    CHECK_THAT(own.err, Contains("warning: ") && Contains("beside a projection's weight"));
    CHECK(predicted(path, {"--strict"}).code == 2);
    CHECK(run({"show", path, "--text", "To be", "--layer", "3", "--strict"}).code == 2);
    CHECK(run({"show", path, "--text", "To be", "--layer", "1"}).err.empty());
  }
  const std::string up = "model.layers.1.mlp.up_proj";
  CHECK_THAT(
      predicted(edited(folder, "mlp", "bard-llama", "+" + up + ".lora_B.weight=model.norm.weight"))
          .err,
      Contains("warning: ") && Contains("beside a weight: " + up));
  CHECK_THAT(predicted(edited(folder, "mlp8", "bard-llama",
                              fmt::format("+{0}.weight=model.layers.0.mlp.up_proj.weight:I8", up)))
                 .err,
             Contains("up_proj.weight is int8") && Contains("dequantise"));
  const std::string quantised =
      edited(folder, "int8", "bard-llama",
             fmt::format("+{0}.weight={0}.weight:I8 +{0}.weight_scale=model.norm.weight", q));
  CHECK_THAT(predicted(quantised).err, Contains("is int8") && Contains("dequantise"));
}

TEST_CASE("silent: a head in the file that is not the embedding which it is tied to") {
  const Folder folder;
  const std::string other = edited(folder, "other", "bard-gpt2",
                                   "+lm_head.weight=transformer.wpe.weight"),
                    same = edited(folder, "same", "bard-gpt2",
                                  "+lm_head.weight=transformer.wte.weight"),
                    own = edited(folder, "own", "bard-llama", "tie_word_embeddings=true");
  CHECK_THAT(predicted(other).err, Contains("warning: ") && Contains("is not the embedding"));
  CHECK(predicted(other).out == predicted("data/bard-gpt2").out);
  CHECK(predicted(same).err.empty());
  CHECK_THAT(predicted(own).err, Contains("tie_word_embeddings"));
}

TEST_CASE("silent: a text that is no UTF-8 is a warning in every command") {
  for (const char* command : {"predict", "show", "tokens"}) {
    const Result result = run({command, "data/bard-llama", "--text", "To \xff be", "--strict"});
    INFO(command << result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains("UTF-8"));
  }
  CHECK_THAT(run({"show", "data/bard-llama", "--text", "To \xff be", "-s", "logits"}).err,
             Contains("UTF-8"));
}

TEST_CASE("silent: what the vocabulary has no pieces for") {
  const Result result = run({"tokens", "data/bard-bert", "--text", "to be \xe4\xb8\x96 or"});
  INFO(result.err);
  CHECK_THAT(result.err, Contains("warning: the vocabulary has no pieces for '\xe4\xb8\x96'") &&
                             Contains("[UNK]"));
  CHECK(run({"tokens", "data/bard-bert", "--text", "to be [UNK]", "--strict"}).code == 0);
}
