#pragma once
// Measures of heads over many texts: by head, text, position or token, with what they vary by.

#include <mha/heads/measures.hpp>
#include <mha/render/text.hpp>
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

/// For eyes: mean ± standard deviation in one column.
std::string text_stats_table(const std::vector<TextStatsRow>& rows, const TextStatsView& view,
                             const TextStyle& text_style);
/// csv or tsv; without the line of titles where it stands above already.
std::string text_stats_csv(const std::vector<TextStatsRow>& rows, const TextStatsView& view,
                           std::string_view form, bool titles,
                           std::optional<std::size_t> precision = std::nullopt);
/// A row as a JSON object.
std::string text_stats_object(const TextStatsRow& row, const TextStatsView& view,
                              std::optional<std::size_t> precision = std::nullopt);

/// Where a head adds the most to the stream: a text with the position of its largest vector.
struct Activation {
  double norm = 0; ///< ‖head_result‖ at the position
  std::size_t text = 0, position = 0;
  std::string token, before, after; ///< of the text around it
};
std::string activations_table(const std::vector<Activation>& list, const TextStyle& text_style);
/// csv, tsv, json or ndjson.
std::string activations_text(const std::vector<Activation>& list, std::string_view form,
                             std::optional<std::size_t> precision);

} // namespace mha::render
