#pragma once
// Names and numbers as text: for messages, and for the settings of all formats.

#include <mha/tensor/tensor.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace mha::io {

/// A name from a file or the command line, made safe for a message: bytes that are not UTF-8 and
/// the bytes of unsafe characters become \xNN, and a long name is cut after 200 bytes.
std::string shown(std::string_view name);

/// The position of the first byte that is not valid UTF-8, or npos.
std::size_t invalid_utf8(std::string_view text);

/// "hidden" for "runs/hidden.npz"; "stdin" for standard input.
std::string stem_of(std::string_view path);
/// ".npz" for "runs/hidden.NPZ": the extension in lower case, or "".
std::string extension_of(std::string_view path);

/// The shortest text that reads back to the same number: "4", "1e-05", "Infinity", "-Infinity",
/// "NaN".
std::string number_text(double value);
std::string number_text(float value);
/// Element `index` as text: true/false, an integer, or the shortest of its own precision.
std::string element_text(const Tensor& tensor, std::size_t index);

/// The kind of a setting's text: a truth value, a whole number, a number (also "Infinity"), or
/// words.
enum class TextKind { boolean, integer, number, words };
TextKind kind_of(std::string_view text);
/// The value of a text of kind integer or number.
double number_of(std::string_view text);

/// The bytes of an array of `shape` with elements of `size` bytes, or nothing if that overflows.
std::optional<std::uint64_t> bytes_of(const Shape& shape, std::size_t size);
/// Throws Error if an axis of `shape` is 0 and the product of the others is so large that an empty
/// file could cost much time and memory. `where` begins the message.
void require_sensible(std::string_view where, const Shape& shape);

/// "a, b, c and 7 more": the first names of a list, for messages.
std::string listed(const std::vector<std::string_view>& names);
/// "0, 1, 2"; a long list is shortened to its ends, "0, 1, 2, 3, 4, 5, …, 30, 31".
std::string ends_of_list(const std::vector<std::string>& names);

/// Memory for `size` bytes, zeroed and aligned to 64 bytes. Throws Error if there is not enough.
std::shared_ptr<std::byte> memory(std::size_t size);

} // namespace mha::io
