#pragma once
// Observers of stages while they are computed.

#include <mha/layer/stage.hpp>
#include <mha/tensor/tensor.hpp>

#include <limits>
#include <optional>

namespace mha {

/// A piece of a stage as it appears: one batch, one head of a stage that has heads, and at most
/// block_queries queries, or all keys of k and v.
struct Slice {
  Stage stage;
  std::size_t batch = 0;
  std::size_t head = 0;  ///< its head (key/value head for k and v)
  std::size_t token = 0; ///< the first query (key for k and v) of the piece
  /// How many of the batch item's tokens are not padding. The others come in pieces of their own,
  /// as zeros, and no measure counts them.
  std::size_t length = std::numeric_limits<std::size_t>::max();
  /// The values, with the stage's own axes (no batch axis): (1, n, S), (1, n, d_k), (n, d_model) …
  /// Never transposed: results are turned for `columns` where they leave the library.
  ArrayView values;

  /// Row i of a map (1, n, S), or of a stage with a head axis (1, n, d): numbers beside each other.
  template <class T> const T* row(std::size_t i) const {
    return reinterpret_cast<const T*>(values.data) +
           static_cast<std::ptrdiff_t>(i) * values.strides[1];
  }
};

/// What is done with stages while they are computed.
class Observer {
public:
  virtual ~Observer() = default;
  /// The stages it wants to see; asked once, before the plan is made.
  virtual StageSet wants() const = 0;
  /// The one batch item that it looks at: pieces of others need not be shown. Nothing: all.
  virtual std::optional<std::size_t> batch() const { return std::nullopt; }
  /// One piece. Called from several threads, in any order, each place once; the memory is valid
  /// during the call only.
  virtual void observe(const Slice& block) = 0;
};

} // namespace mha
