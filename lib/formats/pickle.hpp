#pragma once
// Python pickles, read as data. The operations (protocols 0 to 5) put values on a stack. Python
// names remain names, and a class becomes an inert record of its attributes. Of the calls, only a
// fixed list is carried out by our own code: containers, tensors, NumPy arrays. Any other call is
// refused.

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
  integer, ///< of up to 64 bits; wider ones are `bytes`, which are not used
  real,
  text,
  bytes,
  list,
  tuple,
  dict, ///< keys and values in turn
  set,
  name,   ///< "torch.FloatStorage": a module and a name in it, as written
  call,   ///< a call of one of PickleCall with its arguments
  record, ///< an object of another class: its name and attributes
  stored  ///< a value outside of the pickle, by its persistent id
};

/// A value of a pickle, by its number; 0 is None.
using PickleRef = std::uint32_t;

/// The calls whose results are made by other files of this folder.
enum class PickleCall : std::uint8_t {
  tensor,       ///< torch._utils._rebuild_tensor, _v2
  typed_tensor, ///< torch._utils._rebuild_tensor_v3: the dtype is an argument
  array,        ///< numpy.core.multiarray._reconstruct; its contents are its state
  flat_array,   ///< numpy.core.numeric._frombuffer
  number,       ///< numpy.core.multiarray.scalar
  dtype         ///< numpy.dtype
};

/// The values of one pickle. They refer to one another by number, also in cycles, and to the text
/// of the pickle, which must outlive them.
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
  /// Whether bytes are written as text, one character each (protocols below 3).
  bool is_latin1(Ref at) const { return nodes_[at].flag; }
  /// The items of a list, tuple or set, or the keys and values of a dict in turn; otherwise empty.
  std::span<const Ref> items(Ref at) const;
  /// "torch.FloatStorage" for a name; "" for anything else.
  std::string name(Ref at) const;

  PickleCall call(Ref at) const { return static_cast<PickleCall>(nodes_[at].extra); }
  /// The arguments of a call.
  std::span<const Ref> arguments(Ref at) const { return items(static_cast<Ref>(nodes_[at].a)); }
  /// The state of a call, or none.
  Ref state(Ref at) const { return static_cast<Ref>(nodes_[at].b); }

  /// The class of a record, and its states (mostly dicts), its items as a list and as a dict.
  std::string record_class(Ref at) const;
  std::vector<Ref> record_parts(Ref at) const;

  /// The persistent id of a stored value.
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
