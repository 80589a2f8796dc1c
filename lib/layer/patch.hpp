#pragma once
// Patches: while a layer is computed, what a stage holds at some places is set, added to or
// multiplied.

#include <mha/layer/stage.hpp>
#include <mha/tensor/tensor.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace mha {

/// What a patch does with the numbers at its place.
enum class PatchOp : std::uint8_t {
  set,      ///< they become the value
  add,      ///< the value is added
  multiply, ///< they are multiplied by it
};

/// Which positions of an axis are patched, and which number of the value each takes.
class PatchedAxis {
public:
  /// All positions; position i takes number i of the value.
  PatchedAxis() = default;
  /// These of `count`; the i-th of them takes number i of the value.
  PatchedAxis(const std::vector<std::size_t>& positions, std::size_t count);

  /// Whether a position is patched.
  bool contains(std::size_t position) const { return all_ || numbers_[position] >= 0; }
  /// Of a position that is patched.
  std::size_t number(std::size_t position) const {
    return all_ ? position : static_cast<std::size_t>(numbers_[position]);
  }

private:
  bool all_ = true;
  std::vector<std::ptrdiff_t> numbers_; ///< by position; −1: not patched
};

/// Whether a computation has read a patched stage.
using IsRead = std::shared_ptr<std::atomic<bool>>;
/// Whether one of these was.
bool is_any_read(const std::vector<IsRead>& list);

/// An edit of one stage, in one layer. Its axes are batch, head, token and column: heads are the
/// stage's own (0 without heads), tokens its rows, columns keys for T × S stages, else features.
struct ResolvedEdit {
  ///@{
  /// Which stage, what is done, and where: heads, and the tokens of each batch item (empty: all).
  Stage stage = Stage::output;
  PatchOp op = PatchOp::set;
  PatchedAxis heads;
  std::vector<PatchedAxis> tokens;
  /// Of each batch item, whose keys have positions of their own; one: of all (empty: every column).
  std::vector<PatchedAxis> columns;
  ///@}
  Tensor value;                         ///< in the layer's dtype
  std::array<std::size_t, 4> strides{}; ///< of the value, in elements; 0 along a broadcast axis
  std::string text;                     ///< as written, for messages and headlines
  /// Shared by all copies.
  IsRead is_read = std::make_shared<std::atomic<bool>>(false);

  /// Whether it changes some column of a row.
  bool touches(std::size_t batch, std::size_t head, std::size_t token) const {
    return heads.contains(head) && (tokens.empty() || tokens[batch].contains(token));
  }
  /// Changes columns [first, first + n) of a row, stored at `values`.
  template <class T> void apply(std::size_t batch, std::size_t head, std::size_t token, T* values,
                                std::size_t first, std::size_t n) const;
};

/// The patches of a layer, in the order in which those of one stage apply.
struct Patches {
  std::vector<ResolvedEdit> list; ///< in the order given
  StageSet stages;                ///< that some patch changes

  /// Whether some patch changes the stage.
  bool has(Stage stage) const { return contains(stages, stage); }
  /// After those that are there.
  void add(ResolvedEdit patch);
  /// Whether a patch of the stage changes some column of a row.
  bool touches(Stage stage, std::size_t batch, std::size_t head, std::size_t token) const;
  /// Applies all patches of a stage to columns [first, first + n) of a row.
  template <class T> void apply(Stage stage, std::size_t batch, std::size_t head, std::size_t token,
                                T* values, std::size_t first, std::size_t n) const;
};

} // namespace mha
