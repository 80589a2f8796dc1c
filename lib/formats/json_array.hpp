#pragma once
// JSON lists as arrays of numbers or lists of text, and objects as tensors.

#include <mha/formats/json_scanner.hpp>

#include <optional>
#include <string>
#include <vector>

namespace mha::io {

struct JsonArray {
  bool is_text = false;
  std::vector<std::string> texts;
  std::vector<std::vector<std::string>>
      lists;                      ///< for a list of lists of text, instead of the others
  bool only_number_words = false; ///< every text is such as NaN or -inf
  Tensor numbers;                 ///< f64, boolean if all are, or i64 or u64 if requested
};

/// The type in which the numbers of a list are read. With floating_or_text, "NaN" is an ordinary
/// word unless the list also has numbers.
enum class JsonNumbers { floating, floating_or_text, signed_integers, unsigned_integers };

/// Reads nested lists of numbers, booleans and null (NaN), all rows of equal length; or a list of
/// text. Takes little more memory than the array itself.
JsonArray read_json_array(JsonScanner& scanner, JsonNumbers kind);

/// One number without a list around it, of shape ().
Tensor read_json_number(JsonScanner& scanner, JsonNumbers kind);

/// The value of "NaN", "Infinity" and "-Infinity".
std::optional<double> number_word(std::string_view word);
/// The same however people write them: also "-inf", "Inf", "+Infinity" and "nan".
std::optional<double> typed_number_word(std::string_view word);

/// A value of a document other than an object.
struct JsonValue {
  const char* at = nullptr; ///< its place in the text
  std::optional<JsonArray> array;
  std::optional<std::string> scalar; ///< as text; nullopt for null
};

/// The type in which the numbers of "data" are read for a dtype, so that whole numbers keep all
/// digits.
JsonNumbers numbers_for(const std::optional<std::string>& dtype);

/// The tensor of an object {"shape": [2, 3], "dtype": "float32", "data": [[…], […]]}; `shape` and
/// `dtype` may be nullptr. Mistakes are reported at the place of the wrong value.
Tensor json_tensor(JsonScanner& scanner, const JsonValue* shape, const JsonValue* dtype,
                   JsonValue& data);

} // namespace mha::io
