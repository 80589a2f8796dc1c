#pragma once
// Placement of a stage's pieces in its selected, handed-out form.

#include <mha/observe/compute.hpp>

#include <functional>
#include <optional>
#include <utility>

namespace mha {

/// Maps pieces of a stage to runs of its selected value: row-major, dropped axes gone, transposed
/// in `columns`. What is kept, streamed and printed all goes through here.
class Placement {
public:
  Placement(const Layer& layer, Stage stage, const Selection& selection);

  Stage stage() const { return stage_; }
  /// The shape of the whole selected value.
  const Shape& shape() const { return shape_; }
  /// The axes that shape() has, in its order (transposed in `columns`), with the positions chosen.
  const std::vector<SelectedAxis>& axes() const { return axes_; }

  /// The one batch item that it is about; nothing where there are several, or no such axis.
  std::optional<std::size_t> batch() const { return batched_ ? targets_[0].only() : std::nullopt; }

  /// Called with a contiguous run of the result: its offset in elements, its elements (of the
  /// stage's type), their number.
  using Put = std::function<void(std::size_t offset, const std::byte* values, std::size_t count)>;
  /// Cuts the selected part of a block into runs. Thread-safe.
  void scatter(const Slice& block, const Put& put) const;
  /// The runs of the result that the pieces of a plan fill, in order and joined where they touch:
  /// (offset, count) in elements. Before anything is computed.
  std::vector<std::pair<std::size_t, std::size_t>> filled_by(const Layer& layer,
                                                             const Plan& plan) const;

private:
  /// Indices of an axis that follow each other, as their positions in the result do.
  struct Run {
    std::size_t index, position, count;
  };
  /// What of the result lies in a row: emit(offset, where its row begins in the source, the runs of
  /// that row, the source's step from one index to the next).
  template <class Emit> void cut(const Slice& block, const Emit& emit) const;
  /// Of each axis of a block the chosen runs that it holds, their indices counted from its first;
  /// nothing where it holds none of one.
  std::vector<std::vector<Run>> held_by(const Slice& block) const;
  /// The axis of a block that lies in a row in the result, of these runs; the last axis where the
  /// result has none of them.
  std::size_t contiguous_axis(const std::vector<std::vector<Run>>& held) const;
  /// Throws Error where an axis is shorter than `end`.
  void require_within(std::size_t axis, std::size_t end) const;
  struct Target {
    std::size_t count = 0;  ///< indices of the axis
    std::size_t stride = 0; ///< of the axis in the result
    std::vector<Run> runs;  ///< the chosen indices, in ascending order
    /// The chosen index, where it is one.
    std::optional<std::size_t> only() const {
      if (runs.size() != 1 || runs[0].count != 1) return std::nullopt;
      return runs[0].index;
    }
    /// Those of [first, end), counted from `first`.
    std::vector<Run> within(std::size_t first, std::size_t end) const;
  };
  Stage stage_;
  bool batched_ = false;
  Shape shape_;
  std::vector<SelectedAxis> axes_;
  std::vector<Target> targets_; ///< one per axis, in the table's order, batch first
};

} // namespace mha
