#pragma once
// Predictions of many passes over the same texts, each with other patches.

#include <mha/model/run.hpp>
#include <mha/observe/prediction_rows.hpp>

#include <functional>
#include <vector>

namespace mha {

/// Passes over some texts that do not read each other's results.
struct PatchedPasses {
  std::size_t count = 0;
  /// The stream behind the last layer of pass r, B, T, d_model, of which the places' rows are read;
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
void visit_passes(const TextLayers& layers, const PatchedPasses& passes, const VisitPassRow& visit);

} // namespace mha
