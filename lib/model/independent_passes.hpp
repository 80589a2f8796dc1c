#pragma once
// Predictions of many independent passes through the model with the same texts, each with other
// patches.

#include <mha/model/run.hpp>
#include <mha/observe/prediction_rows.hpp>

#include <functional>
#include <vector>

namespace mha {

/// Runs `pass(i, threads)` for i in [0, count), each with the threads that it may use. The loops of
/// a pass with few rows are too short to keep several threads busy, so such passes run side by side
/// with one thread each. Others run one after the other with all threads. `threads`: 0: as many as
/// pay. `rows`: of the stream, of all texts together.
/// `reached(n)` is called on the caller's thread when n passes are done, at last with all of them;
/// it may be null.
void independent_passes(std::size_t count, std::size_t rows, std::size_t threads,
                        const std::function<void(std::size_t, std::size_t)>& pass,
                        const std::function<void(std::size_t)>& reached = {});

/// Passes whose predictions are visited.
struct IndependentPasses {
  std::size_t count = 0;
  /// The stream after the last layer of pass r, B, T, d_model, of which the places' rows are read;
  /// computed with so many threads. Called by several.
  std::function<Tensor(std::size_t r, std::size_t threads)> stream;
  std::vector<TextPosition> places; ///< whose predictions are visited
  std::size_t threads = 0;          ///< 0: as many as pay
  /// Gets the share of the passes that are done, 0 to 1, on the caller's thread; may be null.
  std::function<void(double)> progress = {};
};

/// Gets the row of a place of pass r, which is valid during the call only.
using VisitPassRow =
    std::function<void(std::size_t r, std::size_t place, const PredictionRow& row)>;

/// Computes the passes and calls `visit` with each one's rows, from several threads, in any order.
/// Passes with few rows are computed side by side. The unembedding is as large as several layers,
/// so it is read once for several passes whose rows fit into one stream.
void visit_passes(const TextLayers& layers, const IndependentPasses& passes,
                  const VisitPassRow& visit);

} // namespace mha
