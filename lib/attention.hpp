#pragma once
// The forward pass: a layer is computed in blocks, and each wanted stage is handed to an observer.

#include "layer.hpp"
#include "plan.hpp"

namespace mha {

/// A piece of a stage as it appears: one batch, one head of a stage that has heads, and at most
/// block_queries queries, or all keys of k and v.
struct Block {
  Stage stage;
  std::size_t batch = 0;
  std::size_t head = 0;  ///< its head (key/value head for k and v)
  std::size_t token = 0; ///< the first query (key for k and v) of the piece
  /// The values, with the stage's own axes (no batch axis): (1, n, S), (1, n, d_k), (n, d_model) …
  /// Never transposed: whoever hands results out turns them for `columns`.
  ArrayView values;
};

/// What is done with stages while they are computed.
class Observer {
public:
  virtual ~Observer() = default;
  /// The stages it wants to see; asked once, before the plan is made.
  virtual StageSet wants() const = 0;
  /// One piece. Called from several threads, in any order, each place once; the memory is valid
  /// during the call only.
  virtual void observe(const Block& block) = 0;
};

/// The seconds that the parts of a computation took, the observer's among them.
struct PartTimes {
  double projections = 0; ///< x, q, k, v, and what is done with them before they meet
  double attention = 0;   ///< scores … weights, head_out, head_result
  double output = 0;      ///< concat W_o + b_o, residual
};

/// Computes what the plan says and shows `observer` every piece of the wanted stages. `threads` 0 =
/// threads_for(layer). A stage's bits depend on the layer alone: not on the plan, nor the threads.
/// A tensor of the layer is let go once nothing more is made of it: whoever moves the layer in has
/// its memory back then; an observer that looks into that layer (Comparison, Pool) must not be
/// used.
PartTimes compute(Layer layer, const Plan& plan, Observer& observer, std::size_t threads = 0);

} // namespace mha
