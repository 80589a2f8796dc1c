#pragma once
// GGUF, ggml's format: keys with values, then tensors. What is in a file, under the file's names.

#include <mha/files/contents.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mha::io {

/// Types of values, as files number them.
enum class GgufType : std::uint8_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  text,
  array,
  u64,
  i64,
  f64 // clang-format off
}; // clang-format on

/// A value of a key, where it lies in the file: arrays of a vocabulary are long, and few commands
/// want them. It has been checked to lie in the file.
struct GgufValue {
  GgufType type = GgufType::u8; ///< of the elements, if it is an array
  bool is_array = false;
  std::uint64_t count = 1;
  const char* at = nullptr; ///< the first element

  ///@{
  /// Element `index`; nothing where it is of another kind, or there is none. Integers of every
  /// width are integers; a number is an integer or a float.
  std::optional<std::int64_t> integer(std::uint64_t index = 0) const;
  std::optional<double> number(std::uint64_t index = 0) const;
  std::optional<bool> boolean(std::uint64_t index = 0) const;
  std::optional<std::string_view> text() const;
  ///@}
  /// The elements of an array of texts, in their order; false if it is none.
  bool each_text(const std::function<void(std::string_view)>& use) const;
  /// As config.json would say it: "4", "1e-05", "true", a text; elements of a list with commas
  /// between. "" for lists of lists.
  std::string written() const;
};

/// One tensor, where it lies; sizes have been checked against the file.
struct GgufTensor {
  std::string name;
  std::string_view type;             ///< "F16", "Q4_K"
  DType dtype = DType::f32;          ///< of what is read
  const BlockType* blocks = nullptr; ///< null: the bytes are of `dtype`
  Shape shape;                       ///< the last axis is the one whose elements are neighbours
  std::shared_ptr<const Bytes> file; ///< in which it lies,
  std::uint64_t first = 0;           ///< from this byte on,
  std::uint64_t bytes = 0;           ///< with so many

  Tensor read() const;
  Tensor steps() const; ///< of one in blocks
};

/// A file, and the other shards of it.
struct Gguf {
  std::string name;                                   ///< for messages
  std::vector<Bytes> files;                           ///< into which the keys' values point
  std::map<std::string, GgufValue, std::less<>> keys; ///< of the first shard
  std::vector<GgufTensor> tensors;

  const GgufValue* find(std::string_view key) const;
  ///@{
  /// The value of a key; nothing where it is not there. Throws Error where it is of another kind.
  std::optional<std::int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string_view> text(std::string_view key) const;
  ///@}
};

/// Whether a file begins as GGUF does.
bool is_gguf(std::string_view first_bytes);

/// Reads keys and places of a file; of one shard, the other shards beside it too. Throws Error for
/// versions other than 2 and 3, for types of tensors that are not read, by their name, and for
/// whatever does not fit into the file.
Gguf open_gguf(const Bytes& bytes);

/// The file as a checkpoint: names, config and order of numbers as models are published in, as far
/// as its architecture is known here. `own_order`: queries and keys stay in the file's order, and
/// the config says that neighbours are rotated.
Contents read_gguf(const Bytes& bytes, bool own_order);

} // namespace mha::io
