#pragma once
// What every fuzz target expects.

#include <mha/system/error.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace mha::fuzz {

inline void require(bool holds, std::string_view what) {
  if (holds) return;
  std::fprintf(stderr, "expected: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

/// A message is one line that is not empty and steers no terminal.
inline void require_message(std::string_view message) {
  require(!message.empty() && message.size() < 4000, "a message of sensible length");
  for (const char c : message)
    require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f, "a message in one line");
}

/// Whatever the input: it works, or throws mha::Error with a message.
template <class Work> void expect_error_or_success(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    require_message(error.what());
  }
}

} // namespace mha::fuzz
