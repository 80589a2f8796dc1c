#pragma once
// What a whole model computes for a text, in this process: its numbers, and what is reported.

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

/// What a family's reading asked for, and what it took.
struct Asked {
  std::set<std::string> settings, tensors, used;
};
Asked asked_of(io::Contents model);

/// Writes a tiny model of every family below the folder (tests/models/make.py); their names, none
/// where there is no NumPy.
std::vector<std::string> make_tiny_models(const std::string& folder);

/// A copy in which tensors may be added, changed and removed.
io::Contents copy_of(const io::Contents& model);
/// A tensor of small numbers, none like another.
io::Entry entry_of(const std::string& name, DType dtype, const Shape& shape);

} // namespace mha::test
