#pragma once
// Patches of what a layer starts from, and of what its heads add to the output.

#include <mha/kernels/matrix.hpp>
#include <mha/layer/layer.hpp>

#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace mha {

/// The layer whose X, embedding and given token stages are patched.
Layer with_patched_inputs(Layer layer);

/// Applies the patches of a stage to rows [first, first + rows) of one batch item, of heads
/// [first_head, first_head + heads) side by side, each `width` columns wide.
template <class T> void patch_rows(const Patches& patches, Stage stage, std::size_t batch,
                                   std::size_t first, std::size_t first_head, std::size_t heads,
                                   std::size_t width, Matrix<T> rows);

/// The patched rows of head_result. A head's result is a summand of the output: at a patched
/// position its part of concat is zero in the product with W_o, and its row is added after it, in
/// the order of heads.
template <class T> class PatchedResults {
public:
  /// Keeps a head's row; called by several threads.
  void keep(std::size_t batch, std::size_t head, std::size_t token, std::vector<T> row);
  bool empty() const { return rows_.empty(); }
  /// Zeros in the heads' parts of an item's concat, T × H·d_v.
  void take_out(std::size_t batch, std::size_t d_v, Matrix<T> concat) const;
  /// y += the rows of tokens [first, first + y.rows), columns [column, column + y.cols).
  void add_to(std::size_t batch, std::size_t first, std::size_t column, Matrix<T> y) const;

private:
  std::mutex mutex_;
  std::map<std::pair<std::size_t, std::size_t>, std::map<std::size_t, std::vector<T>>>
      rows_; ///< by batch and token, then head
};

} // namespace mha
