#pragma once
// Parts of the text of an explanation.

#include <mha/render/explain.hpp>
#include <mha/render/vectors.hpp>

namespace mha::render {

/// The keys that a row lists, and how it sums up the others.
struct ShownKeys {
  std::vector<std::size_t> keys;   ///< in the order of the list
  std::vector<std::size_t> others; ///< not masked, not listed
  std::vector<std::size_t> masked;
};
/// All in order where at most `top` may be attended to, else the `top` largest weights, and `key`.
ShownKeys shown_keys(const HeadExplanation& head, std::size_t top, std::optional<std::size_t> key);

/// "17 't9'", or "17" where the key has no label. Labels are made visible and cut to `width`
/// columns.
std::string key_name(const Explanation& explanation, std::size_t key, std::size_t width = 16);
/// " 't9'": quoted, made visible; "" for no label. `[past 0]` and the like are not quoted.
std::string quoted(const Explanation& explanation, std::size_t key, std::size_t width);

/// "q·k → scaled → … → α": one line a key, then what is not listed, then maximum and sums. Every
/// line ends in a line break.
std::string key_table(const Explanation& explanation, const HeadExplanation& head,
                      const ExplainStyle& style);
/// What the columns of key_table have for one key: "scaled 0.693, exp 0.25, α 0.167".
std::string key_steps(const Explanation& explanation, const HeadExplanation& head, std::size_t key,
                      std::size_t digits);
/// The formulas of the columns that key_table shows: "scaled = q·k / √16", …
std::vector<std::string> key_formulas(const Explanation& explanation, const HeadExplanation& head);

/// "scale 1/√16 = 0.25".
std::string scale_text(const Explanation& explanation);
/// "x W_q + b_q" as this layer has it, or with `columns`: "W_q x + b_q".
std::string projection(const Explanation& explanation, std::string_view input, std::string_view W,
                       bool has_W, std::string_view b, bool has_b);

/// A heading with formulas after it, wrapped to the width.
std::string heading(const TextStyle& text_style, std::string_view title,
                    const std::vector<std::string>& formulas);
/// "note: …" lines, wrapped.
std::string note_lines(const TextStyle& text_style, const std::vector<Message>& notes);
/// The heading line of both forms: query, label, heads, widths, scale, keys seen.
std::string title_lines(const Explanation& explanation, const ExplainStyle& style);
/// concat and output, with the ruler of heads above; the end of both forms.
std::string all_heads_text(const Explanation& explanation, const ExplainStyle& style);
std::string one_head_text(const Explanation& explanation, const ExplainStyle& style);

} // namespace mha::render
