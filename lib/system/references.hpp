#pragma once
// References in messages: queries and replacement.

#include <mha/system/message.hpp>

namespace mha {

/// Whether a message refers to this: "layer", "which layer".
bool refers_to(const Message& message, std::string_view reference);
/// The message with references to one setting replaced by references to another.
Message with_reference(const Message& message, std::string_view from, std::string_view to);
/// The message of a table's text without braces, which has references like a literal.
Message of_literal(std::string_view text);

} // namespace mha
