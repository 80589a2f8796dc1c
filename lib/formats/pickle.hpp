#pragma once
// Reads Python pickles (protocols 0 to 5) as data: no code of theirs is run. A Python name such as
// torch.FloatStorage stays a name, and an object of a class becomes an inert record of its
// attributes. Only calls from a fixed list (containers, tensors, NumPy arrays) are carried out, by
// our own code; any other call is an error.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mha::io {

enum class PickleKind : std::uint8_t {
  none,
  boolean,
  integer, ///< up to 64 bits; a wider one becomes `bytes` and is not used
  real,
  text,
  bytes,
  list,
  tuple,
  dict, ///< keys and values alternate
  set,
  name,   ///< a module and a name in it: "torch.FloatStorage"
  call,   ///< one of PickleCall with its arguments
  record, ///< an object of another class: its name and attributes
  stored  ///< a value outside the pickle, which has only its persistent id
};

/// The index of a value in its pickle; 0 is None.
using PickleRef = std::uint32_t;

/// The calls whose results are computed by other files of this folder. Those of containers are
/// carried out while the pickle is read.
enum class PickleCall : std::uint8_t {
  tensor,       ///< torch._utils._rebuild_tensor, _v2
  typed_tensor, ///< torch._utils._rebuild_tensor_v3: the dtype is an argument
  array,        ///< numpy.core.multiarray._reconstruct; its contents are its state
  flat_array,   ///< numpy.core.numeric._frombuffer
  number,       ///< numpy.core.multiarray.scalar
  dtype         ///< numpy.dtype
};

/// The values of one pickle. They refer to one another by index, possibly in cycles, and point into
/// the pickle's text, which must outlive them.
class Pickle {
public:
  using Ref = PickleRef;

  const std::string& where() const { return where_; } ///< prefix of messages: "FILE: NAME/data.pkl"
  Ref root() const { return root_; }
  std::size_t end() const { return end_; } ///< the offset after the last byte that was read
  std::size_t count() const { return nodes_.size(); }

  PickleKind kind(Ref ref) const { return nodes_[ref].kind; }
  bool is(Ref ref, PickleKind kind) const { return nodes_[ref].kind == kind; }
  /// Whether a value is text, or bytes, which are Python 2's text.
  bool is_string(Ref ref) const { return is(ref, PickleKind::text) || is(ref, PickleKind::bytes); }
  bool truth(Ref ref) const { return nodes_[ref].a != 0; }
  std::int64_t integer(Ref ref) const { return static_cast<std::int64_t>(nodes_[ref].a); }
  double real(Ref ref) const;
  /// The characters of text, or the contents of bytes.
  std::string_view text(Ref ref) const {
    return {reinterpret_cast<const char*>(nodes_[ref].a), nodes_[ref].b};
  }
  /// Whether bytes were pickled as text, one character for each byte (protocols below 3).
  bool is_latin1(Ref ref) const { return nodes_[ref].flag; }
  /// The items of a list, tuple or set, or the alternating keys and values of a dict; empty for
  /// other kinds.
  std::span<const Ref> items(Ref ref) const;
  /// "torch.FloatStorage" for a name; "" for anything else.
  std::string name(Ref ref) const;

  PickleCall call(Ref ref) const { return static_cast<PickleCall>(nodes_[ref].extra); }
  /// The arguments of a call.
  std::span<const Ref> arguments(Ref ref) const { return items(static_cast<Ref>(nodes_[ref].a)); }
  /// The state that the pickle sets on the result of a call; 0 if it sets none.
  Ref state(Ref ref) const { return static_cast<Ref>(nodes_[ref].b); }

  /// The name of a record's class.
  std::string record_class(Ref ref) const;
  /// The arguments and states (mostly dicts) of a record, then its list items and dict items.
  std::vector<Ref> record_parts(Ref ref) const;

  /// The persistent id of a stored value.
  Ref stored(Ref ref) const { return static_cast<Ref>(nodes_[ref].a); }

private:
  friend class PickleBuilder;
  /// The kind determines what extra, a and b contain (PickleBuilder): a number's bits, an address
  /// and a size, or indices into nodes_ or lists_.
  struct Node {
    PickleKind kind = PickleKind::none;
    bool flag = false;
    std::uint32_t extra = 0;
    std::uint64_t a = 0, b = 0;
  };
  std::string where_;
  std::deque<Node> nodes_;              // 0 is None
  std::deque<std::vector<Ref>> lists_;  // items of containers and records
  std::deque<std::string> owned_texts_; // decoded texts that had escapes
  Ref root_ = 0;
  std::size_t end_ = 0;
};

/// Reads the pickle that starts at byte `start` of `text`. Throws Error "WHERE: byte N: …" for
/// damaged data and for a refused call. Time and memory are bounded by the text's size.
Pickle read_pickle(std::string where, std::string_view text, std::size_t start = 0);

} // namespace mha::io
