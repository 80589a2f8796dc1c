#pragma once
// Programs that a test needs and not every machine has.

#include "support/run.hpp"

#include <catch2/catch.hpp>

namespace mha::test {

/// Whether a program is there; if not, the report notes that the test was skipped.
inline bool have_tool(const std::string& name) {
  if (shell("command -v " + name + " >/dev/null").code == 0) return true;
  WARN("skipped: " << name << " is not installed");
  return false;
}

} // namespace mha::test
