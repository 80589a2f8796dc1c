#pragma once
// stats over many texts: means and standard deviations by head, text, position or token, and the
// texts that most activate a head.

#include "output.hpp"
#include <mha/heads/measures.hpp>

namespace mha::app {

/// --by, --spread, --top-texts and --resume.
struct TextStatsOptions {
  std::string by;
  bool spread = false, resume = false;
  std::optional<std::size_t> top_texts;

  /// Whether statistics over many texts are requested.
  bool asked() const { return !by.empty() || spread || top_texts.has_value(); }
};
void add_text_stats(Cli& cli, TextStatsOptions& options);

/// A request of `stats` over many texts.
struct TextStatsRequest {
  const TextStatsOptions& options;
  const MeasureRequest& measuring;
  std::vector<const Measure*> columns; ///< empty: the usual ones
  bool subtract_uniform = false;          ///< subtract what uniform attention would have
  const Measure* sort = nullptr;       ///< by its mean
  bool ascending = false;
  std::optional<std::size_t> top, precision;
  const OutputOptions& output;
  std::string settings; ///< for --resume: the options that choose the results
};

/// Computes and writes the statistics, some texts at a time. Throws Error without a text.
int run_text_stats(RunRequest request, const TextStatsRequest& asked, Common& common);

/// --top-texts: writes the texts with the longest vectors of one head.
int write_top_texts(const OpenedModel& model, const TextStatsRequest& asked,
                    const std::string& form, Common& common);

} // namespace mha::app
