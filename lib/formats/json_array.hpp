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
      lists;                      ///< of a list of lists of text, instead of the others
  bool only_number_words = false; ///< every text is NaN, Infinity or -Infinity: numbers, if asked
  Tensor numbers;                 ///< f64, or boolean where all are; i64 or u64 where asked for
};

/// How the numbers of a list are kept while they are read. Text: "NaN" is a word like any other
/// unless a number stands beside it.
enum class JsonNumbers { floating, floating_or_text, signed_integers, unsigned_integers };

/// Reads nested lists of numbers, booleans and null (NaN), all rows of equal length; or a list of
/// text. Takes little more memory than the array itself.
JsonArray read_json_array(JsonScanner& scanner, JsonNumbers kind);

/// One number without a list around it, of shape ().
Tensor read_json_number(JsonScanner& scanner, JsonNumbers kind);

/// The value of "NaN", "Infinity" and "-Infinity".
std::optional<double> number_word(std::string_view word);

/// One value of a document that is no object.
struct JsonValue {
  const char* at = nullptr; ///< where it stands
  std::optional<JsonArray> array;
  std::optional<std::string> scalar; ///< as text; nothing for null
};

/// How the numbers of "data" are read under the dtype of that name: whole numbers keep all digits.
JsonNumbers numbers_for(const std::optional<std::string>& dtype);

/// The tensor of such an object; `shape` and `dtype` may be missing. Mistakes are reported at the
/// place of the value that is wrong.
Tensor json_tensor(JsonScanner& scanner, const JsonValue* shape, const JsonValue* dtype,
                   JsonValue& data);

} // namespace mha::io
