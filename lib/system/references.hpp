#pragma once
// References in messages: asked for, and exchanged.

#include <mha/system/message.hpp>

namespace mha {

/// Whether a message refers to this: "layer", "which layer".
bool refers_to(const Message& message, std::string_view reference);
/// The same text, with references to one setting as references to another.
Message with_reference(const Message& message, std::string_view from, std::string_view to);
/// The message of a table's text without braces, whose references are as a literal's.
Message of_literal(std::string_view text);

} // namespace mha
