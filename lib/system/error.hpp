#pragma once
// The one error of the library: a line that says where, what was found, what was expected, the
// cure.

#include <mha/system/message.hpp>

#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace mha {

/// Everything that can go wrong with what the user gave. `what()` is the line in a program's words.
class MHA_API Error : public std::runtime_error {
public:
  explicit Error(Message message);                     ///< with this text
  const Message& message() const { return *message_; } ///< the text, for any reader's words
  /// One line, ready to print: control characters, which names in files and on the command line may
  /// have, are escaped, and of more than 2000 bytes the beginning and the end remain.
  std::string line(Wording wording) const;

private:
  std::shared_ptr<const Message> message_; ///< exceptions are copied without throwing
};

/// Throws an Error with `message` of the same arguments.
template <class... Args>
[[noreturn]] void fail(MessageLiteral<Args...> literal, const Args&... args) {
  throw Error(message(literal, args...));
}

/// "1 head", "2 heads", "1 query", "0 keys in all": a number of what is named in the plural.
MHA_API std::string counted(std::size_t n, std::string_view plural);

/// Damerau's edit distance restricted to adjacent swaps: "haed" is one step from "head".
MHA_API std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate that `word` most likely was meant to be (small edit distance), or "" if none is
/// close.
MHA_API std::string closest(std::string_view word, std::span<const std::string_view> candidates);

/// "; did you mean 'weights'?" for the closest candidate, or "".
MHA_API std::string did_you_mean(std::string_view word,
                                 std::span<const std::string_view> candidates);
/// The same, and where none is close all candidates: "; there are q, k, v".
MHA_API std::string choices_for(std::string_view word,
                                std::span<const std::string_view> candidates);

} // namespace mha
