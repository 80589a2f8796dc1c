#pragma once
// One run of `diff` over the chosen layers: what each of them shows is added up.

#include "against.hpp"
#include "output.hpp"
#include <mha/diagnose/model_diff.hpp>
#include <mha/render/diff.hpp>

namespace mha::app {

/// What is asked of a run.
struct DiffQuestion {
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
  DiffRun(DiffQuestion& question, OpenedModel& model);

  void layer(const std::string& id);
  /// Writes what is not written yet. The verdict on all layers.
  Verdict finish();
  bool is_whole() const { return diff_.is_whole(); }

private:
  std::string form_of_gelu();
  void require_some(const std::string& id, const Reference& reference, const Diff& found,
                    Verdict before) const;
  void require_stages() const;
  void note_layers() const;
  void say_what_is_missed() const;
  void show(const LoadedLayer& loaded, const Reference& reference, const Diff& found,
            const Outcome& outcome);

  DiffQuestion& question_;
  OpenedModel& model_;
  const std::string form_;
  const render::TextStyle text_style_;
  ModelDiff diff_;
  const bool line_a_layer_; ///< of a whole model's layers
  TextFile file_;
  const render::Sink sink_;
  bool first_ = true;
  std::vector<render::LayerLine> lines_;
  std::string differs_; ///< the table of the first layer that does
  std::vector<render::LayerDiff> objects_;
  std::vector<render::StageLine> rows_;
};

/// Where to look at the worst element of the first difference, and what finds its cause: commands
/// that run. "" where nothing differs.
std::string next_steps(const DiffQuestion& question, const LoadedLayer& loaded, const Diff& diff);

} // namespace mha::app
