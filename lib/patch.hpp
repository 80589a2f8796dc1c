#pragma once
// Places in a model, and patches: values that a run of mha::Model sets, adds to or multiplies.

#include <mha/layer/stage.hpp>
#include <mha/schedule/place.hpp>
#include <mha/shared.hpp>
#include <mha/tensor/tensor.hpp>

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace mha {

class Run;

/// Integral types except characters and bool.
template <class I>
concept WholeNumber = std::integral<I> && !std::same_as<I, bool> && !std::same_as<I, char>;

/// A position of any integral type. One beyond the range of std::int64_t (0U - 1) is beyond the end
/// of every axis.
template <WholeNumber I> constexpr std::int64_t position_of(I position) {
  constexpr std::int64_t last = std::numeric_limits<std::int64_t>::max();
  if constexpr (std::is_unsigned_v<I> && sizeof(I) >= sizeof(last))
    return position > static_cast<I>(last) ? last : static_cast<std::int64_t>(position);
  else
    return static_cast<std::int64_t>(position);
}

/// A C string as text. Throws Error for a null pointer.
inline std::string text_of_pointer(const char* text) {
  if (!text) fail("a null pointer is not a text");
  return text;
}

/// A layer of a model: its number, negative from the end, or its id ("3").
class MHA_API LayerId {
public:
  ///@{
  /// No layer; a number; an id.
  LayerId() = default;
  template <WholeNumber I> LayerId(I layer_number) : id_(std::to_string(layer_number)) {}
  LayerId(std::string id) : id_(std::move(id)) {}
  LayerId(std::string_view id) : id_(id) {}
  LayerId(const char* id) : id_(text_of_pointer(id)) {}
  ///@}
  /// The id as text; "" for no layer.
  const std::string& id() const { return id_; }

private:
  std::string id_;
};

/// Positions on an axis, negative from the end; by default all of them.
class MHA_API Indexes {
public:
  /// A position of any integral type.
  struct Index {
    /// Converts a position.
    template <WholeNumber I> Index(I one_position) : value(position_of(one_position)) {}
    std::int64_t value; ///< negative from the end
  };
  ///@{
  /// All positions; one; those in a list.
  Indexes() = default;
  template <WholeNumber I> Indexes(I one_position)
      : all_(false), list_{position_of(one_position)} {}
  Indexes(std::initializer_list<Index> list) : all_(false) {
    for (const Index& index : list) list_.push_back(index.value);
  }
  template <WholeNumber I> Indexes(const std::vector<I>& positions) : all_(false) {
    for (const I one_position : positions) list_.push_back(position_of(one_position));
  }
  ///@}
  /// Whether these are all positions.
  bool all() const { return all_; }
  /// The given positions.
  const std::vector<std::int64_t>& list() const { return list_; }

private:
  bool all_ = true;
  std::vector<std::int64_t> list_;
};

/// A place in a model: a stage of a layer, and some of its heads, tokens and columns (keys for
/// scores and weights, features for other stages).
struct At {
  ///@{
  /// The parts of the place; omitted ones mean all. In stages of chosen experts (expert_out)
  /// `columns` are the chosen: the first, the second …
  Stage stage = Stage::output;
  LayerId layer = {};
  Indexes heads = {}, tokens = {}, columns = {};
  ///@}
};

/// A change that a run makes while it is computed: to any stage of any layer, at some heads, tokens
/// and columns. Written as on the command line ("layers.3.head_result[5] = zero", docs/models.md),
/// or made from values. Whether it fits a model is checked by the run.
class MHA_API Patch {
public:
  ///@{
  /// A written patch; or a tensor for a place ("layers.2.weights", "layers.-1.q[0,-1]"), of its
  /// shape or broadcast to it. The place may be followed by "+=" or "*=".
  Patch(const char* text);
  Patch(std::string text);
  Patch(std::string place, Tensor value);
  Patch(const char* place, const char* value) = delete;
  ///@}
  ///@{
  /// Sets the numbers at a place to a value, adds it or multiplies by it: a number, or a tensor of
  /// the place's shape (heads, tokens, columns, after a batch axis if there is one), broadcast as
  /// in NumPy.
  static Patch set(const At& at, Tensor value);
  static Patch set(const At& at, double value);
  static Patch add(const At& at, Tensor value);
  static Patch add(const At& at, double value);
  static Patch multiply(const At& at, Tensor value);
  static Patch multiply(const At& at, double value);
  ///@}
  /// Sets them to 0.
  static Patch zero(const At& at);
  /// Sets them to their mean over all positions of the run's texts except padding, in the run
  /// without patches.
  static Patch mean(const At& at);
  ///@{
  /// Sets them to the values at the same place in another run of the same model, possibly with
  /// other weights, over one text or as many as this run has, with equal numbers of tokens. The
  /// place may be written as text.
  static Patch from(const At& at, const Run& run);
  static Patch from(const std::string& place, const Run& run);
  ///@}
  ///@{
  /// Sets whole rows of the place's heads and tokens, (1, width), to the results of a function; its
  /// `place` has one token. Called for one row after the other, on the thread of the run.
  static Patch rows(const At& at, std::function<Tensor(Place place, Tensor row)> function);
  static Patch rows(const std::string& place,
                    std::function<Tensor(Place place, Tensor row)> function);
  ///@}

  /// The library's internal state.
  struct State;
  /// For the library.
  const std::shared_ptr<const State>& state() const { return state_.get(); }

private:
  explicit Patch(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  Shared<const State> state_;
};

} // namespace mha
