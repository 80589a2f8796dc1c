#pragma once
// effects --sweep: activation patching from other texts, place by place.

#include "figures.hpp"
#include "output.hpp"
#include <mha/model/sweep.hpp>

namespace mha::app {

/// --sweep and the options that belong to it.
struct SweepOptions {
  Text source;             ///< --patch-from
  std::string source_path; ///< --patch-from-file
  std::vector<std::string> stages, over;
  std::string metric;
  bool raw = false;

  /// Whether --sweep is given. Throws UsageError if one of its options is given without it.
  bool asked() const;
};

void add_sweep(Cli& cli, SweepOptions& sweep);

/// The target of a sweep. `picture`: "text", "png", "svg", "pdf", or "" for numbers.
struct SweepOutput {
  const OutputOptions& output;
  std::string picture;
  const FigureOptions& figure;
  std::optional<std::size_t> precision; ///< significant digits in CSV and JSON; none: all
};

/// Computes and writes the sweep. `request` has answer, versus and places.
void run_sweep(const SweepOptions& options, const OpenedModel& model, SweepRequest request,
               const SweepOutput& target, Common& common);

} // namespace mha::app
