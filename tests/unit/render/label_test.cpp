#include <mha/render/label.hpp>

#include <mha/render/font.hpp>
#include <mha/render/map_terminal.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>

using namespace mha::render;

namespace {

using Codes = std::vector<std::uint32_t>;

/// Runs of inked pixels along a row of the text: the verticals of boxes and letters.
std::size_t runs_in(const TextPixels& text, std::size_t row) {
  std::size_t runs = 0;
  for (std::size_t x = 0; x < text.width; ++x)
    runs += text.coverage[row * text.width + x] >= 100 &&
            (x == 0 || text.coverage[row * text.width + x - 1] < 100);
  return runs;
}

} // namespace

TEST_CASE("labels: a tokenizer's marks read as the text they stand for") {
  const std::map<std::string, std::string> cases{
      // byte-level BPE
      {"Ġcat", "cat"},
      {"cat", "cat"},
      {"Ġ", "␣"},
      {"ĠĠĠ", "␣␣␣"},
      {"ĠĠif", "␣if"},
      {"Ċ", "⏎"},
      {"ĊĊ", "⏎⏎"},
      {"ĠĊ", "␣⏎"},
      {"čĊ", "⏎"},
      {"ĉ", "⇥"},
      {");Ċ", ");⏎"},
      {"Ã©", "é"},
      {"Ġnaïve", "naïve"},
      {"ä¸Ńæĸĩ", "中文"},
      {"Ġ×©×ľ×ķ×Ŀ", "שלום"},
      {"ðŁĺĢ", "😀"},
      // a part of a character, and letters that merely look like signs
      {"Ġæ", "æ"},
      {"é", "é"},
      {"čas", "čas"},
      {"Ċikku", "Ċikku"},
      {"ĉu", "ĉu"},
      {"ąę", "ąę"},
      {"Łódź", "Łódź"},
      {"Ġorġ", "Ġorġ"},
      // SentencePiece and WordPiece, and CLIP's ends of words
      {"▁the", "the"},
      {"▁", "␣"},
      {"▁▁", "␣␣"},
      {"New▁York", "New York"},
      {"<0x0A>", "⏎"},
      {"<0x09>", "⇥"},
      {"<0xE4>", "<0xE4>"},
      {"<0xZZ>", "<0xZZ>"},
      {"##ing", "ing"},
      {"##", "##"},
      {"###", "###"},
      {"## Title", "## Title"},
      {"cat</w>", "cat"},
      {"</w>", "</w>"},
      {"</s>", "</s>"},
      // plain text
      {" cat", "␣cat"},
      {"cat ", "cat␣"},
      {" ", "␣"},
      {"\n", "⏎"},
      {"\t", "⇥"},
      {"a\nb", "a⏎b"},
      {"\r\n", "⏎"},
      {"\u2028", "⏎"},
      {"\u00a0", "␣"},
      {"\u3000", "␣"},
      {"", ""},
      {"a b", "a b"},
      {"\u200b", "\\u200b"},
      {"\u00ad", "\\u00ad"},
      {"\u0301", "◌\u0301"},
      {"e\u0301", "e\u0301"},
      {"👩‍👩‍👧", "👩‍👩‍👧"},
      {"\x1b[31m", "\\u001b[31m"},
      {"\u202egnp", "\\u202egnp"},
      {"\xff\xfe", "\\xff\\xfe"}};
  for (const auto& [label, text] : cases) {
    INFO(label);
    CHECK(readable(label) == text);
  }
}

TEST_CASE("labels: Hebrew and Arabic are drawn from right to left, joined, brackets mirrored") {
  CHECK(in_drawing_order("cat") == Codes{'c', 'a', 't'});
  CHECK(in_drawing_order("e\u0301") == Codes{0xe9});
  CHECK(in_drawing_order("שלום") == Codes{0x5dd, 0x5d5, 0x5dc, 0x5e9});
  CHECK(in_drawing_order("שנת 2024") == Codes{'2', '0', '2', '4', ' ', 0x5ea, 0x5e0, 0x5e9});
  CHECK(in_drawing_order("a שב c") == Codes{'a', ' ', 0x5d1, 0x5e9, ' ', 'c'});
  CHECK(in_drawing_order("(א)") == Codes{'(', 0x5d0, ')'});
  // beh and teh joined: the final form stands on the left
  CHECK(in_drawing_order("بت") == Codes{0xfe96, 0xfe91});
  CHECK(in_drawing_order("لا").size() == 1); // lam and alef are one form, and nothing beside it
  CHECK(in_drawing_order("\xff"
                         "a") == Codes{0xfffd, 'a'});
}

TEST_CASE("fonts: what is lacking is a box of one width, a cluster of characters one box") {
  const Font& font = Font::instance();
  const double box = font.width("中", 20);
  CHECK(box <= 20);
  for (const char* lacking : {"猫", "ก", "क", "ツ", "𝄞", "🇩🇪", "👩‍🚀", "के"}) {
    INFO(lacking);
    CHECK(font.width(lacking, 20) == box);
  }
  CHECK(font.width("中文", 20) == 2 * box);
  CHECK(runs_in(font.draw("中文", 20), 12) == 4); // two sides each, nothing between them
  // Marks and joiners take no room of their own.
  CHECK(font.width("e\u0301", 20) == font.width("é", 20));
  CHECK(font.width("שָ", 20) == font.width("ש", 20));
  CHECK(font.width("a\ufe0f", 20) == font.width("a", 20));
  CHECK(font.width("\\u200b", 20) > 20);
  for (const char* drawn : {"", "cat é ж", "שלום", "e\u0301", "a\ufe0f", "⏎␣…"})
    CHECK(font.draws(drawn));
  for (const char* lacking : {"中", "cat 猫", "👩‍🚀"}) CHECK_FALSE(font.draws(lacking));
}

TEST_CASE("labels below their columns: letters with their marks") {
  using Letters = std::vector<std::string>;
  CHECK(letters_of("Ġcat", false) == Letters{"c", "a", "t"});
  CHECK(letters_of("e\u0301t", false) == Letters{"e\u0301", "t"});
  CHECK(letters_of("\n", false) == Letters{"⏎"});
  CHECK(letters_of("日本", true) == Letters{"日", "本"});
  CHECK(letters_of("日本", false) == Letters{"…", "…"});
  CHECK(letters_of("longer-label", false) == Letters{"l", "o", "n", "g", "e", "…"});
  CHECK(letters_of("sixsix", false).size() == 6);
}
