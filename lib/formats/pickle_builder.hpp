#pragma once
// Builds the values of a pickle while pickle_reader.cpp runs its operations: containers, the
// results of calls, and strings with escapes.

#include <mha/formats/pickle.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace mha::io {

/// How the result of a call is built.
struct PickleRule {
  enum class Kind : std::uint8_t {
    dict, ///< a dict from no argument, from pairs, or from a factory and pairs
    set,  ///< a set from a list
    list, ///< a list from no argument or from a list
    first_argument,
    argument_tuple,
    reconstructor, ///< copyreg._reconstructor: a record of the class in its first argument
    encode,        ///< _codecs.encode: the bytes of a text
    empty_bytes,   ///< bytes()
    from_type,     ///< _rebuild_from_type: the result of another call, without its class
    inert,         ///< a record with only a name, for values that are not needed, such as a date
    call,          ///< kept as a PickleCall, whose result another file makes
  } kind;
  PickleCall call = PickleCall::tensor;
};

/// The one name for what versions call differently: "builtins.set" for Python 2's
/// "__builtin__.set", "numpy.core.…" for NumPy 2's "numpy._core.…".
std::string canonical_python_name(std::string name);
/// The rule for a canonical Python name, if there is one.
std::optional<PickleRule> rule_of(std::string_view name);
/// Why a call of this name is refused, and the remedy. Completes a message "calls NAME, …".
std::string_view refusal_of(std::string_view name);

class PickleBuilder {
public:
  using Ref = Pickle::Ref;
  using Kind = PickleKind;
  using List = std::vector<Ref>;

  /// `size` is the length of the pickle in bytes, which limits the number of copied values.
  PickleBuilder(std::string where, std::size_t size);

  /// Sets the offset of the current operation, for messages.
  void set_offset(std::size_t offset) { offset_ = offset; }
  [[noreturn]] void refuse(std::string_view what) const;

  Ref add_integer(std::int64_t value) {
    return add({Kind::integer, false, 0, static_cast<std::uint64_t>(value), 0});
  }
  Ref add_boolean(bool value);
  Ref add_real(double value);
  /// Adds text or bytes without a copy.
  Ref add_text(Kind kind, std::string_view text);
  /// Adds text or bytes, which the pickle then owns.
  Ref add_owned(Kind kind, std::string text);
  /// Adds a container of this kind with these values.
  Ref add_list(Kind kind, List list);
  /// Adds the name of something in a module.
  Ref add_name(Ref module, Ref name);
  /// Adds a little-endian integer in two's complement; one wider than 64 bits is added as bytes.
  Ref add_long(std::string_view raw);
  /// Adds an integer written as "12" or "12L". With `may_be_boolean`, "00" is false and "01" true.
  Ref add_decimal(std::string_view text, bool may_be_boolean);
  /// Adds a real number written as "0.5".
  Ref add_float(std::string_view text);

  void append(Ref container, const List& values);
  void set_items(Ref dict, const List& keys_and_values);
  /// Sets the state of an object or of a call. The state of a container is ignored.
  void set_state(Ref object, Ref state);
  /// The result of a call. Throws Error if there is no rule for it.
  Ref call(Ref callee, Ref arguments);
  /// An object of a class: a container if the class is one, otherwise a record.
  Ref object(Ref class_name, Ref arguments);
  /// The value of a persistent id. For a module that was pickled with its source, this is its
  /// class.
  Ref persistent_value(Ref id);

  Pickle finish(Ref root, std::size_t end);
  const Pickle& values() const { return pickle_; }

private:
  Ref add(Pickle::Node node);
  Ref add_record(Ref class_name, Ref arguments);
  List& list_of(Ref container) { return pickle_.lists_[pickle_.nodes_[container].a]; }
  List copied(std::span<const Ref> values);
  Ref dict_of(std::string_view name, std::span<const Ref> arguments);
  Ref result(const PickleRule& rule, Ref callee, Ref arguments);
  Ref from_type(const std::string& name, std::span<const Ref> arguments);
  Ref encoded(std::span<const Ref> arguments);

  std::size_t size_;
  std::size_t offset_ = 0;
  std::size_t copied_ = 0;
  Ref booleans_[2] = {0, 0}; ///< false and true, if added already
  Pickle pickle_;
};

/// Throws Error with the file, the offset and `what`.
using RefusePickle = std::function<void(std::string_view what)>;

/// The contents of a string that Python's repr wrote, in quotes and with escapes.
std::string unquoted(std::string_view text, const RefusePickle& refuse);
/// Latin-1 text with escapes \uXXXX and \UXXXXXXXX, converted to UTF-8.
std::string unescaped_unicode(std::string_view text, const RefusePickle& refuse);

} // namespace mha::io
