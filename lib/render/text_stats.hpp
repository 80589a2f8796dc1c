#pragma once
// Measures of heads over many texts: by head, text, position or token, with what they vary by.

#include <mha/heads/measures.hpp>
#include <mha/render/table.hpp>
#include <mha/tensor/mean_spread.hpp>

namespace mha::render {

/// What a row of many texts is about, beside its head.
enum class TextRows : std::uint8_t {
  head,     ///< all texts
  text,     ///< one of them
  position, ///< the query at one place of every text
  token,    ///< the queries that are one token
};

struct TextStatsRow {
  std::string layer; ///< "" where the layer has no number
  std::size_t head = 0;
  std::string kind;       ///< of most texts, or of the one; "" where rows are queries
  std::size_t number = 0; ///< of the text, or of the position
  std::string token;
  std::size_t count = 0;          ///< texts, or queries, that are behind it
  std::vector<MeanSpread> values; ///< one a column
};

struct TextStatsView {
  TextRows rows = TextRows::head;
  std::vector<const Measure*> columns;
  bool spread = false; ///< beside each mean its standard deviation
  bool usual = false;  ///< columns that were not chosen: a table shows those that fit its width
};

/// Each mean, and with `spread` its standard deviation beside it.
Table text_stats_table(const std::vector<TextStatsRow>& rows, const TextStatsView& view);
/// The same as "table" or "markdown": usual columns as far as they fit, and how many more there
/// are.
std::string text_stats_for_eyes(const std::vector<TextStatsRow>& rows, TextStatsView view,
                                std::string_view form, const TextStyle& text_style);

/// Where a head adds the most to the stream: a text with the position of its largest vector.
struct Activation {
  double norm = 0; ///< ‖head_result‖ at the position
  std::size_t text = 0, position = 0;
  std::string token, before, after; ///< of the text around it
};
Table activations_table(const std::vector<Activation>& list);

} // namespace mha::render
