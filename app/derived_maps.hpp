#pragma once
// -s weights_mean, value_norms, value_norms_sum, rollout, received, divergence of map, show and
// dump: stages that are made of several stages, heads or layers.

#include "figure_options.hpp"
#include "output.hpp"
#include <mha/observe/derived.hpp>
#include <mha/render/map.hpp>

namespace mha::app {

struct DerivedOptions {
  const DerivedInfo* kind = nullptr;
  Selection selection; ///< --batch, --head, --query, --key
  OutputOptions output;
  std::string form; ///< of text, or of a file: "csv", "json", "npy", "png" …; "" by the path
  std::optional<std::size_t> precision;
  render::MapColors colors;
  FigureOptions figure = {}; ///< of a picture
};

/// The one that is named alone; null where none is. Throws UsageError where it stands beside
/// others.
const DerivedInfo* derived_among(const std::vector<std::string>& stages);

/// Computes it for the chosen layers and draws, prints or writes it, by `form`. Layers before the
/// first chosen one are computed for a rollout.
void draw_derived(RunRequest request, const DerivedOptions& options, Common& common);
void print_derived(RunRequest request, const DerivedOptions& options, Common& common);
void dump_derived(RunRequest request, const DerivedOptions& options, Common& common);

} // namespace mha::app
