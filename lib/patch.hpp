#pragma once
// Places in a model, and patches: what a run of mha::Model sets, adds to or multiplies while it is
// computed.

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

/// Types of whole numbers: characters and truth values are none.
template <class I>
concept WholeNumber = std::integral<I> && !std::same_as<I, bool> && !std::same_as<I, char>;

/// A position of any integral type; one behind the last that std::int64_t holds (0U - 1) is behind
/// the end of every axis, too.
template <WholeNumber I> constexpr std::int64_t position_of(I position) {
  constexpr std::int64_t last = std::numeric_limits<std::int64_t>::max();
  if constexpr (std::is_unsigned_v<I> && sizeof(I) >= sizeof(last))
    return position > static_cast<I>(last) ? last : static_cast<std::int64_t>(position);
  else
    return static_cast<std::int64_t>(position);
}

/// A C string as text. Throws Error where it is a null pointer.
inline std::string text_of_pointer(const char* text) {
  if (!text) fail("a null pointer is no text");
  return text;
}

/// A layer of a model: its number, negative from the end, or its id ("3").
class MHA_API LayerId {
public:
  ///@{
  /// None said; a number; an id.
  LayerId() = default;
  template <WholeNumber I> LayerId(I layer_number) : id_(std::to_string(layer_number)) {}
  LayerId(std::string id) : id_(std::move(id)) {}
  LayerId(std::string_view id) : id_(id) {}
  LayerId(const char* id) : id_(text_of_pointer(id)) {}
  ///@}
  /// As text; "" where none is said.
  const std::string& id() const { return id_; }

private:
  std::string id_;
};

/// Positions on an axis, negative from the end; all of them where nothing is said.
class MHA_API Indexes {
public:
  /// One of them, of any integral type.
  struct Index {
    /// A position.
    template <WholeNumber I> Index(I one_position) : value(position_of(one_position)) {}
    std::int64_t value; ///< negative from the end
  };
  ///@{
  /// All; one; those of a list.
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
  /// Whether nothing was said.
  bool all() const { return all_; }
  /// What was said.
  const std::vector<std::int64_t>& list() const { return list_; }

private:
  bool all_ = true;
  std::vector<std::int64_t> list_;
};

/// A place in a model: a stage of a layer, and of it some heads, tokens and columns (keys of scores
/// and weights, features of others).
struct At {
  ///@{
  /// The members in this order; what is left out means all.
  Stage stage = Stage::output;
  LayerId layer = {};
  Indexes heads = {}, tokens = {}, columns = {};
  ///@}
};

/// What a run changes while it is computed: any stage, of any layer, at some heads, tokens and
/// columns. Written as on the command line ("layers.3.head_result[5] = zero", docs/models.md), or
/// of values. Whether it fits a model is known when it is run.
class MHA_API Patch {
public:
  ///@{
  /// As written; a tensor in a stage's place ("layers.2.weights", "layers.-1.q[0,-1]"), of its
  /// shape or broadcast to it. Behind the place may stand "+=" or "*=".
  Patch(const char* text);
  Patch(std::string text);
  Patch(std::string place, Tensor value);
  Patch(const char* place, const char* value) = delete;
  ///@}
  ///@{
  /// The numbers at a place become, have added or are multiplied by a value: a number, or a tensor
  /// of the place's shape (heads, tokens, columns; batch in front where there is one), broadcast as
  /// NumPy does.
  static Patch set(const At& at, Tensor value);
  static Patch set(const At& at, double value);
  static Patch add(const At& at, Tensor value);
  static Patch add(const At& at, double value);
  static Patch multiply(const At& at, Tensor value);
  static Patch multiply(const At& at, double value);
  ///@}
  /// They become 0.
  static Patch zero(const At& at);
  /// They become their mean over all positions of the run's texts that are no padding, as the run
  /// is without patches.
  static Patch mean(const At& at);
  ///@{
  /// They become what the same place holds in another run of the same model, of one text or of as
  /// many as the run has, each of as many tokens; weights may be others. The place may be written.
  static Patch from(const At& at, const Run& run);
  static Patch from(const std::string& place, const Run& run);
  ///@}
  ///@{
  /// Whole rows of the place's heads and tokens, (1, width), become what a function makes of them;
  /// its `place` has one token. Called for one row after the other, from the thread that runs.
  static Patch rows(const At& at, std::function<Tensor(Place place, Tensor row)> function);
  static Patch rows(const std::string& place,
                    std::function<Tensor(Place place, Tensor row)> function);
  ///@}

  /// What the library fills it from.
  struct State;
  /// The library's.
  const std::shared_ptr<const State>& state() const { return state_.get(); }

private:
  explicit Patch(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  Shared<const State> state_;
};

} // namespace mha
