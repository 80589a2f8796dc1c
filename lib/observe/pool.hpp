#pragma once
// Pooling of maps to a picture's cells while they are computed, in the memory of the picture.

#include <mha/layer/select.hpp>
#include <mha/observe/mergeable.hpp>

#include <map>
#include <mutex>
#include <tuple>

namespace mha {

/// How the numbers of a cell become one.
enum class Pooling : std::uint8_t { mean, max };

/// One head's map as cells. A cell covers query_factor × key_factor numbers (fewer at the end),
/// without those of masked keys; a cell with only masked keys is masked.
struct PooledMap {
  std::size_t batch = 0, head = 0;
  std::size_t rows = 0, cols = 0;   ///< cells: queries, keys
  std::vector<double> values;       ///< rows × cols; NaN where masked
  std::vector<std::uint8_t> masked; ///< rows × cols; 1 = no key of the cell may be attended to

  double value(std::size_t row, std::size_t col) const { return values[row * cols + col]; }
  bool is_masked(std::size_t row, std::size_t col) const { return masked[row * cols + col] != 0; }
};

/// Pools the selected part of a T × S stage to at most `rows` × `cols` cells a head. Partial
/// results are kept for each block and added in the order of blocks, so that the bits do not depend
/// on threads.
///
/// Masked numbers are those of −1e8 and below in `masked` and `shifted` (−inf, −1e9, a type's
/// lowest number), and zeros of `exp` and `weights` where causal, windows, lengths or a mask block
/// the key. Stages before `masked` and weights that were given without a mask have no masked cells.
class Pool : public Mergeable {
public:
  struct Size {
    std::size_t rows = 0, cols = 0; ///< at least 1
    /// The fewest queries and keys of a cell, so that the maps of a picture have one scale.
    std::size_t query_factor = 1, key_factor = 1;
  };
  /// The size with which the maps of several texts all have the cells that the longest text needs.
  static Size of_one_scale(const Layer& layer, const std::vector<Selection>& texts, Size size);
  /// Throws Error for a stage that is not a map or that the layer does not have.
  Pool(const Layer& layer, Stage stage, const Selection& selection, Size most,
       Pooling pooling = Pooling::mean);

  StageSet wants() const override;
  std::optional<std::size_t> batch() const override {
    return batches_.chosen.size() == 1 ? std::optional(batches_.chosen[0]) : std::nullopt;
  }
  void observe(const Slice& block) override;
  /// 12 bytes a cell and 24 a row of cells, again for each block if a row of cells spans several.
  void share(const Layer& layer, const Plan& part, ShareBytes& bytes) override;

  /// The chosen positions, in the order of the picture.
  const std::vector<std::size_t>& queries() const { return queries_.chosen; }
  const std::vector<std::size_t>& keys() const { return keys_.chosen; }
  /// How many queries and keys a cell covers.
  std::size_t query_factor() const { return queries_.factor; }
  std::size_t key_factor() const { return keys_.factor; }

  /// A map for each batch item and head, in the order of the selection. Call after the computation.
  std::vector<PooledMap> maps() const;

private:
  /// One axis: the chosen positions, and the place of each.
  struct Side {
    std::vector<std::size_t> chosen;
    std::vector<std::ptrdiff_t> place; ///< of each position among the chosen ones, or −1
    std::size_t factor = 1, cells = 0;
    bool contiguous = false; ///< a run of positions, in order
  };
  /// A row of cells, or one block's part of it.
  struct BlockSums {
    std::vector<double> sums; ///< Pooling::max: the largest
    std::vector<std::uint32_t> counts;
  };
  /// How masked keys are recognised in this stage.
  enum class Masks : std::uint8_t {
    nowhere,
    values, ///< in the numbers themselves
    ranges, ///< outside visible_keys, where they are zeros
    rows,   ///< by a row of the mask, if the number is zero
  };
  using Place = std::tuple<std::size_t, std::size_t, std::size_t>; ///< map, row of cells, block
  static constexpr std::size_t no_block =
      static_cast<std::size_t>(-1); ///< for a row of cells within one band

  static Side side_of(Pick pick, std::size_t count, std::size_t most, std::size_t factor = 1);
  BlockSums& part_at(const Place& place);
  template <class T> class PooledRows;
  template <class T> void pool(const Slice& block, std::size_t map);
  void add(BlockSums& to, const BlockSums& from) const;

  const Layer& layer_;
  Stage stage_;
  Pooling pooling_;
  Masks masks_ = Masks::nowhere;
  Side batches_, heads_, queries_, keys_;
  std::vector<std::vector<BlockSums>> whole_; ///< by map and row of cells, for rows within one band
  std::mutex mutex_;
  std::map<Place, BlockSums> parts_; ///< the blocks' parts of other rows of cells
};

} // namespace mha
