#pragma once
// Placement of a stage's pieces in its selected, handed-out form.

#include <mha/forward/attention.hpp>

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
  std::optional<std::size_t> batch() const { return batched_ ? targets_[0].only : std::nullopt; }

  /// Called with a contiguous run of the result: its offset in elements, its elements (of the
  /// layer's dtype), their number.
  using Put = std::function<void(std::size_t offset, const std::byte* values, std::size_t count)>;
  /// Cuts the selected part of a block into runs. Thread-safe.
  void scatter(const Slice& block, const Put& put) const;
  /// The runs of the result that the pieces of a plan fill, in order and joined where they touch:
  /// (offset, count) in elements. Before anything is computed.
  std::vector<std::pair<std::size_t, std::size_t>> filled_by(const Layer& layer,
                                                             const Plan& plan) const;

private:
  /// What of the result lies in a row: emit(offset, its source: where it begins, the position of
  /// each element from there, their number, whether the source is contiguous, too).
  template <class Emit> void cut(const Slice& block, const Emit& emit) const;
  /// The chosen indices of one axis that a block holds: where they go, where they lie.
  struct Chosen {
    std::vector<std::size_t> to, from;
  };
  /// Of each axis of a block; nothing where one of them holds none.
  std::vector<Chosen> chosen_of(const Slice& block) const;
  /// Throws Error where an axis is shorter than `end`.
  void require_within(std::size_t axis, std::size_t end) const;
  struct Target {
    std::size_t count = 0;                ///< indices of the axis
    std::optional<std::size_t> only;      ///< where one is chosen: that one
    std::vector<std::ptrdiff_t> position; ///< else of each index in the result, or −1
    std::size_t stride = 0;               ///< of the axis in the result
    std::ptrdiff_t position_of(std::size_t index) const {
      if (only) return index == *only ? 0 : -1;
      return position[index];
    }
  };
  Stage stage_;
  bool batched_ = false;
  Shape shape_;
  std::vector<SelectedAxis> axes_;
  std::vector<Target> targets_; ///< one per axis, in the table's order, batch first
};

} // namespace mha
