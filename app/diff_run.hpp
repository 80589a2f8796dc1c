#pragma once
// One run of `diff` over the chosen layers: what each of them shows is added up.

#include "against.hpp"
#include "exact_pass.hpp"
#include "output.hpp"
#include <mha/compare/streams.hpp>
#include <mha/compare/verdict.hpp>
#include <mha/diagnose/gelu_forms.hpp>
#include <mha/render/diff.hpp>
#include <mha/render/diff_layers.hpp>

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
  bool is_whole() const { return whole_.has_value(); }

private:
  Reference read(const LoadedLayer& loaded);
  Diff compared(const LoadedLayer& loaded, const Reference& reference);
  std::string form_of_gelu();
  void require_some(const std::string& id, const Reference& reference, const Diff& found) const;
  void require_stages() const;
  void note_layers() const;
  void say_what_is_missed() const;
  void show(const LoadedLayer& loaded, const Reference& reference, const Diff& found,
            const Outcome& outcome);

  DiffQuestion& question_;
  OpenedModel& model_;
  const std::string form_;
  const std::vector<Stage> stages_; ///< asked for by name; none: all
  const render::TextStyle text_style_;
  const ReferenceFiles files_;
  const std::optional<WholeModelOfLayer> whole_;
  const bool line_a_layer_; ///< of a whole model's layers
  ExactPass float64_;
  TextFile file_;
  const render::Sink sink_;
  bool equal_ = true, compared_ = false, first_ = true, first_layer_ = true;
  Verdict verdict_ = Verdict::equal;
  StageSet found_; ///< of the stages asked for
  ReferenceStream stream_;
  std::optional<Tensor> agreed_; ///< what the layer before hands on
  GeluForms gelu_;
  Coverage coverage_;
  std::vector<std::string> missed_; ///< why the verdict is not on all of the reference
  std::vector<render::LayerLine> lines_;
  std::string differs_; ///< the table of the first layer that does
  std::vector<render::LayerDiff> objects_;
  std::vector<render::StageLine> rows_;
};

/// Where to look at the worst element of the first difference, and what finds its cause: commands
/// that run. "" where nothing differs.
std::string next_steps(const DiffQuestion& question, const LoadedLayer& loaded, const Diff& diff);

} // namespace mha::app
