#pragma once
// A Python pickle, read as data. Its operations (protocols 0 to 5) put values on a stack; names of
// Python are only names, a class makes an inert record of its attributes, and of calls our own code
// carries out a fixed list: containers, tensors, NumPy's arrays. Any other call is refused.

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
  integer, ///< of up to 64 bits; wider ones are `bytes` without a use
  real,
  text,
  bytes,
  list,
  tuple,
  dict, ///< keys and values in turn
  set,
  name,   ///< "torch.FloatStorage": a module and a name in it, as written
  call,   ///< what one of PickleCall makes of its arguments
  record, ///< an object of another class: its name, and its attributes
  stored  ///< what lies outside of the pickle: a persistent id
};

/// A value of a pickle, by its number; 0 is None.
using PickleRef = std::uint32_t;

/// The calls that stand for a value which another file of this folder makes.
enum class PickleCall : std::uint8_t {
  tensor,       ///< torch._utils._rebuild_tensor, _v2
  typed_tensor, ///< torch._utils._rebuild_tensor_v3: the dtype is an argument
  array,        ///< numpy.core.multiarray._reconstruct; what it is comes as its state
  flat_array,   ///< numpy.core.numeric._frombuffer
  number,       ///< numpy.core.multiarray.scalar
  dtype         ///< numpy.dtype
};

/// The values of one pickle. They refer to one another by number, also in circles, and to the text
/// that was read, which must outlive them.
class Pickle {
public:
  using Ref = PickleRef;

  const std::string& where() const { return where_; } ///< begins messages: "FILE: NAME/data.pkl"
  Ref root() const { return root_; }
  std::size_t end() const { return end_; } ///< the byte after the last one that was read
  std::size_t count() const { return nodes_.size(); }

  PickleKind kind(Ref at) const { return nodes_[at].kind; }
  bool is(Ref at, PickleKind kind) const { return nodes_[at].kind == kind; }
  /// Text, or Python 2's text, which is bytes.
  bool is_string(Ref at) const { return is(at, PickleKind::text) || is(at, PickleKind::bytes); }
  bool truth(Ref at) const { return nodes_[at].a != 0; }
  std::int64_t integer(Ref at) const { return static_cast<std::int64_t>(nodes_[at].a); }
  double real(Ref at) const;
  /// Of text and bytes.
  std::string_view text(Ref at) const {
    return {reinterpret_cast<const char*>(nodes_[at].a), nodes_[at].b};
  }
  /// Bytes that are written as text, a character each (protocols below 3).
  bool is_latin1(Ref at) const { return nodes_[at].flag; }
  /// Of a list, tuple, set, or keys and values of a dict in turn; nothing of anything else.
  std::span<const Ref> items(Ref at) const;
  /// "torch.FloatStorage" of a name; "" of anything else.
  std::string name(Ref at) const;

  PickleCall call(Ref at) const { return static_cast<PickleCall>(nodes_[at].extra); }
  /// What a call was given.
  std::span<const Ref> arguments(Ref at) const { return items(static_cast<Ref>(nodes_[at].a)); }
  /// The state of a call, or none.
  Ref state(Ref at) const { return static_cast<Ref>(nodes_[at].b); }

  /// Of a record: its class, its states (dicts, mostly), its items as a list and as a dict.
  std::string record_class(Ref at) const;
  std::vector<Ref> record_parts(Ref at) const;

  /// What a persistent id says.
  Ref stored(Ref at) const { return static_cast<Ref>(nodes_[at].a); }

private:
  friend class PickleBuilder;
  struct Node {
    PickleKind kind = PickleKind::none;
    bool flag = false;
    std::uint32_t extra = 0;
    std::uint64_t a = 0, b = 0;
  };
  std::string where_;
  std::deque<Node> nodes_;              // 0 is none
  std::deque<std::vector<Ref>> lists_;  // of containers
  std::deque<std::string> owned_texts_; // those with escapes
  Ref root_ = 0;
  std::size_t end_ = 0;
};

/// Reads the pickle that starts at byte `start` of `text`. Throws Error "WHERE: byte N: …" for
/// damage, and for a call that is not carried out. Time and memory are bounded by the text's size.
Pickle read_pickle(std::string where, std::string_view text, std::size_t start = 0);

} // namespace mha::io
