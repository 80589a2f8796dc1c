#include <mha/tokenizers/unicode.hpp>

#include <catch2/catch.hpp>

#include <string>

using namespace mha::tokenizers;

TEST_CASE("white space at an end is trimmed by characters, not bytes") {
  struct Case {
    const char* text;
    std::size_t begin, end; // of what is left
  };
  for (const Case& one : {Case{"", 0, 0},
                          {"a", 0, 1},
                          {" a ", 1, 2},
                          {"\u00a0é\u3000", 2, 4},
                          {"\u2003\n漢 \t", 4, 7},
                          {"a b", 0, 3},
                          {"\u3000\u3000", 6, 0}}) {
    const std::string text = one.text;
    INFO(text);
    CHECK(trim_begin(text, 0) == one.begin);
    CHECK(trim_end(text, text.size(), 0) == one.end);
  }
  CHECK(trim_end("a   ", 4, 2) == 2); // no further than asked
  CHECK(trim_begin("  a", 1) == 2);
}

TEST_CASE("the character before a byte is the whole one") {
  const std::string text = "aé漢\U0001f600";
  CHECK(character_before(text, 0) == 0);
  CHECK(character_before(text, 1) == U'a');
  CHECK(character_before(text, 3) == U'é');
  CHECK(character_before(text, 6) == U'漢');
  CHECK(character_before(text, 10) == U'\U0001f600');
}
