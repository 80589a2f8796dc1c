#pragma once
// What a whole model computes for a text, in this process: its numbers, and what is said.

#include <mha/files/contents.hpp>

#include <set>
#include <string>
#include <vector>

namespace mha::test {

struct Outcome {
  std::string refusal; ///< the error; "" = it was computed
  std::set<std::string> notes;
  std::vector<std::byte> bits; ///< of every layer's output, and of the logits

  /// Whether the refusal or a note contains this.
  bool says(const std::string& words) const;
};

/// Nine tokens through the model that the contents hold.
Outcome compute_text(const io::Contents& model);

/// A copy in which tensors may be added, changed and removed.
io::Contents copy_of(const io::Contents& model);
/// A tensor of small numbers, none like another.
io::Entry entry_of(const std::string& name, DType dtype, const Shape& shape);

} // namespace mha::test
