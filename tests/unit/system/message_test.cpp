// References in messages are data: words for each reader, and none in text that comes from outside.

#include <mha/system/error.hpp>
#include <mha/system/note.hpp>
#include <mha/system/references.hpp>

#include <catch2/catch.hpp>

#include <fmt/ranges.h>

#include <string>
#include <utility>
#include <vector>

using namespace mha;

namespace {

void check_words(const Message& message, const std::string& program, const std::string& typed) {
  INFO(typed);
  CHECK(message.in_words(Wording::program) == program);
  CHECK(message.in_words(Wording::command_line) == typed);
}

} // namespace

TEST_CASE("a message names settings, tensors and pages in its reader's words") {
  check_words(message("give <num_heads>, <causal false> or <window_left> {}", 3),
              "give num_heads, causal false or window_left 3",
              "give --num-heads, --no-causal or --window-left 3");
  check_words(message("<{}>: {:.2f} of {}", "input_norm_eps", 0.5, "X"),
              "input_norm_eps: 0.50 of X", "--input-norm-eps: 0.50 of X");
  check_words(message("bind it: <{}=FILE:TENSOR@IO>", "W_q"), "bind it: {\"W_q\", tensor}",
              "bind it: W_q=FILE:TENSOR@IO");
  check_words(message("stored as (out, in)? <transpose {}>", "W_q"),
              "stored as (out, in)? give its transpose", "stored as (out, in)? write W_q=…@OI");
  check_words(message("no name; <names page> lists them all"),
              "no name; docs/formats.md lists them all",
              "no name; `mha-inspect names` lists them all");
  check_words(message("by <naming> FILE.json<draft naming>"),
              "by naming FILE.json (docs/describing.md)",
              "by --naming FILE.json, which info --as-naming drafts");
  check_words(message("{{layer}} is a number, 1 << 2 and 3 > 2; {:<4}|", "a"),
              "{layer} is a number, 1 < 2 and 3 > 2; a   |",
              "{layer} is a number, 1 < 2 and 3 > 2; a   |");
}

TEST_CASE("a message in another keeps its references") {
  const Message cure = message("give <num_heads>");
  check_words(message("{}: {}", "W_q", cure), "W_q: give num_heads", "W_q: give --num-heads");
  check_words("W_q: " + cure, "W_q: give num_heads", "W_q: give --num-heads");
  const Note note = {message("{} or <scale>", cure), Severity::warning};
  CHECK(note.text == "give num_heads or scale");
  check_words(note.message, note.text, "give --num-heads or --scale");
  const Error error(cure);
  CHECK(std::string(error.what()) == "give num_heads");
  CHECK(error.line(Wording::command_line) == "give --num-heads");
}

TEST_CASE("a message says what it refers to, and may refer to something else instead") {
  const Message lost = message("<layer> {}: leave <layer> out, give <layer_type> {}", 7, "<layer>");
  CHECK(refers_to(lost, "layer"));
  CHECK_FALSE(refers_to(lost, "minus_layer"));
  CHECK_FALSE(refers_to(message("{}", "<layer>"), "layer"));
  CHECK(refers_to(message("in it: {}", message("<which layer>")), "which layer"));
  check_words(with_reference(lost, "layer", "minus_layer"),
              "minus_layer 7: leave minus_layer out, give layer_type <layer>",
              "--minus-layer 7: leave --minus-layer out, give --layer-type <layer>");
  CHECK(with_reference(lost, "scale", "layer") == lost);
  check_words(of_literal("within <near> tokens"), "within near tokens", "within --near tokens");
}

TEST_CASE("text that is not the message's own is never a reference") {
  // What the literal's references look like, what they are kept as, and pieces of both.
  const std::string kept = message("<num_heads>").marked();
  std::vector<std::string> texts{"<num_heads>", "--num-heads", "W_q=FILE",  "{}",
                                 "<<",          ">",           kept + kept, "`mha-inspect names`"};
  for (std::size_t begin = 0; begin < kept.size(); ++begin)
    for (std::size_t size = 1; begin + size <= kept.size(); ++size)
      texts.push_back(kept.substr(begin, size));
  for (const std::string& text : texts) {
    check_words(text, text, text);
    check_words(message("{}: <scale>", text), text + ": scale", text + ": --scale");
    check_words(message("<scale>{}", std::string_view(text)), "scale" + text, "--scale" + text);
    check_words(message("{}", text.c_str()), text, text);
    check_words(message("{}", fmt::join(std::vector<std::string>{text, text}, ", ")),
                text + ", " + text, text + ", " + text);
    // Within a reference it stays a part of the name.
    check_words(message("<{}=FILE>", text), "{\"" + text.substr(0, text.find('=')) + "\", tensor}",
                text + "=FILE");
    check_words(message("{}", message("<W_q=FILE:{}>", text)), "{\"W_q\", tensor}",
                "W_q=FILE:" + text);
    // Again, as where an error is reported within another.
    check_words(message("{}", message("{}", text)), text, text);
  }
  const Error error(message("{}: <scale>", kept));
  CHECK(error.line(Wording::command_line) == "\\x0enum_heads\\x0f: --scale");
}
