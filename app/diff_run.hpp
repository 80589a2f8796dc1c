#pragma once
// One run of `diff` over the chosen layers, and their common verdict.

#include "against.hpp"
#include "output.hpp"
#include <mha/diagnose/model_diff.hpp>
#include <mha/render/diff.hpp>

namespace mha::app {

/// The options of a run.
struct DiffRunOptions {
  RunRequest request;
  std::vector<std::string> against;
  std::vector<std::string> stages; ///< --stage, as typed
  Tolerances tolerances;
  OutputOptions output;
  bool exact = false;
  Common common;
};

class DiffRun {
public:
  DiffRun(DiffRunOptions& options, OpenedModel& model);

  /// Compares one layer, and prints its results or keeps them for finish().
  void compare_layer(const std::string& id);
  /// Writes the remaining output and returns the verdict on all layers.
  Verdict finish();
  bool is_whole() const { return diff_.is_whole(); }

private:
  std::string report_gelu();
  void require_comparison(const std::string& id, const Reference& reference, const Diff& diff,
                          Verdict before) const;
  void require_stages() const;
  void note_layers() const;
  void note_choices() const;
  void report_uncompared() const;
  void show(const LoadedLayer& loaded, const Reference& reference, const Diff& diff,
            const Outcome& outcome);

  DiffRunOptions& options_;
  OpenedModel& model_;
  const std::string form_;
  const render::TextStyle text_style_;
  ModelDiff diff_;
  const bool one_line_per_layer_; ///< of a whole model's table
  TextFile file_;
  const render::Sink sink_;
  bool before_first_table_ = true;
  std::vector<render::LayerLine> layer_lines_;
  std::string first_difference_; ///< the table of the first layer that differs, or the command
                                 ///< that finds the cause of another form of GELU
  std::vector<render::LayerDiff> layer_diffs_;
  std::vector<render::StageLine> stage_lines_;
};

/// Two commands to copy: one shows the worst element of the first difference, the other finds its
/// cause. "" if nothing differs.
std::string next_steps(const DiffRunOptions& options, const LoadedLayer& loaded, const Diff& diff);

} // namespace mha::app
