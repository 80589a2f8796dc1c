#pragma once
// Names in a description: {layer}, {head}, {expert}, *, and the bias beside a weight.

#include <mha/load/families/description.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace mha {

inline constexpr std::string_view layer_mark = "{layer}", head_mark = "{head}",
                                  next_head_mark = "{head+1}", ///< where heads count from 1
    expert_mark = "{expert}"; ///< matrices of experts are stacked as those of heads
/// In a family's file: attention's module, and the one above it.
inline constexpr std::string_view attention_mark = "{attention}", above_mark = "{above}";

/// Where a name has a layer's number: {layer}, {layer+1}, {2*layer}, {2*layer+1}; {0*layer} is the
/// first layer's, which all read.
struct LayerMark {
  std::size_t at, length;
  std::size_t factor, offset; ///< the number is factor · layer + offset
};
/// The first mark of `text` from `from` on.
std::optional<LayerMark> layer_mark_in(std::string_view text, std::size_t from = 0);
/// The first brace and its content that is not a mark; "" where all are.
std::string unknown_mark(std::string_view name);

/// `text` with a number in the place of every {head}, or of every mark of the layer.
std::string with_head(std::string text, std::size_t head);
std::string with_layer(std::string text, std::size_t layer);
/// Where the first mark of a head begins; npos: there is none.
std::size_t head_mark_in(std::string_view text);
/// The whole name of a layer's tensor; the pattern still has {layer}.
std::string whole_pattern(const naming::Description& description, const std::string& name,
                          std::size_t layer);
std::string whole_name(const naming::Description& description, const std::string& name,
                       std::size_t layer);
/// The number in `name` where the pattern has {layer}; a {head} may follow.
std::optional<std::size_t> number_in(std::string_view name, std::string_view pattern);
/// Whether a name is of a pattern with {layer} for a number and * for any text.
bool is_like(std::string_view name, std::string_view pattern);
/// "ff.0.bias" beside "ff.0.weight"; "" where the name does not end as a weight's.
std::string bias_beside(const std::string& weight);

} // namespace mha
