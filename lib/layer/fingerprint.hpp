#pragma once
// A short text for what a computation starts from: parts of one run are known by it.

#include <mha/layer/layer.hpp>

#include <string_view>

namespace mha {

/// Collects bytes into 64 bits. Not against forgery: against mistakes.
class Fingerprint {
public:
  Fingerprint& add(const void* bytes, std::size_t size);
  /// A text and where it ends.
  Fingerprint& add(std::string_view text);
  /// Everything that decides the numbers of a layer (members.hpp): tensors, settings, sizes, what
  /// is around attention; no labels.
  Fingerprint& add(const Layer& layer);
  /// What enters a model's first layer is made of this, and of the text.
  Fingerprint& add(const Embedding& embedding);
  /// "f-" and 16 hexadecimal digits.
  std::string text() const;

private:
  void add_word(std::uint64_t word);
  void add(const Tensor& tensor);
  void add(const Settings& settings);
  template <class T> void add_part(const T& part);
  std::uint64_t state_ = 0x9e3779b97f4a7c15;
};

} // namespace mha
