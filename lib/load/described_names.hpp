#pragma once
// Names in a description: {layer}, {head}, *, and the bias beside a weight.

#include <mha/load/families/description.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace mha {

inline constexpr std::string_view layer_mark = "{layer}", head_mark = "{head}";

/// `text` with a number in the place of every mark.
std::string with_mark(std::string text, std::string_view mark, std::size_t number);
/// The whole name of a layer's tensor; as a pattern it has {layer} still.
std::string whole_pattern(const naming::Description& said, const std::string& name,
                          std::size_t layer);
std::string whole_name(const naming::Description& said, const std::string& name, std::size_t layer);
/// The number that stands in `name` where the pattern has {layer}; a {head} may follow.
std::optional<std::size_t> number_in(std::string_view name, std::string_view pattern);
/// Whether a name is of a pattern with {layer} for a number and * for any text.
bool is_like(std::string_view name, std::string_view pattern);
/// "ff.0.bias" beside "ff.0.weight"; "" where the name does not end as a weight's.
std::string bias_beside(const std::string& weight);

} // namespace mha
