// Files whose patterns, vocabularies or lists would take for ever: an error in time, or the result.

#include "unit/tokenizers/support.hpp"
#include <mha/tokenizers/text_time.hpp>

#include <catch2/catch.hpp>

#include <ctime>
#include <functional>

using namespace mha;
using namespace mha::tokenizers;
using namespace mha::tokenizers::test;
using Catch::Matchers::Contains;

namespace {

std::string quoted(const std::string& text) {
  std::string json = "\"";
  for (const char c : text) json += c == '\\' ? "\\\\" : std::string(1, c);
  return json + "\"";
}

/// The elements of a list, or members of an object.
std::string listed(int count, const std::function<std::string(int)>& element) {
  std::string list;
  for (int i = 0; i < count; ++i) list += (i > 0 ? "," : "") + element(i);
  return list;
}

/// A tokenizer.json of single letters beside other parts.
std::string with_parts(const std::string& parts) {
  return "{" + parts + (parts.empty() ? "" : ",") +
         R"("model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "x": 2}, "merges": []}})";
}
std::string splitting(const std::string& pattern) {
  return with_parts(
      R"("pre_tokenizer": {"type": "Split", "behavior": "Isolated", "pattern": {"Regex": )" +
      quoted(pattern) + "}}");
}
std::string replacing(const std::string& kind, const std::string& pattern) {
  return with_parts(R"("normalizer": {"type": "Replace", "content": "b", "pattern": {")" + kind +
                    "\": " + quoted(pattern) + "}}");
}
std::string with_model(const std::string& model) {
  return "{\"model\": {" + model + "}}";
}
std::string run_of(std::size_t count) {
  return std::string(count, 'a');
}

/// Groups that call ten others each, ten deep: the library compiles it for ever.
std::string calls() {
  std::string pattern;
  for (char group = 'a'; group < 'k'; ++group) {
    pattern += std::string("(?<") + group + ">";
    for (int i = 0; i < 10; ++i)
      pattern += std::string("\\g<") + static_cast<char>(group + 1) + ">";
    pattern += "){0}";
  }
  return pattern + "(?<k>a?)\\g<a>";
}

} // namespace

TEST_CASE("what would take for ever ends with a message", "[tokenizers]") {
  struct Case {
    std::string name, json, text, says;
  };
  const std::string cut_short = "takes too long for this text",
                    unread = "takes too long for its own file";
  std::vector<Case> cases;
  for (const char* pattern :
       {"(a+)+$", "(a|aa)+$", "(a*)*b", "(?=(a+)+x)|a", "(.*)(.*)(.*)(.*)x", "a*?(?>a+)(?<!a)",
        "(?:(?:(?:a{0,1000}?){0,1000}?){0,1000}?)b", "(?~|a+b|.*)", "(?:(?=a*)a)*b"}) {
    cases.push_back({pattern, splitting(pattern), run_of(20'000) + "c", cut_short});
    cases.push_back({pattern, replacing("Regex", pattern), run_of(1'000'000) + "c", cut_short});
  }
  for (const char* pattern : {"(?>a+)(?<!a)", "(?:a+)+b", "(a?){1000}b", "a+(?!a|c)x"})
    cases.push_back({pattern, splitting(pattern), run_of(1'000'000) + "c", cut_short});
  const std::string long_piece = quoted(run_of(300'000) + "b");
  cases.push_back(
      {"an added token",
       with_parts(R"("added_tokens": [{"id": 9, "special": true, "content": )" + long_piece + "}]"),
       run_of(1'000'000), cut_short});
  cases.push_back({"Unigram, a long piece",
                   with_model(R"("type": "Unigram", "unk_id": 0, "vocab": [["a", -1], [)" +
                              long_piece + ", -2]]"),
                   run_of(1'000'000), cut_short});
  cases.push_back({"Unigram, pieces of pieces",
                   with_model(R"("type": "Unigram", "unk_id": 0, "vocab": [)" +
                              listed(2000,
                                     [](int i) {
                                       return fmt::format("[\"{}\", {}]",
                                                          run_of(static_cast<std::size_t>(i) + 1),
                                                          -1 - i);
                                     }) +
                              "]"),
                   run_of(1'000'000), cut_short});
  cases.push_back(
      {"WordPiece, a long piece",
       with_model(R"("type": "WordPiece", "unk_token": "u", "max_input_chars_per_word": 9000000,
                  "vocab": {"u": 0, "a": 1, "##a": 2, "##)" +
                  long_piece.substr(1) + ": 3}"),
       run_of(1'000'000), cut_short});
  const auto lowered = [](int count) {
    return R"("normalizer": {"type": "Sequence", "normalizers": [)" +
           listed(count, [](int) { return R"({"type": "Lowercase"})"; }) + "]}";
  };
  cases.push_back({"many normalizers", with_parts(lowered(2000)), run_of(1'000'000), cut_short});
  cases.push_back({"many added tokens, many normalizers",
                   with_parts(lowered(2000) + R"(, "added_tokens": [)" +
                              listed(2000,
                                     [](int i) {
                                       return fmt::format(R"({{"id": {0}, "content": "x{0}"}})",
                                                          i + 10);
                                     }) +
                              "]"),
                   "", unread});
  cases.push_back({"many patterns",
                   with_parts(R"("normalizer": {"type": "Sequence", "normalizers": [)" +
                              listed(5000,
                                     [](int i) {
                                       return R"({"type": "Replace", "content": "", "pattern":
                                              {"Regex": "(?i)[\\p{L}\\p{N}]x)" +
                                              fmt::format("{}\"}}}}", i);
                                     }) +
                              "]}"),
                   "", unread});
  cases.push_back({"groups that call others", splitting(calls()), "", "calls one of its groups"});

  for (const Case& one : cases) {
    INFO(one.name << ", a text of " << one.text.size());
    const TextTime time(one.text.empty() ? "its own file" : "this text", 0.1);
    CHECK_THROWS_WITH(read_tokenizer("t.json", one.json).encode(one.text), Contains(one.says));
  }
}

TEST_CASE("long runs are cut in time that grows with their length", "[tokenizers]") {
  constexpr std::size_t length = 1'000'000;
  std::string vocab = R"("a": 0, "b": 1)", doubled, one_more;
  std::string piece = "a";
  for (int i = 0; i < 12; ++i, piece += piece) {
    vocab += fmt::format(", \"{0}{0}\": {1}", piece, i + 2);
    doubled += fmt::format("{0}[\"{1}\", \"{1}\"]", i > 0 ? ", " : "", piece);
  }
  const auto bpe_of = [](const std::string& pieces, const std::string& merges) {
    return with_model(R"("type": "BPE", "vocab": {)" + pieces + R"(}, "merges": [)" + merges + "]");
  };
  // 4,096 letters a token: 244 of them, then the binary digits of what is left.
  CHECK(read_tokenizer("t.json", bpe_of(vocab, doubled)).encode(run_of(length)).tokens.size() ==
        length / 4096 + static_cast<std::size_t>(__builtin_popcount(length % 4096)));
  // Each merge is of the token before it and one letter: one token takes all that it can at a time.
  vocab = R"("a": 0)";
  constexpr int most = 2000;
  for (int i = 1; i < most; ++i) {
    piece = run_of(static_cast<std::size_t>(i));
    vocab += fmt::format(", \"{}a\": {}", piece, i);
    one_more = fmt::format("[\"{}\", \"a\"]{}", piece, one_more.empty() ? "" : ", ") + one_more;
  }
  const Encoding chained = read_tokenizer("t.json", bpe_of(vocab, one_more)).encode(run_of(length));
  CHECK(chained.tokens.size() == length / most);
  // Nothing of a text is sought from its beginning again.
  CHECK(read_tokenizer("t.json", replacing("String", run_of(300'000) + "b"))
            .encode(run_of(length))
            .tokens.size() == length);
  const std::string marks = [] {
    std::string text;
    for (std::size_t i = 0; i < 300'000; ++i) text += "▁";
    return text;
  }();
  const Tokenizer marked =
      read_tokenizer("t.json", R"({"decoder": {"type": "Metaspace", "replacement": "▁"},
      "model": {"type": "WordLevel", "vocab": {"?": 0, ")" +
                                   marks + R"(": 1}, "unk_token": "?"}})");
  CHECK(marked.text(1) == std::string(300'000, ' '));
}

TEST_CASE("time that others have the processor is none of a text's", "[tokenizers]") {
  TextTime time("this text", 0.02);
  const timespec longer{0, 60'000'000};
  nanosleep(&longer, nullptr);
  CHECK_FALSE(time.over());
  CHECK(time.left() > 0);
  while (!time.over()) {
  }
  CHECK_THROWS_WITH(time.require("list"),
                    Contains("the tokenizer's list takes too long for this text; "
                             "give shorter texts, or token numbers"));
  CHECK(TextTime::of_text() == &time);
  {
    const TextTime inner(std::size_t{5});
    CHECK(TextTime::of_text() == &time);
  }
  CHECK(TextTime::of_text() == &time);
}
