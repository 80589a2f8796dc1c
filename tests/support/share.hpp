#pragma once
// A share of many cases that go the same way through the code.

#include "support/sanitizers.hpp"

#include <cstddef>
#include <set>
#include <string>

/// Which of them are run: all, or, where that is slow (sanitizers.hpp), the first of each kind and
/// every so manyth.
class Share {
public:
  explicit Share(std::size_t step = one_of) : step_(sanitized ? step : 1) {}
  bool takes(const std::string& kind = "") {
    const bool is_first = kinds_.insert(kind).second;
    return number_++ % step_ == 0 || is_first;
  }
  /// How many of so many cases are run, without those that are run as the first of a kind.
  std::size_t of(std::size_t cases) const { return cases / step_; }

private:
  std::size_t step_, number_ = 0;
  std::set<std::string> kinds_;
};
