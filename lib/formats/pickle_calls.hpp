#pragma once
// Calls that a pickle may ask for, by name.

#include <mha/formats/pickle.hpp>

#include <optional>

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

} // namespace mha::io
