#include <mha/render/text.hpp>

#include <mha/render/grid.hpp>

#include <catch2/catch.hpp>

using namespace mha::render;

TEST_CASE("widths count columns, not bytes") {
  CHECK(display_width("cat") == 3);
  CHECK(display_width("H·d_v") == 5);
  CHECK(display_width("日本") == 4);
  CHECK(display_width("e\u0301") == 1);
  CHECK(display_width("\x1b[1mbold\x1b[0m") == 4);
  CHECK(display_width("\xff") == 1);
  CHECK(pad_left("日本", 6) == "  日本");
  CHECK(pad_right("√d", 4) == "√d  ");
  CHECK(pad_left("wider", 2) == "wider");
}

TEST_CASE("long text is cut with an ellipsis, between characters") {
  CHECK(shortened("weights", 7) == "weights");
  CHECK(shortened("weights", 4) == "wei…");
  CHECK(shortened("日本語", 4) == "日…");
  CHECK(shortened("weights", 0).empty());
}

TEST_CASE("what would drive a terminal is made visible") {
  CHECK(visible("a\nb\tc") == "a\\nb\\tc");
  CHECK(visible("\x1b[31m") == "\\u001b[31m");
  CHECK(visible("\xff\xfe") == "\\xff\\xfe");
  CHECK(visible("\u202egnp") == "\\u202egnp");
  CHECK(visible("\u0085") == "\\u0085");
  CHECK(visible("naïve 日本 ·") == "naïve 日本 ·");
}

TEST_CASE("words are wrapped, lines of their own stay") {
  CHECK(wrapped("one two three", 7) == std::vector<std::string>{"one two", "three"});
  CHECK(wrapped("one\ntwo", 20) == std::vector<std::string>{"one", "two"});
  CHECK(wrapped("unbreakable", 4) == std::vector<std::string>{"unbreakable"});
  CHECK(wrapped("", 10).empty());
}

TEST_CASE("bold and dim are escapes only with colour") {
  TextStyle look;
  CHECK(look.bold("x") == "x");
  look.color = true;
  CHECK(look.bold("x") == "\x1b[1mx\x1b[0m");
  CHECK(look.dim("").empty());
}

TEST_CASE("a grid aligns by width, and shrinks the columns that may") {
  Grid grid({{"name"}, {"n", true}, {"text", false, true}});
  grid.add({"√", "7", "short"});
  grid.add({"alpha", "123", "a text that is long"});
  TextStyle look;
  look.width = 30;
  CHECK(grid.text(look) == "name     n  text\n"
                           "√        7  short\n"
                           "alpha  123  a text that is lo…\n");
}
