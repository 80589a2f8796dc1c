#pragma once
// Small things that every format needs: names made fit for messages, numbers as text.

#include <mha/tensor/tensor.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace mha::io {

/// A name from a file or the command line, fit for a message: bytes that are no UTF-8 and the bytes
/// of unsafe characters as \xNN, cut after 200 bytes.
std::string shown(std::string_view name);

/// The position of the first byte that is no valid UTF-8, or npos.
std::size_t invalid_utf8(std::string_view text);

/// "hidden" of "runs/hidden.npz"; "stdin" of standard input.
std::string stem_of(std::string_view path);
/// ".npz" of "runs/hidden.NPZ": the extension in small letters, or "".
std::string extension_of(std::string_view path);

/// The shortest text that reads back to the same number: "4", "1e-05", "Infinity", "-Infinity",
/// "NaN".
std::string number_text(double value);
std::string number_text(float value);
/// Element `index` as text: true/false, an integer, or the shortest of its own precision.
std::string element_text(const Tensor& tensor, std::size_t index);

/// What a setting's text is: a truth value, a whole number, a number (also "Infinity"), or words.
enum class TextKind { boolean, integer, number, words };
TextKind kind_of(std::string_view text);
/// The value of a text of kind integer or number.
double number_of(std::string_view text);

/// Bytes of `shape` elements of `size` bytes each, or nothing where that overflows.
std::optional<std::uint64_t> bytes_of(const Shape& shape, std::size_t size);
/// Throws Error where an axis of `shape` is 0 and the others come to more places than a file
/// without a byte for them may ask time and memory for. `where` begins the message.
void require_sensible(std::string_view where, const Shape& shape);

/// "a, b, c and 7 more": the first names of a list, for messages.
std::string listed(const std::vector<std::string_view>& names);
/// "0, 1, 2"; of many the first and the last, "0, 1, 2, 3, 4, 5, …, 30, 31".
std::string ends_of_list(const std::vector<std::string>& names);

/// Memory for `size` bytes, zeroed and aligned to 64 bytes; Error where there is not enough.
std::shared_ptr<std::byte> memory(std::size_t size);

} // namespace mha::io
