#pragma once
// Measures of heads as tables, of one run and over many texts.

#include <mha/heads/expert_measures.hpp>
#include <mha/heads/measures.hpp>
#include <mha/render/table.hpp>
#include <mha/tensor/mean_spread.hpp>

namespace mha::render {

/// A head of a layer.
struct StatsRow {
  std::string layer; ///< "" where the layer has no number
  HeadMeasures head;
};

/// The measures of the columns; layer, head and kind are always shown.
using StatsColumns = std::vector<const Measure*>;

/// One line per head.
Table stats_table(const std::vector<StatsRow>& rows, const StatsColumns& columns);
/// The most informative measures that fit the width, without those that no head has, as "table" or
/// "markdown". A last line notes that there are more. `above`: less what equal weights would score.
std::string default_stats(const std::vector<StatsRow>& rows, bool above, std::string_view form,
                          const TextStyle& text_style);
/// The measures asked for, for a terminal: where they do not fit side by side, a line is a measure
/// and one column per head.
std::string chosen_stats(const std::vector<StatsRow>& rows, const StatsColumns& columns,
                         const TextStyle& text_style);

/// The subject of a row over many texts, beside its head.
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
  std::size_t count = 0;          ///< texts, or queries, that it is based on
  std::vector<MeanSpread> values; ///< one per column
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

/// The experts of a layer.
struct ExpertRows {
  std::string layer; ///< "" where the layer has no number
  LayerExperts of;
};
/// One line an expert; below them, for readers, the router's entropy of each layer.
Table experts_table(const std::vector<ExpertRows>& layers);

/// A place where a head adds much to the stream: a text, and the position of its largest vector.
struct Activation {
  double norm = 0; ///< ‖head_result‖ at the position
  std::size_t text = 0, position = 0;
  std::string token, before, after; ///< of the text around it
};
Table activations_table(const std::vector<Activation>& list);

} // namespace mha::render
