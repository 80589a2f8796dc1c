#pragma once
// The sizes of a layer, learned from its tensors: each says some, and all must agree.

#include <mha/layer/names.hpp>
#include <mha/load/assemble.hpp>
#include <mha/system/note.hpp>

#include <array>

namespace mha {

/// The part by which each given stage is given: its own name, or Q, K, V for the packed q, k, v.
using GivenNames = std::map<Stage, std::string>;

/// Whether a given stage comes packed, heads side by side: as Q, K or V.
bool is_packed(const std::string& name);

struct HeadCounts {
  std::size_t H = 0, H_kv = 0; ///< 0 = nothing says
};
/// The numbers of heads that settings, weights per head and given stages name. Throws Error where
/// two of them differ, or where nothing says how many heads there are; Q, K and V by themselves are
/// one, with a note.
HeadCounts find_heads(const NamedTensors& parts, const GivenNames& given, const Settings& settings,
                      std::vector<Note>& notes);

/// Every size. Throws Error that names the tensor, its shape, the expected one, and what that
/// follows from.
Dims find_sizes(const NamedTensors& parts, const GivenNames& given, const Settings& settings,
                HeadCounts heads, std::vector<Note>& notes);

/// A number that must be the same wherever it is said; remembers what said it first.
struct Size {
  std::string_view meaning; ///< "heads", for messages
  std::size_t value = 0;
  std::string source{};
  bool known = false;

  /// Throws Error where another number was said before.
  void learn(std::size_t n, const std::string& origin, const Shape* shape = nullptr);
};

/// What axes say by themselves, letter by letter of the tables of tensors and stages.
class LearnedSizes {
public:
  LearnedSizes(const NamedTensors& parts, const GivenNames& given, const Settings& settings);

  Size& operator[](Dim letter) { return sizes_[static_cast<std::size_t>(letter)]; }
  const Size& operator[](Dim letter) const { return sizes_[static_cast<std::size_t>(letter)]; }
  const NamedTensor* part(std::string_view name) const;
  const NamedTensors& parts() const { return parts_; }
  const GivenNames& given() const { return given_; }
  const Settings& settings() const { return settings_; }

  /// The numbers of heads that settings, axes of heads and given stages say. Throws Error where
  /// they contradict each other, or do not divide.
  void learn_heads();
  /// Each axis of a tensor, before which a batch axis may stand. Throws Error for another rank.
  void learn_axes(const NamedTensor& part, const std::vector<Size*>& sizes,
                  std::string_view expected);
  /// By letters; a tensor's own lengths, and products, are passed over.
  void learn_axes(const NamedTensor& part, const TensorForm& form);
  /// The sizes that were said.
  Dims dims() const;

private:
  void learn_heads_of(const TensorInfo& info, const NamedTensor& part);

  const NamedTensors& parts_;
  const GivenNames& given_;
  const Settings& settings_;
  std::array<Size, dim_count> sizes_;
  bool batched_ = false, batch_known_ = false;
  std::string batch_source_;
};

} // namespace mha
