#include <mha/system/characters.hpp>

#include <mha/files/paths.hpp>
#include <mha/files/text.hpp>
#include <mha/render/numbers.hpp>
#include <mha/render/text.hpp>
#include <mha/render/diff.hpp>

#include <catch2/catch.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

using namespace mha;

namespace {

std::string utf8_of(char32_t code) {
  std::string text;
  append_utf8(text, code);
  return text;
}

/// `diff --weights -f csv` of one tensor of that name.
std::string weights_line(const std::string& name) {
  WeightsDiff diff;
  diff.tensors.emplace_back().name = name;
  const std::string csv = render::weights_text(diff, "csv", {});
  return csv.substr(csv.find('\n') + 1, csv.size() - csv.find('\n') - 2); // without titles and end
}

using namespace std::string_literals; // of a length: the first character is U+0000
const std::u32string unsafe =
    U"\u0000\u0001\u0007\u0008\u000b\u000c\u001b\u001f\u007f\u0080\u0085\u009b"
    U"\u009f\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069\ufdd0"
    U"\ufdef\ufffe\uffff\U0001fffe\U0010ffff"s;

} // namespace

TEST_CASE("characters: all bytes but a character's first continue it") {
  for (const char32_t code : {U'\x41', U'\x7f', U'\x80', U'\xe9', U'\u07ff', U'\u0800', U'\uffff',
                              U'\U00010000', U'\U0010ffff'}) {
    INFO(static_cast<std::uint32_t>(code));
    const std::string text = utf8_of(code);
    CHECK_FALSE(continues_utf8(text[0]));
    CHECK(std::all_of(text.begin() + 1, text.end(), continues_utf8));
  }
}

TEST_CASE(
    "characters: what a terminal obeys, or XML forbids, is unsafe; scripts and signs are not") {
  for (const char32_t code : unsafe) {
    INFO(static_cast<std::uint32_t>(code));
    CHECK(is_unsafe(code));
  }
  for (const char32_t code : U" ~éÿשع漢\u00a0\u200d\u2192\ufffd\U0001f600")
    if (code != 0) CHECK_FALSE(is_unsafe(code));
}

TEST_CASE("characters: no text for eyes or programs has an unsafe one raw, and JSON reads back") {
  for (const char32_t code : unsafe) {
    const std::string text = fmt::format("a{}b", utf8_of(code));
    INFO(static_cast<std::uint32_t>(code));
    for (const std::string& written :
         {render::visible(text), json_string(text), render::csv_field(text),
          render::tsv_field(text), io::shown(text), weights_line(text),
          safe_json("\"" + (code < 0x20 ? "" : text) + "\"")})
      CHECK(written.find(utf8_of(code)) == std::string::npos);
    CHECK(nlohmann::json::parse(json_string(text)) == text);
    if (code >= 0x20) CHECK(nlohmann::json::parse(safe_json("\"" + text + "\"")) == text);
  }
  CHECK(render::csv_field("a\x1b[2J,b") == "\"a\\u001b[2J,b\"");
  CHECK(render::csv_field("say \"x\"\n") == "\"say \"\"x\"\"\n\"");
  CHECK(render::tsv_field("\xc2\x9b\t") == "\\u009b\\t");
  CHECK(json_string("\U0001fffe") == "\"\\ud83f\\udffe\"");
  // Half a pair, and other bytes that are no UTF-8.
  for (const char* bytes : {"\xed\xa0\x80", "\xff", "\xc3"}) {
    CHECK(io::invalid_utf8(json_string(bytes)) == std::string::npos);
    CHECK(io::invalid_utf8(render::csv_field(bytes)) == std::string::npos);
    CHECK(io::invalid_utf8(render::visible(bytes)) == std::string::npos);
  }
}

TEST_CASE("characters: a name becomes one part of a path, and different names different parts") {
  const std::string names[] = {"..",
                               ".",
                               "../../x",
                               "a/b",
                               "a%2Fb",
                               "/",
                               "",
                               "%",
                               "%25",
                               "{head}",
                               "a\\b",
                               "a\nb",
                               "\x1b[J",
                               "\xff",
                               "%FF",
                               "..a",
                               ".a",
                               "a..b",
                               "é",
                               "a b",
                               "0",
                               "decoder.3.cross",
                               "\xe2\x80\xae",
                               std::string("a\0b", 3)};
  std::set<std::string> parts;
  for (const std::string& name : names) {
    const std::string part = io::path_component(name);
    INFO(name << " → " << part);
    CHECK(parts.insert(part).second);
    CHECK_FALSE(part.empty());
    CHECK_FALSE(part.starts_with('.'));
    CHECK(part.find_first_of("/\\{}\n\x1b") == std::string::npos);
    CHECK(part.find('\0') == std::string::npos);
  }
  for (const char* plain : {"0", "12", "decoder.3.cross", "é", "a b", "encoder-1_x"})
    CHECK(io::path_component(plain) == plain);
  CHECK(io::leads_outside("../x"));
  CHECK(io::leads_outside("a/../../x"));
  CHECK(io::leads_outside("/etc/x"));
  CHECK_FALSE(io::leads_outside("a/b..c/.d"));
}
