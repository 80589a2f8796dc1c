#pragma once
// {"shape": [2, 3], "dtype": "float32", "data": [[…], […]]}: a tensor that says what it is.

#include <mha/formats/json_array.hpp>

namespace mha::io {

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
