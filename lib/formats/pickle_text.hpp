#pragma once
// Strings that a pickle of protocol 0 writes as text, with escapes.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace mha::io {

/// Throws Error of `what`. The reader of the pickle knows the file and the place, and puts them in
/// front.
using RefusePickle = std::function<void(std::string_view what)>;

/// A string as Python's repr writes it: in quotes, with escapes.
std::string unquoted(std::string_view text, const RefusePickle& refuse);
/// Text in Latin-1 with \uXXXX and \UXXXXXXXX, as UTF-8.
std::string unescaped_unicode(std::string_view text, const RefusePickle& refuse);

} // namespace mha::io
