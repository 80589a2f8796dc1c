// Normalizers and pre-tokenizers, one by one; tests/tokenizers compares them with others at length.

#include "unit/tokenizers/support.hpp"
#include <mha/tokenizers/text_time.hpp>

#include <catch2/catch.hpp>

using namespace mha;
using namespace mha::tokenizers;
using namespace mha::tokenizers::test;
using Words = std::vector<std::string>;

TEST_CASE("normalizers", "[tokenizers]") {
  CHECK(normalized(R"({"type": "BertNormalizer"})", "A\tCafé\x01中b") == "a cafe 中 b");
  CHECK(normalized(R"({"type": "BertNormalizer", "lowercase": false})", "Café") == "Café");
  CHECK(normalized(R"({"type": "Lowercase"})", "İΣß") == "i̇σß");
  CHECK(normalized(R"({"type": "NFC"})", "e\u0301 a\u0323\u0302 \u1100\u1161\u11a8") == "é ậ 각");
  CHECK(normalized(R"({"type": "NFD"})", "é각") == "e\u0301\u1100\u1161\u11a8");
  CHECK(normalized(R"({"type": "NFKC"})", "ﬁ①") == "fi1");
  CHECK(normalized(R"({"type": "NFKD"})", "é№") == "e\u0301No");
  CHECK(normalized(R"({"type": "Nmt"})", "a\x01\t\u200b") == "a  ");
  CHECK(normalized(R"({"type": "Prepend", "prepend": "▁"})", "a") == "▁a");
  CHECK(normalized(R"({"type": "Prepend", "prepend": "▁"})", "") == "");
  CHECK(normalized(R"({"type": "Replace", "pattern": {"String": " "}, "content": "▁"})", "a b ") ==
        "a▁b▁");
  CHECK(normalized(R"({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "_"})",
                   "a b   c") == "a b_c");
  CHECK(normalized(R"({"type": "Strip", "strip_left": true, "strip_right": true})",
                   "\u3000 a \n") == "a");
  CHECK(normalized(R"({"type": "StripAccents"})", "e\u0301\u0489") == "e");
  CHECK(normalized(R"({"type": "ByteLevel"})", " é") == "ĠÃ©");
  CHECK(
      normalized(R"({"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"},
                       {"type": "Lowercase"}]})",
                 "ÉA") == "ea");
}

TEST_CASE("a table of SentencePiece replaces characters", "[tokenizers]") {
  // A double array of one entry, "A" → "a": units of the root, of 'A' with a leaf, of the leaf.
  std::string bytes;
  const auto add = [&](std::uint32_t unit) {
    for (int i = 0; i < 4; ++i) bytes += static_cast<char>(unit >> (8 * i) & 0xff);
  };
  add(128 * 4);
  for (std::uint32_t at = 0; at < 128; ++at)
    add(at == 0               ? 1u << 10
        : at == ('A' ^ 1)     ? (2u << 10 | 1u << 8 | 'A')
        : at == ('A' ^ 1 ^ 2) ? 0x80000000u
                              : 0xffu << 10 | 0xfeu);
  bytes += std::string("a\0", 2);
  constexpr std::string_view letters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  while (bytes.size() % 3 != 0) bytes += '\0';
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t j = 0; j < 3; ++j) bits = bits << 8 | static_cast<unsigned char>(bytes[i + j]);
    for (int j = 3; j >= 0; --j) text += letters[bits >> (6 * j) & 63];
  }
  CHECK(normalized(fmt::format(R"({{"type": "Precompiled", "precompiled_charsmap": "{}"}})", text),
                   "BAé") == "Baé");
  CHECK(normalized(R"({"type": "Precompiled", "precompiled_charsmap": ""})", "BA") == "BA");
}

TEST_CASE("pre-tokenizers", "[tokenizers]") {
  const auto cut = [](const std::string& part, std::string_view text) {
    return parts(cutting(part), text);
  };
  CHECK(cut(R"({"type": "BertPreTokenizer"})", "a $b. c") == Words{"a", "$", "b", ".", "c"});
  CHECK(cut(R"({"type": "ByteLevel", "add_prefix_space": false})", "I'm  at 42!") ==
        Words{"I", "'m", " ", " at", " 42", "!"});
  CHECK(cut(R"({"type": "CharDelimiterSplit", "delimiter": "-"})", "a-b--c") ==
        Words{"a", "b", "c"});
  CHECK(cut(R"({"type": "Digits", "individual_digits": true})", "a12b") ==
        Words{"a", "1", "2", "b"});
  CHECK(cut(R"({"type": "Digits"})", "a12b") == Words{"a", "12", "b"});
  CHECK(cut(R"({"type": "FixedLength", "length": 2})", "aéb") == Words{"aé", "b"});
  CHECK(cut(R"({"type": "Metaspace", "replacement": "▁"})", "a b  c") ==
        Words{"a", " b", " ", " c"});
  CHECK(cut(R"({"type": "Metaspace", "replacement": "▁", "split": false})", "a b") == Words{"a b"});
  CHECK(cut(R"({"type": "Punctuation"})", "a,.b") == Words{"a", ",", ".", "b"});
  CHECK(cut(R"({"type": "UnicodeScripts"})", "どこで生れ。Yes") ==
        Words{"どこで生れ", "。", "Yes"});
  CHECK(cut(R"({"type": "Whitespace"})", "a_1, b!?") == Words{"a_1", ",", "b", "!?"});
  CHECK(cut(R"({"type": "WhitespaceSplit"})", "a,\u3000b") == Words{"a,", "b"});
  CHECK(
      cut(R"({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Digits"}]})",
          "a1 b") == Words{"a", "1", "b"});
}

TEST_CASE("what becomes of what a split finds", "[tokenizers]") {
  const auto cut = [](const std::string& behavior, const char* invert = "false") {
    return parts(cutting(fmt::format(R"({{"type": "Split", "pattern": {{"String": "-"}},
                                          "behavior": "{}", "invert": {}}})",
                                     behavior, invert)),
                 "the-final--countdown");
  };
  CHECK(cut("Removed") == Words{"the", "final", "countdown"});
  CHECK(cut("Removed", "true") == Words{"-", "-", "-"});
  CHECK(cut("Isolated") == Words{"the", "-", "final", "-", "-", "countdown"});
  CHECK(cut("MergedWithPrevious") == Words{"the-", "final-", "-", "countdown"});
  CHECK(cut("MergedWithNext") == Words{"the", "-final", "-", "-countdown"});
  CHECK(cut("Contiguous") == Words{"the", "-", "final", "--", "countdown"});
}

TEST_CASE("added tokens take white space, stand alone, are sought in the normalized text",
          "[tokenizers]") {
  const auto cut = [](const std::string& options, std::string_view text) {
    return parts(
        cutting(R"({"type": "Whitespace"})", R"({"id": 1, "content": "<m>", )" + options + "}"),
        text);
  };
  CHECK(cut(R"("normalized": false)", "a <m>b") == Words{"a", "<m>", "b"});
  CHECK(cut(R"("lstrip": true)", "a \t<m> b") == Words{"a", " \t<m>", "b"});
  CHECK(cut(R"("rstrip": true)", "a <m>\u3000b") == Words{"a", "<m>\u3000", "b"});
  CHECK(cut(R"("single_word": true)", "<m>, a<m> <m>") ==
        Words{"<m>", ",", "a", "<", "m", ">", "<m>"});
  const Tokenizer lower = read_tokenizer("t.json", R"({"normalizer": {"type": "Lowercase"},
      "added_tokens": [{"id": 1, "content": "Day", "normalized": true}],
      "model": {"type": "WordLevel", "vocab": {"<unk>": 0}}})");
  CHECK(ids(lower, "a DAY b") == std::vector<int>{0, 1, 0});
}

TEST_CASE("white space that added tokens take is looked at once", "[tokenizers]") {
  // Looked at again for each of them it would take a minute.
  for (const char* strip : {"lstrip", "rstrip"}) {
    const Tokenizer tokenizer =
        cutting("null", fmt::format(R"({{"id": 1, "content": "\n", "{}": true}})", strip));
    const std::string text(300'000, '\n');
    const auto tokens = tokenizer.encode(text).tokens;
    CHECK(tokens.size() == (strip[0] == 'l' ? text.size() : 1));
    CHECK(tokens.back().end == text.size());
  }
}

TEST_CASE("templates do not multiply", "[tokenizers]") {
  std::string ids = "0", places = R"({"Sequence": {"id": "A"}})", texts = places;
  for (int i = 0; i < 3000; ++i) ids += ",0";
  for (int i = 0; i < 3000; ++i) places += R"(,{"SpecialToken": {"id": "x"}})";
  for (int i = 0; i < 20; ++i) texts += R"(,{"Sequence": {"id": "A"}})";
  const auto with = [&](const std::string& single) {
    return refusal(fmt::format(R"({{"model": {{"type": "WordLevel", "vocab": {{"x": 0}}}},
        "post_processor": {{"type": "TemplateProcessing", "single": [{}], "pair": [],
        "special_tokens": {{"x": {{"id": "x", "ids": [{}], "tokens": []}}}}}}}})",
                               single, ids));
  };
  CHECK_THAT(with(places), Catch::Matchers::Contains("too many special tokens"));
  CHECK_THAT(with(texts), Catch::Matchers::Contains("the text is repeated too often"));
}

TEST_CASE("patterns share the time of a text, and one match may be sought in vain everywhere",
          "[tokenizers]") {
  const auto cut = [](const std::string& pattern, const std::string& text) {
    return cutting(R"({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"},
        {"type": "Split", "pattern": {"Regex": ")" +
                   pattern + R"("}, "behavior": "Isolated"}]})")
        .encode(text);
  };
  constexpr double seconds = 0.2;
  // Steps forward that the library does not count: from each place to the end, and so after each
  // step back within one match.
  for (const char* pattern : {"(?>a+)(?<!a)", "a*?(?>a+)(?<!a)", "x*a*?(?>a+)(?<!a)"}) {
    const TextTime time("this text", seconds);
    CHECK_THROWS_WITH(cut(pattern, std::string(10'000, 'x') + std::string(90'000, 'a')),
                      Catch::Matchers::Contains("takes too long for this text"));
  }
  // Steps back that are as many as the text is long are none too many, however slow the machine is.
  {
    const TextTime time("this text", 60);
    CHECK(cut("(?:a|x)*y|[ax]+", std::string(300'000, 'a')).tokens.size() == 1);
  }
  // Words that each stay below the library's limit.
  std::string words;
  for (int i = 0; i < 1000; ++i) words += std::string(20, 'a') + " ";
  const TextTime time("this text", seconds);
  CHECK_THROWS_WITH(cut("(a+)+b", words), Catch::Matchers::Contains("takes too long for this"));
}

TEST_CASE("a pattern's matches are the library's", "[tokenizers]") {
  const auto cut = [](const std::string& pattern, std::string_view text) {
    return parts(cutting(R"({"type": "Split", "pattern": {"Regex": ")" + pattern +
                         R"("}, "behavior": "Isolated"})"),
                 text);
  };
  CHECK(cut("b+", "abbab") == Words{"a", "bb", "a", "b"});
  CHECK(cut("\\\\Ga", "aaba") == Words{"a", "a", "ba"});
  CHECK(cut("(?<=b)a", "abaéa") == Words{"ab", "a", "éa"});
  CHECK(cut("a$", "ba a") == Words{"ba ", "a"});
  CHECK(cut("x*", "axxa") == Words{"a", "xx", "a"});
}

TEST_CASE("a pattern that would never end is stopped", "[tokenizers]") {
  const Tokenizer tokenizer =
      cutting(R"({"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated"})");
  CHECK_THROWS_WITH(tokenizer.encode(std::string(5000, 'a') + "b"),
                    Catch::Matchers::Contains("takes too long for this text"));
}
