#pragma once
// GGUF files of a test's own making: written from the format's description, not from lib/.

#include "support/reference.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace mha::test {

/// A key's value. Lists are of u32 and of bool.
using GgufKeyValue = std::variant<bool, std::uint32_t, float, std::string,
                                  std::vector<std::uint32_t>, std::vector<bool>>;

/// Keys by their whole names, and tensors of float32: axes as NumPy has them.
struct GgufFile {
  std::map<std::string, GgufKeyValue> keys;
  std::map<std::string, reference::Array> tensors;

  /// The file: version 3, alignment 32.
  std::string bytes() const;
};

} // namespace mha::test
