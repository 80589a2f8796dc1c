#pragma once
// stats over many texts: means and spreads, by head, text, position or token, and the texts that
// most activate a head.

#include "output.hpp"
#include <mha/heads/measures.hpp>

namespace mha::app {

/// --by, --spread, --top-texts and --resume.
struct TextStatsOptions {
  std::string by;
  bool spread = false, resume = false;
  std::optional<std::size_t> top_texts;

  /// Whether any of them is given.
  bool asked() const { return !by.empty() || spread || top_texts.has_value(); }
};
void add_text_stats(Cli& cli, TextStatsOptions& options);

/// What else `stats` was asked for.
struct TextStatsRequest {
  const TextStatsOptions& options;
  const MeasureRequest& measuring;
  std::vector<const Measure*> columns; ///< empty: those that tell the most
  bool less_uniform = false;           ///< of these, what is above uniform attention
  const Measure* sort = nullptr;       ///< by its mean
  bool ascending = false;
  std::optional<std::size_t> top, precision;
  const OutputOptions& output;
  std::string settings; ///< of a resumed run: what it was asked for, as it was typed
};

/// Computes and writes them. Texts are computed some at a time. Throws Error without a text.
int run_text_stats(RunRequest request, const TextStatsRequest& asked, Common& common);

/// --top-texts: Computes the texts some at a time and writes those with the longest vectors of one
/// head.
int write_top_texts(const OpenedModel& model, const TextStatsRequest& asked,
                    const std::string& form, Common& common);

} // namespace mha::app
