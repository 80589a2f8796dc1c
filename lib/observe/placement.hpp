#pragma once
// Placement of a stage's blocks in its selected value, as users see it.

#include <mha/observe/compute.hpp>

#include <functional>
#include <optional>
#include <utility>

namespace mha {

/// Maps blocks of a stage to runs of its selected value: row-major, without dropped axes,
/// transposed in `columns`. Everything that is kept, streamed or printed goes through here.
class Placement {
public:
  Placement(const Layer& layer, Stage stage, const Selection& selection);

  Stage stage() const { return stage_; }
  /// The shape of the whole selected value.
  const Shape& shape() const { return shape_; }
  /// The axes of shape(), in its order (transposed in `columns`), with the chosen positions.
  const std::vector<SelectedAxis>& axes() const { return axes_; }

  /// The batch item, if there is exactly one selected.
  std::optional<std::size_t> batch() const { return batched_ ? targets_[0].only() : std::nullopt; }

  /// Gets a contiguous run of the result: its offset in elements, its elements (of the stage's
  /// type), their number.
  using Put = std::function<void(std::size_t offset, const std::byte* values, std::size_t count)>;
  /// Cuts the selected part of a block into runs. Thread-safe.
  void scatter(const Slice& block, const Put& put) const;
  /// The runs of the result that the blocks of a plan fill, in order and joined where they touch:
  /// (offset, count) in elements. Needs no computation.
  std::vector<std::pair<std::size_t, std::size_t>> filled_by(const Layer& layer,
                                                             const Plan& plan) const;

private:
  /// Consecutive indices of an axis whose positions in the result are also consecutive.
  struct Run {
    std::size_t index, position, count;
  };
  /// Cuts a block into rows of the result: emit(offset, begin of the row in the source, runs of the
  /// row, the source's step from one index to the next).
  template <class Emit> void cut(const Slice& block, const Emit& emit) const;
  /// The chosen runs of each axis that a block holds, with indices counted from the block's first;
  /// empty if an axis has none.
  std::vector<std::vector<Run>> held_by(const Slice& block) const;
  /// The axis of a block that is contiguous in the result, by the longest runs; the last axis if
  /// none is.
  std::size_t contiguous_axis(const std::vector<std::vector<Run>>& held) const;
  void add_whole(SelectedAxis axis);
  /// Throws Error if an axis is shorter than `end`.
  void require_within(std::size_t axis, std::size_t end) const;
  struct Target {
    std::size_t count = 0;  ///< indices of the axis
    std::size_t stride = 0; ///< of the axis in the result
    std::vector<Run> runs;  ///< the chosen indices, in ascending order
    /// The chosen index, if there is exactly one.
    std::optional<std::size_t> only() const {
      if (runs.size() != 1 || runs[0].count != 1) return std::nullopt;
      return runs[0].index;
    }
    /// The runs within [first, end), counted from `first`.
    std::vector<Run> within(std::size_t first, std::size_t end) const;
  };
  Stage stage_;
  bool batched_ = false;
  Shape shape_;
  std::vector<SelectedAxis> axes_;
  std::vector<Target> targets_; ///< one per axis, in the table's order, batch first
};

} // namespace mha
