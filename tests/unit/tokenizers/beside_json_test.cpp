// Settings of tokenizer_config.json beside the parts of tokenizer.json: which of the two counts,
// and that it is reported where they contradict each other. Expected tokens are those of
// Transformers' classes: BertTokenizerFast and GPT2TokenizerFast put their settings in
// tokenizer.json's place.

#include "support/run.hpp"
#include "unit/tokenizers/support.hpp"

#include <catch2/catch.hpp>

using namespace mha::tokenizers;
using namespace mha::tokenizers::test;
using Catch::Matchers::Contains;
using mha::test::Folder;
using Words = std::vector<std::string>;

namespace {

/// A vocabulary of the words that the cases make.
std::string json(const std::string& parts) {
  return R"({"model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "É": 1, "é": 2,
             "E": 3, "e": 4, "中": 5, "e中": 6, "a": 7, "Ġa": 8}}, )" +
         parts + "}";
}

std::string bert(const std::string& settings) {
  return json(R"("normalizer": {"type": "BertNormalizer")" + settings +
              R"(}, "pre_tokenizer": {"type": "BertPreTokenizer"})");
}

std::string bytes(const std::string& settings) {
  return json(R"("pre_tokenizer": {"type": "ByteLevel")" + settings + "}");
}

} // namespace

TEST_CASE("tokenizer_config.json beside tokenizer.json", "[tokenizers]") {
  struct Case {
    std::string json, config, text;
    Words pieces;
    std::vector<std::string> notes = {}; ///< what each contains
    std::string model = "{}";            ///< config.json
  };
  const std::string lower = R"(, "lowercase": true)", keeps = R"(, "lowercase": false)",
                    of_bert = R"("tokenizer_class": "BertTokenizer")",
                    of_gpt2 = R"("tokenizer_class": "GPT2TokenizerFast")",
                    of_any = R"("tokenizer_class": "PreTrainedTokenizerFast")",
                    first = "the first counts", second = "the second counts here";
  const Case cases[]{
      // Both say the same.
      {bert(lower), "{" + of_bert + R"(, "do_lower_case": true})", "É", {"e"}},
      {bert(keeps), "{" + of_bert + R"(, "do_lower_case": false})", "É", {"É"}},
      // The class makes its own normalizer.
      {bert(lower),
       "{" + of_bert + R"(, "do_lower_case": false})",
       "É",
       {"É"},
       {"do_lower_case false, tokenizer.json true: " + first}},
      {bert(keeps),
       "{" + of_bert + R"(, "do_lower_case": true})",
       "É",
       {"e"},
       {"do_lower_case true, tokenizer.json false: " + first}},
      {bert(lower),
       "{" + of_bert + R"(, "strip_accents": false})",
       "É",
       {"é"},
       {"strip_accents false, tokenizer.json true: " + first}},
      {bert(keeps),
       "{" + of_bert + R"(, "do_lower_case": false, "strip_accents": true})",
       "É",
       {"E"},
       {"strip_accents true, tokenizer.json false: " + first}},
      {bert(lower),
       "{" + of_bert + R"(, "tokenize_chinese_chars": false})",
       "e中",
       {"e中"},
       {"tokenize_chinese_chars false, tokenizer.json true: " + first}},
      {bert(lower + R"(, "handle_chinese_chars": false)"),
       "{" + of_bert + R"(, "tokenize_chinese_chars": true})",
       "e中",
       {"e", "中"},
       {"tokenize_chinese_chars true, tokenizer.json false: " + first}},
      // null states nothing.
      {bert(lower),
       "{" + of_bert + R"(, "strip_accents": null, "do_lower_case": null})",
       "É",
       {"e"}},
      // The class by config.json.
      {bert(lower),
       R"({"do_lower_case": false})",
       "É",
       {"É"},
       {first},
       R"({"model_type": "bert"})"},
      {bert(lower),
       R"({"do_lower_case": false})",
       "É",
       {"É"},
       {first},
       R"({"model_type": "x", "tokenizer_class": "DistilBertTokenizerFast"})"},
      // A class without such settings.
      {bert(lower),
       "{" + of_any + R"(, "do_lower_case": false})",
       "É",
       {"e"},
       {"do_lower_case false, tokenizer.json true: " + second}},
      {json(R"("normalizer": {"type": "Lowercase"})"),
       "{" + of_any + R"(, "do_lower_case": false})",
       "É",
       {"é"},
       {"do_lower_case false, tokenizer.json true: " + second}},
      {json(R"("normalizer": null)"),
       "{" + of_any + R"(, "do_lower_case": true})",
       "É",
       {"É"},
       {"do_lower_case true, tokenizer.json false: " + second}},
      {json(R"("normalizer": {"type": "Sequence", "normalizers": [{"type": "Lowercase"}]})"),
       "{" + of_any + R"(, "do_lower_case": true})",
       "É",
       {"é"}},
      // Capitals that some versions make small, as the class does by default.
      {bert(keeps), "{" + of_bert + "}", "É", {"É"}, {"has no do_lower_case"}},
      // A blank before the text.
      {bytes(R"(, "add_prefix_space": false)"),
       "{" + of_gpt2 + R"(, "add_prefix_space": false})",
       "a",
       {"a"}},
      {bytes(R"(, "add_prefix_space": false)"),
       "{" + of_gpt2 + R"(, "add_prefix_space": true})",
       "a",
       {"Ġa"},
       {"add_prefix_space true, tokenizer.json false: " + first}},
      {bytes(R"(, "add_prefix_space": true)"),
       "{" + of_gpt2 + R"(, "add_prefix_space": false})",
       "a",
       {"a"},
       {"add_prefix_space false, tokenizer.json true: " + first}},
      {bytes(R"(, "add_prefix_space": true)"),
       "{" + of_any + R"(, "add_prefix_space": false})",
       "a",
       {"Ġa"},
       {"add_prefix_space false, tokenizer.json true: " + second}},
      // What changes no token number of a text.
      {bert(lower),
       "{" + of_bert + R"(, "model_max_length": 2, "clean_up_tokenization_spaces": false})",
       "e e e",
       {"e", "e", "e"}},
  };
  for (const Case& one : cases) {
    const Folder folder;
    folder.write("tokenizer.json", one.json);
    folder.write("tokenizer_config.json", one.config);
    folder.write("config.json", one.model);
    const Tokenizer tokenizer = load_tokenizer(folder.path());
    INFO(one.json << "\n" << one.config << " " << one.model);
    CHECK(pieces(tokenizer, one.text) == one.pieces);
    REQUIRE(tokenizer.notes().size() == one.notes.size());
    for (std::size_t i = 0; i < one.notes.size(); ++i) {
      CHECK(tokenizer.notes()[i].text.find(one.notes[i]) != std::string::npos);
      CHECK(tokenizer.notes()[i].is_warning());
    }
  }
}

TEST_CASE("a template's segment of a lone text", "[tokenizers]") {
  const auto type_id = [](const std::string& template_parts) {
    return read_tokenizer("t.json", json(R"("post_processor": )" + template_parts)).type_id();
  };
  const auto place = [](int type) {
    return fmt::format(R"({{"Sequence": {{"id": "A", "type_id": {}}}}})", type);
  };
  const auto around = [](const std::string& single) {
    return R"({"type": "TemplateProcessing", "single": [)" + single +
           R"(], "pair": [{"Sequence": {"id": "B", "type_id": 1}}],
              "special_tokens": {"a": {"id": "a", "ids": [7], "tokens": ["a"]}}})";
  };
  const std::string named = R"({"SpecialToken": {"id": "a", "type_id": 3}}, )";
  CHECK(type_id(around(place(0))) == 0);
  CHECK(type_id(around(place(1))) == 1);
  CHECK(type_id(around(place(2))) == 2);
  CHECK(type_id(around(named + place(0))) == 3);
  CHECK(type_id(R"({"type": "Sequence", "processors": [)" + around(place(1)) + "]}") == 1);
}

TEST_CASE("configs are read as Python writes them, tokenizer.json is JSON", "[tokenizers]") {
  const Folder folder;
  folder.write("tokenizer.json", json(R"("version": "1.0")"));
  for (const char* word : {"NaN", "Infinity", "-Infinity"})
    for (const char* name : {"config.json", "tokenizer_config.json", "special_tokens_map.json"}) {
      INFO(name << " " << word);
      folder.write(name, fmt::format(R"({{"time_step_limit": [0.0, {0}], "model_max_length": {0},
          "more": {{"eps": {0}}}, "bos_token": "a", "bos_token_id": 7}})",
                                     word));
      CHECK(load_tokenizer(folder.path()).bos() == 7);
      folder.write(name, fmt::format(R"({{"eps": {}y}})", word));
      CHECK_THROWS_WITH(load_tokenizer(folder.path()), Contains("a value expected"));
      folder.write(name, fmt::format(R"({{"bos_token_id": {0}, "eos_token_id": {0}}})", word));
      CHECK_FALSE(load_tokenizer(folder.path()).eos());
      folder.write(name, "{}");
    }
  folder.write("tokenizer.json", json(R"("version": NaN)"));
  CHECK_THROWS_WITH(load_tokenizer(folder.path()), Contains("a value expected"));
}
