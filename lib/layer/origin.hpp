#pragma once
// Where a setting's value is from.

#include <string_view>

namespace mha {

/// Whether a value's origin is the setting itself, as the one who gives it writes it ("causal",
/// "--causal"), and no file.
bool is_given(std::string_view origin);

} // namespace mha
