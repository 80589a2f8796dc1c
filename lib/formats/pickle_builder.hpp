#pragma once
// Builds the values of a pickle for its reader (pickle_reader.cpp), which runs the operations: the
// values, the calls that are carried out, and strings with escapes.

#include <mha/formats/pickle.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace mha::io {

/// How the result of a call is made.
struct PickleRule {
  enum class Kind : std::uint8_t {
    dict,     ///< a dict from no argument, from pairs, or from a factory and pairs
    set,      ///< a set from a list
    list,     ///< a list from no argument or from a list
    first,    ///< the first argument itself
    all,      ///< its arguments, as a tuple
    object,   ///< copyreg._reconstructor: a record of the class that is its first argument
    encode,   ///< _codecs.encode: the bytes of a text
    no_bytes, ///< bytes(): empty
    typed,    ///< a tensor's call by name, with the class of the result and the arguments
    inert, ///< a record of the name alone: a date, a function with arguments that is never called
    call,  ///< kept as a PickleCall
  } kind;
  PickleCall call = PickleCall::tensor;
};

/// "builtins.set" for Python 2's "__builtin__.set", "numpy.core.…" for "numpy._core.…".
std::string modern_name(std::string name);
/// The rule for a modern name, if there is one.
std::optional<PickleRule> rule_of(std::string_view name);
/// Why a call of this name is refused, and the remedy; follows "calls NAME".
std::string_view refusal_of(std::string_view name);

class PickleBuilder {
public:
  using Ref = Pickle::Ref;
  using Kind = PickleKind;
  using List = std::vector<Ref>;

  /// `size` is the length of the whole text, which limits the number of copied values.
  PickleBuilder(std::string where, std::size_t size);

  /// Sets the offset of the current operation, for messages.
  void set_offset(std::size_t byte) { byte_ = byte; }
  [[noreturn]] void refuse(std::string_view what) const;

  Ref add_integer(std::int64_t value) {
    return add({Kind::integer, false, 0, static_cast<std::uint64_t>(value), 0});
  }
  Ref add_truth(bool value);
  Ref add_real(double value);
  /// Adds text or bytes without a copy.
  Ref add_text(Kind kind, std::string_view text);
  /// Adds text or bytes, which the pickle then owns.
  Ref add_owned(Kind kind, std::string text);
  Ref add_list(Kind kind, List list);
  Ref add_name(Ref module, Ref own);
  /// An integer in two's complement; one that is wider than 64 bits as its bytes.
  Ref add_long(std::string_view raw);
  /// A number as text: "12", "12L", or "01" for true if it may be a truth value; "0.5".
  Ref add_decimal(std::string_view text, bool may_be_truth);
  Ref add_float(std::string_view text);

  void append(Ref to, const List& values);
  void set_items(Ref to, const List& keys_and_values);
  /// Sets the state of an object. The state of a container or a tensor is ignored.
  void build(Ref at, Ref state);
  /// The result of a call; throws Error if it is not carried out.
  Ref call(Ref callee, Ref arguments);
  /// An object of a class: a container if the class is one, else a record.
  Ref object(Ref of, Ref arguments);
  /// The value of a persistent id. For a module that was pickled with its source, this is its
  /// class.
  Ref persistent(Ref id);

  Pickle finish(Ref root, std::size_t end);
  const Pickle& values() const { return to_; }

private:
  Ref add(Pickle::Node node);
  Ref add_record(Ref of, Ref arguments);
  List& list_of(Ref at) { return to_.lists_[to_.nodes_[at].a]; }
  List copied(std::span<const Ref> values);
  Ref dict_of(std::string_view name, std::span<const Ref> arguments);
  Ref result(const PickleRule& rule, Ref callee, Ref arguments);
  Ref typed(const std::string& name, std::span<const Ref> arguments);
  Ref encoded(std::span<const Ref> arguments);

  std::size_t size_;
  std::size_t byte_ = 0;
  std::size_t copied_ = 0;
  Ref truths_[2] = {0, 0};
  Pickle to_;
};

/// Throws Error with `what`, to which the reader adds the file and the offset.
using RefusePickle = std::function<void(std::string_view what)>;

/// A string as Python's repr writes it: in quotes, with escapes.
std::string unquoted(std::string_view text, const RefusePickle& refuse);
/// Text in Latin-1 with \uXXXX and \UXXXXXXXX, as UTF-8.
std::string unescaped_unicode(std::string_view text, const RefusePickle& refuse);

} // namespace mha::io
