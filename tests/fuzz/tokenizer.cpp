// A tokenizer.json and a text: the input up to its first zero byte, and what comes after it.
// Every token of the text is inside it, or the file is refused in one line.

#include "fuzz/expect.hpp"
#include <mha/tokenizers/tokenizer.hpp>

#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mha;
  const std::string input(reinterpret_cast<const char*>(data), size);
  const std::string json = input.substr(0, input.find('\0'));
  const std::string text =
      json.size() < input.size() ? input.substr(json.size() + 1) : "To be 1 ▁é";
  fuzz::expect_error_or_success([&] {
    const auto tokenizer = tokenizers::read_tokenizer("file", json);
    for (const auto& token : tokenizer.encode(text).tokens) {
      fuzz::require(token.begin <= token.end && token.end <= text.size(), "a place in the text");
      fuzz::require(token.id >= 0 && token.id < tokenizer.size(), "a number that a token has");
      fuzz::require(!tokenizer.label(token.id).empty() || tokenizer.piece_of(token.id) == "",
                    "a label");
    }
  });
  return 0;
}
