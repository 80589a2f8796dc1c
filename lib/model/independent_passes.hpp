#pragma once
// Predictions of many passes over the same texts, each with other patches, that do not read each
// other's results.

#include <mha/model/run.hpp>
#include <mha/observe/prediction_rows.hpp>

#include <functional>
#include <vector>

namespace mha {

/// Runs `pass(i, threads)` for i in [0, count), each with the threads that it may use. The loops of
/// a pass over few rows are too short to keep several threads busy: such passes run side by side,
/// one thread each; others one after the other, each with all threads. `threads`: 0: as many as
/// pay. `rows`: of the stream, of all texts together.
/// `reached(n)`, on the caller's thread: n passes are done, all of them at last; null: nothing is
/// called.
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
  /// Gets the share of the passes that are done, 0 to 1, on the caller's thread; null: nothing
  /// does.
  std::function<void(double)> progress = {};
};

/// Gets the row of a place of pass r, which is valid during the call only.
using VisitPassRow =
    std::function<void(std::size_t r, std::size_t place, const PredictionRow& row)>;

/// Computes the passes and calls `visit` with each one's rows, from several threads, in any order.
/// Passes over few rows are computed side by side. The unembedding is as large as several layers:
/// where the rows of several passes fit into one stream, it is read once for all of them.
void visit_passes(const TextLayers& layers, const IndependentPasses& passes,
                  const VisitPassRow& visit);

} // namespace mha
