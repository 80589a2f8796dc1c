#pragma once
// The sizes of a layer's letters as its tensors' axes say them: each says some, and all must agree.

#include <mha/layer/names.hpp>
#include <mha/load/sizes.hpp>

#include <array>

namespace mha {

/// A number that must be the same wherever it is said; remembers what said it first.
struct Size {
  std::string_view meaning; ///< "heads", for messages
  std::size_t value = 0;
  std::string source{};
  bool known = false;

  /// Throws Error where another number was said before.
  void learn(std::size_t n, const std::string& says, const Shape* shape = nullptr);
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
