#pragma once
// Values that the operations of a pickle make, and their use. Which operation stands
// where is the reader's (pickle_reader.cpp).

#include <mha/formats/pickle.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace mha::io {

/// What is made of a call.
struct PickleRule {
  enum class Kind : std::uint8_t {
    dict,     ///< of no argument, of pairs, or of a factory and pairs
    set,      ///< of a list
    list,     ///< of no argument, or of a list
    first,    ///< the first argument itself
    all,      ///< its arguments, as a tuple
    object,   ///< copyreg._reconstructor: a record of the class that is its first argument
    encode,   ///< _codecs.encode: bytes of a text
    no_bytes, ///< bytes(): none
    typed,    ///< a call of a tensor's rule: its name, the class of the result, its arguments
    inert, ///< a record of the name alone: a date, a function with arguments that is never called
    call,  ///< what PickleCall says
  } kind;
  PickleCall call = PickleCall::tensor;
};

/// "builtins.set" of Python 2's "__builtin__.set", "numpy.core.…" of "numpy._core.…".
std::string modern_name(std::string name);
/// The rule of a modern name, where there is one.
std::optional<PickleRule> rule_of(std::string_view name);
/// Why a call of this name is refused, and what to do: follows "calls NAME".
std::string_view refusal_of(std::string_view name);

class PickleBuilder {
public:
  using Ref = Pickle::Ref;
  using Kind = PickleKind;
  using List = std::vector<Ref>;

  /// `size`: of the whole text, which bounds what is made of it.
  PickleBuilder(std::string where, std::size_t size);

  /// Messages name the byte at which the current operation stands.
  void stand_at(std::size_t byte) { byte_ = byte; }
  [[noreturn]] void refuse(std::string_view what) const;

  Ref add_integer(std::int64_t value) {
    return add({Kind::integer, false, 0, static_cast<std::uint64_t>(value), 0});
  }
  Ref add_truth(bool value);
  Ref add_real(double value);
  /// Text or bytes where they lie.
  Ref add_text(Kind kind, std::string_view text);
  /// Text or bytes that lie nowhere else.
  Ref add_owned(Kind kind, std::string text);
  Ref add_list(Kind kind, List list);
  Ref add_name(Ref module, Ref own);
  /// An integer in two's complement; one that is wider than 64 bits as its bytes.
  Ref add_long(std::string_view raw);
  /// A number as text: "12", "12L", "01" for true where it may be one; "0.5".
  Ref add_decimal(std::string_view text, bool may_be_truth);
  Ref add_float(std::string_view text);

  void append(Ref to, const List& values);
  void set_items(Ref to, const List& keys_and_values);
  /// The state of an object. That of a container or a tensor changes nothing that is read.
  void build(Ref at, Ref state);
  /// A call: what our own code makes of it, or Error.
  Ref call(Ref callee, Ref arguments);
  /// An object of a class: a container of the list, or a record.
  Ref object(Ref of, Ref arguments);
  /// What a persistent id stands for. A module that was pickled with its source is its class.
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

/// Throws Error of `what`. The reader of the pickle knows the file and the place, and puts them in
/// front.
using RefusePickle = std::function<void(std::string_view what)>;

/// A string as Python's repr writes it: in quotes, with escapes.
std::string unquoted(std::string_view text, const RefusePickle& refuse);
/// Text in Latin-1 with \uXXXX and \UXXXXXXXX, as UTF-8.
std::string unescaped_unicode(std::string_view text, const RefusePickle& refuse);

} // namespace mha::io
