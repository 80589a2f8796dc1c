#pragma once
// Text whose references to settings, tensors and pages stay data until the reader is known.

#include <mha/system/export.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace mha {

/// The reader of a message: a program's author knows `num_heads` and tensors by name, the user of
/// the command line `--num-heads` and `NAME=FILE`.
enum class Wording : unsigned char { program, command_line };

/// A setting or an argument as the reader writes it: "num_heads" or "--num-heads", and
/// "causal false" or "--no-causal".
MHA_API std::string setting_in_words(std::string_view setting, Wording wording);

/// A text whose references are data. Only the literal of `message` and `fail` makes references:
/// angle brackets in plain text are characters like others.
///
///     <num_heads>          a setting or an argument
///     <causal false>       the same, switched off
///     <W_q=FILE:TENSOR>    a tensor that is given under this name
///     <transpose W_q>      the same tensor in the other order
///     <names page>         one of the phrases in message.cpp
///     <<                   the character <
class MHA_API Message {
public:
  Message() = default;
  ///@{
  /// Plain text.
  Message(std::string_view plain);
  Message(const std::string& plain) : Message(std::string_view(plain)) {}
  Message(const char* plain) : Message(std::string_view(plain)) {}
  ///@}
  /// The text in a reader's words.
  std::string in_words(Wording wording) const;
  /// Whether it has no text.
  bool empty() const { return marked_.empty(); }
  ///@{
  /// Appends a text.
  Message& operator+=(const Message& more) { return marked_ += more.marked_, *this; }
  friend Message operator+(Message text, const Message& more) { return text += more; }
  ///@}
  friend bool operator==(const Message&, const Message&) = default; ///< in every reader's words
  /// The text with its references between control characters, and plain ones escaped.
  const std::string& marked() const { return marked_; }
  static Message of_marked(std::string text); ///< the opposite of `marked`

private:
  std::string marked_;
};

namespace detail {

/// An argument that is neither a number nor text, such as fmt::join, formatted as plain text.
template <class T> struct PlainArgument {
  const T& value; ///< of the caller
};

template <class T> using MessageArgument =
    std::conditional_t<std::is_arithmetic_v<T>, T,
                       std::conditional_t<std::is_convertible_v<const T&, std::string_view> ||
                                              std::is_same_v<T, Message>,
                                          std::string, PlainArgument<T>>>;

template <class T> MessageArgument<T> message_argument(const T& value) {
  if constexpr (std::is_same_v<T, Message>)
    return value.marked();
  else if constexpr (std::is_same_v<MessageArgument<T>, std::string>)
    return Message(std::string_view(value)).marked();
  else
    return {value};
}

/// The literal with marks around its references.
MHA_API std::string with_marks(std::string_view literal);

} // namespace detail

/// A literal with references for arguments of these types.
template <class... Args> using MessageLiteral =
    fmt::format_string<detail::MessageArgument<std::remove_cvref_t<Args>>...>;

/// Makes a message of a literal with references and of arguments as for fmt::format, which are
/// plain text, numbers or messages.
template <class... Args> Message message(MessageLiteral<Args...> literal, const Args&... args) {
  const fmt::string_view text = literal;
  const auto format = [&](const auto&... parts) {
    return fmt::vformat(detail::with_marks({text.data(), text.size()}),
                        fmt::make_format_args(parts...));
  };
  return Message::of_marked(format(detail::message_argument<std::remove_cvref_t<Args>>(args)...));
}

} // namespace mha

/// @cond
/// Passes the format specification to the argument's own formatter.
template <class T> struct fmt::formatter<mha::detail::PlainArgument<T>> : fmt::formatter<T> {
  std::string_view spec; ///< the part after the colon

  /// Keeps the specification for `format`.
  constexpr auto parse(fmt::format_parse_context& parsing) {
    const auto begin = parsing.begin(), end = fmt::formatter<T>::parse(parsing);
    spec = std::string_view(&*begin, static_cast<std::size_t>(end - begin));
    return end;
  }
  /// Writes the part as plain text.
  template <class Context>
  auto format(const mha::detail::PlainArgument<T>& part, Context& written) const {
    const std::string text =
        fmt::vformat(fmt::format("{{:{}}}", spec), fmt::make_format_args(part.value));
    const mha::Message plain(text);
    return std::ranges::copy(plain.marked(), written.out()).out;
  }
};
/// @endcond
