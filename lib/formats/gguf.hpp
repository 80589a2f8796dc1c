#pragma once
// GGUF, ggml's format: keys with values, then tensors, under the file's own names.

#include <mha/files/contents.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mha::io {

/// Value types in the order of their numbers in files.
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

/// A key's value as a reference into the file, whose bounds have been checked. It is not copied,
/// because the arrays of a vocabulary are long and few commands need them.
struct GgufValue {
  GgufType type = GgufType::u8; ///< of the elements, if it is an array
  bool is_array = false;
  std::uint64_t count = 1;
  const char* at = nullptr; ///< the first element

  ///@{
  /// Element `index`; nothing if it does not exist or is of another kind. Integers may have any
  /// width; a number is an integer or a float.
  std::optional<std::int64_t> integer(std::uint64_t index = 0) const;
  std::optional<double> number(std::uint64_t index = 0) const;
  std::optional<bool> boolean(std::uint64_t index = 0) const;
  std::optional<std::string_view> text() const;
  ///@}
  /// Visits the elements of an array of texts; returns false for any other value.
  bool each_text(const std::function<void(std::string_view)>& use) const;
  /// The text as in a config.json: "4", "1e-05", "true", a text, or the elements of a list with
  /// commas between. "" for lists of lists.
  std::string written() const;
};

/// A tensor's type, shape and bytes; sizes have been checked against the file.
struct GgufTensor {
  std::string name;
  std::string_view type;             ///< "F16", "Q4_K"
  DType dtype = DType::f32;          ///< of the numbers that read() returns
  const BlockType* blocks = nullptr; ///< nullptr if the bytes are numbers of `dtype`
  Shape shape;                       ///< the last axis is contiguous
  std::shared_ptr<const Bytes> file; ///< the shard that has the tensor
  std::uint64_t first = 0;           ///< offset of its bytes in `file`
  std::uint64_t bytes = 0;           ///< number of its bytes

  Tensor read() const;
  Tensor steps() const; ///< only for block types
};

/// A file with all its shards.
struct Gguf {
  std::string name;                                   ///< for messages
  std::vector<Bytes> files;                           ///< the keys' values point into them
  std::map<std::string, GgufValue, std::less<>> keys; ///< of the first shard
  std::vector<GgufTensor> tensors;

  const GgufValue* find(std::string_view key) const;
  ///@{
  /// The value of a key, or nothing if it is missing. Throws Error if it is of another kind.
  std::optional<std::int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string_view> text(std::string_view key) const;
  ///@}
};

/// Whether a file begins like a GGUF file.
bool is_gguf(std::string_view first_bytes);

/// Reads the keys and the tensor list of a file and, if it is a shard, of the other shards beside
/// it. Throws Error for versions other than 2 and 3, for unsupported tensor types, and for values
/// or tensors that exceed the file.
Gguf open_gguf(const Bytes& bytes);

/// Reads the file as a checkpoint: if the architecture is known, with the names, config and order
/// of numbers of the published model. With `own_order`, queries and keys keep the file's order, and
/// the config sets interleaved rotation.
Contents read_gguf(const Bytes& bytes, bool own_order);

} // namespace mha::io
