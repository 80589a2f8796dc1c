#pragma once
// The one error of the library: a line with the place, what was found, what was expected and the
// cure.

#include <mha/system/message.hpp>

#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace mha {

/// Anything wrong with the user's input. `what()` is the line in a program's words.
class MHA_API Error : public std::runtime_error {
public:
  explicit Error(Message message);                     ///< of a message for any reader
  const Message& message() const { return *message_; } ///< the text, for any reader's words
  /// One line, ready to print: control characters, which names in files and on the command line may
  /// have, are escaped, and the middle of a line of more than 2000 bytes is left out.
  std::string line(Wording wording) const;

private:
  std::shared_ptr<const Message> message_; ///< shared, so that copying the exception cannot throw
};

/// Throws an Error with the text that `message` makes of these arguments.
template <class... Args>
[[noreturn]] void fail(MessageLiteral<Args...> literal, const Args&... args) {
  throw Error(message(literal, args...));
}

/// A count with its noun, which is given in the plural: "1 head", "2 heads", "1 query",
/// "0 keys in all".
MHA_API std::string counted(std::size_t n, std::string_view plural);

/// The edit distance with adjacent swaps (restricted Damerau): "haed" is one step from "head".
MHA_API std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate that is closest to `word` in edit distance, or "" if none is close.
MHA_API std::string closest(std::string_view word, std::span<const std::string_view> candidates);

/// "; did you mean 'weights'?" for the closest candidate, or "".
MHA_API std::string did_you_mean(std::string_view word,
                                 std::span<const std::string_view> candidates);
/// The same, or all candidates if none is close: "; there are q, k, v".
MHA_API std::string choices_for(std::string_view word,
                                std::span<const std::string_view> candidates);

} // namespace mha
