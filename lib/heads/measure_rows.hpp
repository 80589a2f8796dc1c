#pragma once
// The measures of a head's weights: sums over rows, kept for each block of queries and added in the
// order of the blocks, so that the bits do not depend on threads.

#include <mha/heads/measures.hpp>
#include <mha/heads/row_totals.hpp>
#include <mha/heads/separators.hpp>
#include <mha/observe/mergeable.hpp>

namespace mha {

/// Observes weights, row_max and logsumexp.
class RowMeasures : public Mergeable {
public:
  RowMeasures(const Layer& layer, const MeasureRequest& request, const StageSet& available);

  StageSet wants() const override { return wanted_; }
  void observe(const Slice& block) override;
  /// For each unit its totals and, if heads are compared, its rows of cells: 4 bytes a cell, at
  /// most 256 × 256 cells a map.
  void share(const Layer& layer, const Plan& part, ShareBytes& bytes) override;

  /// Whether query t is measured.
  bool selected(std::size_t t) const { return selected_[t]; }
  /// Whether the row is neither padding nor fully masked; known once it was observed here.
  bool attends(std::size_t b, std::size_t h, std::size_t t) const {
    return t < layer_.length_of(b) && attends_[(b * dims_.H + h) * dims_.T + t] != 0;
  }
  /// How many queries are summed together: a block, or one.
  std::size_t block_rows() const { return block_rows_; }
  /// Fills in the measures of one head, or of one of its queries.
  void fill(HeadMeasures& head) const;

private:
  /// The keys that a row may see: a range, or all that no mask hides.
  struct Seen {
    std::size_t keys = 0, in_window = 0;
    std::size_t first = 0, last = 0; ///< the range, of keys with a position
    const std::vector<std::uint8_t>* masked = nullptr;
    bool sees(std::size_t j) const { return masked ? (*masked)[j] == 0 : j >= first && j < last; }
    double equal(std::size_t j) const { return sees(j) ? 1 / static_cast<double>(keys) : 0; }
  };
  /// One row: its place, and the measures that do not depend on visible keys.
  struct MeasuredRow {
    std::size_t b = 0, h = 0, t = 0;
    std::ptrdiff_t p = 0; ///< the query's place among the keys
    double entropy = 0, max = -1, distance = 0, sum = 0;
    Moments moments{};
  };
  /// A block of queries of one head, while and after it is computed.
  struct BlockSums {
    RowTotals totals;
    std::vector<float> cell_row_sums;      ///< S_all: the rows of a cell so far
    std::vector<double> cell_row_sums_f64; ///< the same in a layer of float64
  };
  template <class T> void observe_as(const Slice& block);
  template <class T>
  void measure_row(const Slice& block, std::size_t i, const T* row, BlockSums& part);
  template <class T>
  void add_if_causal(const MeasuredRow& row, const T* weights, RowTotals& totals) const;
  template <class T> void add(const MeasuredRow& row, const T* weights, const Seen& seen,
                              double overlap, WeightTotals& totals) const;
  template <class T> void add_places(const MeasuredRow& row, const T* weights, const Seen& seen,
                                     WeightTotals& totals) const;
  void add_repeats(const MeasuredRow& row, const auto* weights, const Seen& seen,
                   WeightTotals& totals) const;
  /// The moments of equal weights on the keys that a row may see.
  Moments uniform_moments(const MeasuredRow& row, const Seen& seen) const;
  template <class T>
  void add_to_cells(const Slice& block, std::size_t t, const T* row, BlockSums& part);
  /// Moments count rows and keys from the middle: smaller squares lose less when they cancel. A
  /// text that is measured by itself has its own middle, and so the bits that it has alone.
  struct Middle {
    double row = 0, key = 0;
  };
  Middle middle_of(std::size_t b) const;
  Seen seen_by(std::size_t b, std::size_t h, std::size_t t) const;
  template <class T> static std::vector<T>& cell_row_sums(BlockSums& part);
  std::size_t text_of(std::size_t b) const { return repeats_.size() == 1 ? 0 : b; }
  const Repeats& repeats_of(std::size_t b) const { return repeats_[text_of(b)]; }
  /// The last key with a position that the first or the last query may see, or none.
  std::optional<std::size_t> last_key(std::size_t b, std::size_t h) const;
  /// The keys [first, last) within the window of query t.
  std::pair<std::size_t, std::size_t> window_of(std::size_t b, std::size_t t) const;
  BlockSums& sums_of(const Slice& block, std::size_t i) {
    return parts_[(block.batch * dims_.H + block.head) * blocks_ + (block.token + i) / block_rows_];
  }
  /// The places of the totals and cells of a plan's units with queries. A row of cells is never in
  /// two blocks.
  struct Filled {
    std::size_t part = 0, first_cell = 0, cells = 0;
  };
  std::vector<Filled> filled_by(const Plan& plan) const;
  /// The cells of a batch item's maps: how many positions a cell covers, how many cells a map has,
  /// and where head 0's begin. A map that may be causal has query 0 in a row of its own, in front.
  struct CellGrid {
    std::size_t row_step = 1, col_step = 1, rows = 0, cols = 0, first = 0;
    std::size_t count() const { return rows * cols; }
    std::size_t of_head(std::size_t h) const { return first + h * count(); }
  };
  void make_cells();
  bool looks_ahead(std::size_t batch) const;
  void fill_nearest(std::size_t first, std::size_t last, bool causal, HeadMeasures& head) const;
  /// Over batch items [first, last); `causal`: without query 0, which has only one key then.
  double similarity(std::size_t a, std::size_t b, std::size_t first, std::size_t last,
                    bool causal) const;

  const Layer& layer_;
  const Dims& dims_;
  std::size_t window_, block_rows_, blocks_;
  StageSet wanted_;
  bool weights_are_given_, positioned_;
  bool alone_;                       ///< a text is measured by itself
  bool starts_after_masks_;          ///< given stages may have masked rows that no mask shows
  bool may_be_causal_ = false;       ///< given square maps without known masks
  std::size_t positioned_key_count_; ///< past and current keys, which come first
  std::vector<Repeats> repeats_;     ///< one, or one a batch item if their texts differ
  std::vector<std::vector<std::size_t>> separators_;  ///< their keys, likewise
  std::vector<std::optional<std::size_t>> last_keys_; ///< B, H
  std::vector<bool> selected_;
  std::vector<std::uint8_t> attends_; ///< B, H, T
  std::vector<BlockSums> parts_;      ///< B, H, blocks (or queries)
  std::vector<CellGrid> grids_;       ///< B
  std::vector<float> cells_;          ///< of every item's heads, rows × cols
};

} // namespace mha
