#pragma once
// The sizes of a layer, learned from the axes of its tensors, which must all agree.

#include <mha/layer/names.hpp>
#include <mha/load/assemble.hpp>
#include <mha/system/note.hpp>

#include <array>

namespace mha {

/// The name under which each given stage is given: its own, or Q, K, V for the packed q, k, v.
using GivenNames = std::map<Stage, std::string>;

/// Whether a given stage comes packed, heads side by side: as Q, K or V.
bool is_packed(const std::string& name);

struct HeadCounts {
  std::size_t H = 0, H_kv = 0; ///< 0: not known
};
/// The numbers of heads by settings, weights per head and given stages. Throws Error where two of
/// them differ, or where there is none; Q, K and V by themselves are one head, with a note.
HeadCounts find_heads(const NamedTensors& parts, const GivenNames& given, const Settings& settings,
                      std::vector<Note>& notes);

/// All sizes. Throws Error with the tensor, its shape, the expected one, and what that follows
/// from.
Dims find_sizes(const NamedTensors& parts, const GivenNames& given, const Settings& settings,
                HeadCounts heads, std::vector<Note>& notes);

/// A number that must be the same wherever it occurs; remembers where it was learned first.
struct Size {
  std::string_view meaning; ///< "heads", for messages
  std::size_t value = 0;
  std::string source{};
  bool known = false;

  /// Throws Error where another number was learned before.
  void learn(std::size_t n, const std::string& origin, const Shape* shape = nullptr);
};

/// Sizes by the letters of axes in the tables of tensors and stages.
class LearnedSizes {
public:
  LearnedSizes(const NamedTensors& parts, const GivenNames& given, const Settings& settings);

  Size& operator[](Dim letter) { return sizes_[static_cast<std::size_t>(letter)]; }
  const Size& operator[](Dim letter) const { return sizes_[static_cast<std::size_t>(letter)]; }
  const NamedTensor* part(std::string_view name) const;
  const NamedTensors& parts() const { return parts_; }
  const GivenNames& given() const { return given_; }
  const Settings& settings() const { return settings_; }

  /// Learns the numbers of heads from settings, axes of heads and given stages. Throws Error where
  /// they contradict each other, or do not divide.
  void learn_heads();
  /// Learns each axis of a tensor; a batch axis may come first. Throws Error for another rank.
  void learn_axes(const NamedTensor& part, const std::vector<Size*>& sizes,
                  std::string_view expected);
  /// Learns axes by letters; a tensor's own lengths, and products, are skipped.
  void learn_axes(const NamedTensor& part, const TensorForm& form);
  /// Learns how many numbers W_gate gives a head: one, or as many as its values; of `input`, or
  /// nullptr. Throws Error for another number.
  void learn_gate(const NamedTensor* input);
  /// The sizes learned so far.
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
