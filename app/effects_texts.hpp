#pragma once
// Effects of ablations and patches on many texts. The texts are computed in groups; the result is
// rows for each text, or means over all of them.

#include "output.hpp"
#include "predicted_places.hpp"
#include "resume.hpp"
#include "text_groups.hpp"
#include <mha/model/effects.hpp>
#include <mha/render/studies.hpp>

#include <memory>
#include <string>
#include <vector>

namespace mha::app {

/// Writes the effects of finished texts while others are still being computed.
class EffectRows {
public:
  EffectRows(const std::string& path, std::string_view form, std::optional<std::size_t> precision,
             bool experts)
      : stream_(form, precision, render::indented), file_(path) {
    view_.per_position = true, view_.experts = experts;
  }
  void add(const std::vector<Effect>& effects);
  void finish();
  /// Saves or restores the rows so far, for --resume.
  void visit(RunState& state);

private:
  render::TableStream stream_;
  render::EffectsView view_;
  GrowingFile file_;
};

struct TextEffectsRequest {
  EffectsRequest effects; ///< `places` is overwritten for each group of texts
  std::optional<IndexList> query;
  MissingTokens missing_tokens = MissingTokens::error;
  bool per_position = false;
  bool can_split_into_groups = true; ///< false: a patch needs all texts at once
};

class TextEffects {
public:
  TextEffects(TextEffectsRequest request, const OpenedModel& model, Common& common);

  /// Computes the effects of the texts that `resume` does not list as done. They go to `rows`, or
  /// to results() if that is null.
  void compute(EffectRows* rows, ResumeFile& resume, const std::string& settings);
  /// The effects by part and position (--per-position), or their means over all predictions.
  std::vector<Effect> results() const;
  /// The deviations of the same parts.
  std::vector<Effect> deviations() const;
  /// Adds to --timings what the ablations cost, and what as many whole passes would.
  void add_to_timings() const;

private:
  struct Cost {
    std::size_t ablations = 0;
    double operations = 0;                 ///< of the ablations
    double full_pass_operations = 0;       ///< of as many whole passes
    double effects_s = 0, effects_cpu = 0; ///< wall time and processor time of all effects
    double pass_s = 0, pass_cpu = 0;       ///< the same for one whole pass
  };
  void compute_group(const TextGroup& group, EffectRows* rows);
  void compute_replacement_means(const TextGroups& groups);
  void measure_pass(const TextLayers& layers);
  TextGroup all_texts() const;
  std::shared_ptr<const TextLayers> layers_of(const TextGroup& group) const;
  /// Saves or restores the effects so far, for --resume.
  void visit(EffectRows* rows, RunState& state);

  TextEffectsRequest request_;
  const OpenedModel& model_;
  Common& common_;
  std::vector<TextPosition> places_; ///< of all texts
  bool has_computed_group_ = false;
  Cost cost_;
  EffectMeans means_;
  std::vector<Effect> position_effects_; ///< with --per-position
};

} // namespace mha::app
