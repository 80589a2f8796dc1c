#include <mha/render/text.hpp>

#include <mha/render/table.hpp>

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
  TextStyle text_style;
  CHECK(text_style.bold("x") == "x");
  text_style.color = true;
  CHECK(text_style.bold("x") == "\x1b[1mx\x1b[0m");
  CHECK(text_style.dim("").empty());
}

TEST_CASE("a grid aligns by width, and shrinks the columns that may") {
  Table grid({{"name"}, {"n", true}, {"text", false, true}});
  grid.add({"√", "7", "short"});
  grid.add({"alpha", "123", "a text that is long"});
  TextStyle text_style;
  text_style.width = 30;
  CHECK(grid.text(text_style) == "name     n  text\n"
                                 "√        7  short\n"
                                 "alpha  123  a text that is lo…\n");
}

TEST_CASE("words wider than a line are broken behind what joins their parts") {
  using Lines = std::vector<std::string>;
  CHECK(broken("model.layers.0.self_attn.q_proj", 16) ==
        Lines{"model.layers.0.", "self_attn.q_proj"});
  CHECK(broken("post_attention_norm", 10) == Lines{"post_", "attention_", "norm"});
  CHECK(broken("unbreakable", 4) == Lines{"unbr", "eaka", "ble"});
  CHECK(broken("日本語", 4) == Lines{"日本", "語"});
  CHECK(broken("日", 1) == Lines{"日"});
  CHECK(broken("one two", 20) == Lines{"one two"});
}

TEST_CASE("a grid wraps, leaves out what is said twice, then is split") {
  using Column = Table::Column;
  TextStyle text_style;
  text_style.width = 20;
  Table wrapping({{"n"}, Column{.title = "text", .shrinks = true, .wraps = true}});
  wrapping.add({"1", "a text that is longer than that"});
  CHECK(wrapping.text(text_style) == "n  text\n"
                                     "1  a text that is\n"
                                     "   longer than that\n");

  const auto measures = [](std::size_t of_spread) {
    Table grid({Column{.title = "head", .right = true, .names = true},
                    {"first", true},
                    Column{.title = "±", .right = true, .follows = true},
                    {"second", true},
                    Column{.title = "±", .right = true, .follows = true},
                    Column{.title = "", .spare = true}});
    grid.add({"0", "1.5", std::string(of_spread, '7'), "2.5", "8", "████"});
    return grid;
  };
  CHECK(measures(1).width() == 31);
  text_style.width = 25;
  CHECK(measures(1).text(text_style) == "head  first  ±  second  ±\n"
                                        "   0    1.5  7     2.5  8\n");
  text_style.width = 24; // a spread stays with what it is of
  CHECK(measures(1).text(text_style) == "head  first  ±\n"
                                        "   0    1.5  7\n"
                                        "\n"
                                        "head  second  ±\n"
                                        "   0     2.5  8\n");
}
