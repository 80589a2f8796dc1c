#pragma once
// Words of command lines that a reader can copy.

#include <string>
#include <string_view>

namespace mha {

/// A word for a shell, quoted where it must be.
std::string shell_word(std::string_view word);

} // namespace mha
