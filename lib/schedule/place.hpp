#pragma once
// A piece of a stage: where its rows are.

#include <cstddef>

namespace mha {

/// Tokens [token, token + count) of one head of one batch item. A stage without heads has head 0;
/// for k and v `head` is a key/value head and `token` a key.
struct Place {
  ///@{
  /// Counted from 0; `count` tokens.
  std::size_t batch = 0, head = 0, token = 0, count = 0;
  ///@}
};

} // namespace mha
