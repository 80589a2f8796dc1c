// What a model's files state twice, or of another model: reported by every command that computes
// it.

#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <filesystem>

using namespace mha::test;
using Catch::Contains;
using nlohmann::json;

namespace {

/// A copy of a trained model, with some settings of one of its files changed.
std::string changed(const Folder& folder, const std::string& model, const std::string& file,
                    const json& settings) {
  const std::string path = folder.path(model);
  std::filesystem::remove_all(path);
  REQUIRE(shell("cp -r 'data/" + model + "' '" + path + "'").code == 0);
  json tree = json::parse(folder.read(model + "/" + file));
  tree.merge_patch(settings);
  folder.write(model + "/" + file, tree.dump());
  return path;
}

} // namespace

TEST_CASE("a warning about the layers is told by every command that computes them") {
  const Folder folder;
  // The type of the scaling is given twice.
  const std::string path =
      changed(folder, "bard-llama", "config.json",
              {{"rope_scaling", {{"type", "linear"}, {"rope_type", "default"}, {"factor", 2}}}});
  for (const std::string command :
       {"predict", "predict --of layers.1.mlp_out", "predict --each-layer", "effects",
        "effects --per-position -f csv", "effects --sweep mlp_out --patch-from-ids 5,6,9",
        "stats --measures first", "stats --by text --measures first", "show -s weights --layer 3",
        "dump -s logits -o /dev/null -f npy", "explain --layer 3 --head 0 --query 1",
        "report --layer 3 -o page.html", "map --layer 3 --head 0"}) {
    const std::string line =
        "cd '" + folder.path() + "' && \"$MHA\" " + command + " '" + path + "' --ids 5,7,9";
    const Result result = shell(line);
    INFO(command << "\n" << result.err);
    CHECK(result.code == 0);
    const std::string told = "layers 0–3: config.json's rope_scaling has rope_type default";
    CHECK_THAT(result.err, Contains(told));
    CHECK(result.err.find(told) == result.err.rfind(told));
    const Result strict = shell(line + " --strict");
    CHECK(strict.code == 2);
    CHECK_THAT(shell(line + " --quiet").err, !Contains("rope_type"));
  }
}

TEST_CASE("a text that values are taken from is looked at as the run's own") {
  const std::string told = "the vocabulary has no pieces for '€': read as [UNK]";
  const auto check = [&](std::vector<std::string> line, const std::string& from) {
    line.insert(line.begin() + 1, {"data/bard-bert", "--text", "to be or"});
    const Result result = run(line);
    INFO(fmt::format("{}", line[4]) << "\n" << result.err);
    CHECK(result.code == 0);
    CHECK_THAT(result.err, Contains("warning: ") && Contains(from + told));
    CHECK(result.err.find(told) == result.err.rfind(told));
    line.emplace_back("--strict");
    CHECK(run(line).code == 2);
  };
  const std::string from = "from 'to be €'", patch = "layers.1.resid_pre = " + from;
  check({"show", "--layer", "2", "-s", "weights", "--patch", patch}, from + ": ");
  check({"predict", "--query", "1", "--patch", patch}, from + ": ");
  check({"effects", "--query", "1", "--patch", patch}, from + ": ");
  check({"stats", "--measures", "first", "--patch", "layers.*.resid_pre = " + from}, from + ": ");
  check({"predict", "--query", "1", "--patch", "logits = " + from}, from + ": ");
  check({"effects", "--query", "1", "--answer", "be", "--versus", "to", "--sweep", "resid_pre",
         "--patch-from", "to be €"},
        "--patch-from: ");
}

TEST_CASE("one file of weights beside the shards of another is told") {
  const Folder folder;
  const std::string path = changed(folder, "bard-llama", "config.json", json::object());
  const std::vector<std::string> words{"predict", path, "--ids", "5,7,9"};
  const std::string plain = run(words).out;
  const std::string index = "bard-llama/model.safetensors.index.json";
  struct Case {
    std::string index;
    bool told;
  };
  for (const Case& one :
       {Case{R"({"weight_map": {"lm_head.weight": "model-00001-of-00002.safetensors"}})", true},
        {R"({"weight_map": {"lm_head.weight": "model.safetensors"}})", false},
        {R"({"weight_map": {"lm_head.weight": "model-00002-of-00002.safetensors"}})", false}}) {
    folder.write(index, one.index);
    folder.write("bard-llama/model-00001-of-00002.safetensors", "");
    const Result result = run(words);
    INFO(one.index << "\n" << result.err);
    CHECK(result.out == plain);
    CHECK(result.err.empty() != one.told);
    if (one.told)
      CHECK_THAT(result.err, Contains("warning: ") &&
                                 Contains("model.safetensors is read, and not model-00001-of-") &&
                                 Contains("model.safetensors.index.json"));
  }
}

TEST_CASE("an added token behind a gap of numbers is told") {
  const Folder folder;
  const auto token = [](int id, const std::string& content) {
    return json{{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
                {"rstrip", false}, {"normalized", false}, {"special", true}};
  };
  struct Case {
    std::vector<int> ids;
    std::string told;
  };
  for (const Case& one : {Case{{1024}, ""},
                          {{1024, 1025}, ""},
                          {{1030},
                           "'<0>' the number 1030, which counts here; Transformers gives "
                           "it the next one, 1024"},
                          {{1024, 1030}, "'<1>' the number 1030"},
                          {{1025, 1024}, "'<0>' the number 1025"}}) {
    json added = json::array();
    std::string text = "To";
    for (std::size_t i = 0; i < one.ids.size(); ++i) {
      added.push_back(token(one.ids[i], fmt::format("<{}>", i)));
      text += fmt::format("<{}>", i);
    }
    const std::string path =
        changed(folder, "bard-gpt2", "tokenizer.json", {{"added_tokens", added}});
    const Result result = run({"tokens", path, "--text", text, "-f", "json"});
    INFO(fmt::format("{}", fmt::join(one.ids, " ")) << "\n" << result.err);
    CHECK(result.code == 0);
    const json ids = json::parse(result.out)["ids"];
    for (std::size_t i = 0; i < one.ids.size(); ++i)
      CHECK(ids[ids.size() - one.ids.size() + i] == one.ids[i]);
    CHECK(result.err.empty() == one.told.empty());
    CHECK_THAT(result.err, Contains(one.told));
  }
}

TEST_CASE("a base of rotation that is said twice is told where the two differ") {
  const Folder folder;
  const auto told = [&](const json& settings) {
    const Result result =
        run({"predict", changed(folder, "bard-llama", "config.json", settings), "--ids", "5,7"});
    INFO(result.err);
    CHECK(result.code == 0);
    return result.err;
  };
  for (const char* object : {"rope_parameters", "rope_scaling"}) {
    CHECK(told({{object, {{"rope_type", "default"}, {"rope_theta", 10000.0}}}}).empty());
    CHECK(told({{object, {{"rope_type", "default"}, {"rope_theta", 10000}}}}).empty());
    CHECK_THAT(told({{object, {{"rope_type", "default"}, {"rope_theta", 500.0}}}}),
               Contains("not read here: rope_theta 10000"));
  }
}

TEST_CASE("factors that frequencies are divided by are positive numbers") {
  const Folder folder;
  for (const json& wrong : {json(0), json(-1.5)}) {
    json factors = json::array({1, 1, 1, 1, 1, 1, 1, 1});
    factors[3] = wrong;
    for (const char* name : {"short_factor", "long_factor"}) {
      json scaling{{"rope_type", "longrope"},
                   {"factor", 2},
                   {"original_max_position_embeddings", 64},
                   {"short_factor", json::array({1, 1, 1, 1, 1, 1, 1, 1})},
                   {"long_factor", json::array({1, 1, 1, 1, 1, 1, 1, 1})}};
      scaling[name] = factors;
      const Result result =
          run({"predict", changed(folder, "bard-llama", "config.json", {{"rope_scaling", scaling}}),
               "--ids", "5,7"});
      INFO(result.err);
      CHECK(result.code == 2);
      CHECK(one_line(result.err));
      CHECK_THAT(result.err, Contains(fmt::format("rope_{} holds {}: positive numbers expected",
                                                  name, wrong.dump())));
    }
  }
}

TEST_CASE(
    "what stands beside token numbers or vectors, and would change the numbers, is no input") {
  const Folder folder;
  const std::string rows = []() {
    std::string text;
    for (int i = 0; i < 4 * 64; ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", i % 7 * 0.1);
    return R"("inputs_embeds": {"shape": [2, 2, 64], "data": [)" + text + "]}";
  }();
  const std::string ids = R"("input_ids": [[5, 7], [9, 2]])";
  struct Case {
    std::string option, file, told; ///< reported: "" where it is plain
  };
  for (const Case& one :
       {Case{"--ids", ids + R"(, "labels": [[7, 2], [2, 1]], "attention_mask": [[1, 1], [1, 1]])",
             ""},
        {"--ids", ids + R"(, "ids": [[5, 7], [9, 3]])", "holds ids and input_ids"},
        {"--ids", ids + R"(, "past_key_values": [[1, 2]])",
         "'past_key_values' is not read beside ids"},
        {"--ids", ids + R"(, "head_mask": [[0, 1]])", "'head_mask' is not read beside ids"},
        {"--ids", ids + ", " + rows, "'inputs_embeds' is not read beside ids"},
        {"--ids", R"("ids": [true, false])", "ids holds true and false: token numbers expected"},
        {"--inputs-embeds", rows, ""},
        {"--inputs-embeds",
         rows + R"(, "attention_mask": [[1, 1], [1, 1]], "position_ids": [[0, 1], [0, 1]])", ""},
        {"--inputs-embeds", rows + R"(, "attention_mask": [[1, 1], [1, 0]])",
         "attention_mask has 0"},
        {"--inputs-embeds", rows + R"(, "position_ids": [[0, 1], [4, 5]])", "position_ids has 4"},
        {"--inputs-embeds", rows + R"(, "token_type_ids": [[0, 0], [0, 1]])",
         "token_type_ids has 1"},
        {"--inputs-embeds", rows + R"(, "lengths": [2, 1])", "lengths has 1"},
        {"--inputs-embeds", rows + R"(, "padding_mask": [[1, 1], [1, 0]])",
         "'padding_mask' is not read"},
        {"--inputs-embeds", rows + R"(, "past_key_values": [[1, 2]])",
         "'past_key_values' is not read"}}) {
    const Result result = run({"predict", "data/induction-model", one.option,
                               folder.write("given.json", "{" + one.file + "}")});
    INFO(one.option << " " << one.told << "\n" << result.err);
    CHECK(result.code == (one.told.empty() ? 0 : 2));
    CHECK_THAT(result.err, Contains(one.told));
    CHECK((one.told.empty() || one_line(result.err)));
  }
}

TEST_CASE("a class of another model than model_type, or without one, is told") {
  const Folder folder;
  struct Case {
    std::string model;
    json type, classes;
    std::string told = {};
  };
  const std::string first = "the first is read", none = "config.json has no model_type";
  const json absent; // null removes a key
  for (const Case& one : {Case{"bard-llama", "llama", {"LlamaForCausalLM"}},
                          {"bard-llama", "llama", {"LlamaModel"}},
                          {"bard-llama", "llama", {"LLaMAForCausalLM"}},
                          {"bard-llama", "llama", json::array()},
                          {"bard-llama", "llama", absent},
                          {"bard-llama", "mistral", {"MistralForCausalLM"}},
                          {"bard-llama", "mistral", {"LlamaForCausalLM"}, first},
                          {"bard-llama", "llama", {"GraniteForCausalLM"}, first},
                          {"bard-llama", "llama", {"MyOwnForCausalLM"}, first},
                          {"bard-llama", "llama", {"Olmo2ForCausalLM", "B"}, first},
                          {"bard-llama", absent, {"LlamaForCausalLM"}},
                          {"bard-llama", absent, absent},
                          {"bard-llama", absent, {"MistralForCausalLM"}, none},
                          {"bard-gpt2", "gpt2", {"GPT2LMHeadModel"}},
                          {"bard-gpt2", "gpt2", {"GPT2DoubleHeadsModel"}},
                          {"bard-gpt2", absent, {"GPT2Model"}},
                          {"bard-gpt2", "gpt2", {"OpenAIGPTLMHeadModel"}, first},
                          {"bard-bert", "bert", {"BertForPreTraining"}},
                          {"bard-bert", "bert", {"RobertaForMaskedLM"}, first},
                          {"bard-bert", absent, {"XLMRobertaModel"}, none}}) {
    const std::string path = changed(folder, one.model, "config.json",
                                     {{"model_type", one.type}, {"architectures", one.classes}});
    const Result result = run({"predict", path, "--ids", "5,7,9", "--query", "1"});
    INFO(one.model << " " << one.type << " " << one.classes << "\n" << result.err);
    CHECK(result.code == 0);
    CHECK(result.err.empty() == one.told.empty());
    CHECK_THAT(result.err, Contains(one.told));
  }
}
