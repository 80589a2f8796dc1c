#pragma once
// effects --sweep: activation patching from other texts, place by place.

#include "figures.hpp"
#include "output.hpp"
#include <mha/model/sweep.hpp>

namespace mha::app {

/// What --sweep and its companions say.
struct SweepOptions {
  Text other;       ///< --patch-from
  std::string path; ///< --patch-from-file
  std::vector<std::string> stages, over;
  std::string metric;
  bool raw = false;

  /// Whether a sweep is asked for. Throws UsageError where one of its options is alone.
  bool asked() const;
};

void add_sweep(Cli& cli, SweepOptions& sweep);

/// Where a sweep goes, and whether as a picture: "text", "png", "svg", "pdf", or "".
struct SweepOutput {
  const OutputOptions& output;
  std::string picture;
  const FigureOptions& figure;
  std::optional<std::size_t> precision; ///< significant digits of CSV and JSON; none: all
};

/// Computes the sweep and writes it. `request`: answer, versus and places.
void run_sweep(const SweepOptions& options, const OpenedModel& model, SweepRequest request,
               const SweepOutput& to, Common& common);

} // namespace mha::app
