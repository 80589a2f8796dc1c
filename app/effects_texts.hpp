#pragma once
// Effects over many texts, computed in groups: rows of each text, or means over all.

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

/// Rows that are written while texts are computed.
class EffectRows {
public:
  EffectRows(const std::string& path, std::string_view form, std::optional<std::size_t> precision)
      : stream_(form, precision, render::indented), file_(path) {
    view_.per_position = true;
  }
  void add(const std::vector<Effect>& effects);
  void finish();
  /// Visits the rows so far, for --resume.
  void visit(RunState& state);

private:
  render::TableStream stream_;
  render::EffectsView view_;
  GrowingFile file_;
};

struct TextEffectsRequest {
  EffectsRequest effects; ///< its places are set for each group of texts
  std::optional<IndexList> query;
  Lacking lacking = Lacking::error;
  bool per_position = false;
  bool can_split_into_groups = true; ///< false: a patch needs all texts at once
};

class TextEffects {
public:
  TextEffects(TextEffectsRequest asked, const OpenedModel& model, Common& common);

  /// Computes the effects of the texts that `kept` does not list as done. They go to `rows`, or to
  /// found() if that is null.
  void compute(EffectRows* rows, ResumeFile& kept, const std::string& settings);
  /// The effects by part and position (--per-position), or their means over all predictions.
  std::vector<Effect> found() const;
  std::vector<Effect> deviations() const { return means_.deviations(); }
  /// Adds the cost of the ablations, and of as many whole passes, to --timings.
  void report() const;

private:
  struct Cost {
    std::size_t ablations = 0;
    double operations = 0,
           full_pass_operations = 0; ///< of the ablations; of as many whole passes
    double effects_s = 0, cpu = 0;   ///< wall time and processor time of all effects
    double pass_s = 0, pass_cpu = 0; ///< the same for one whole pass
  };
  void group(const TextGroup& group, EffectRows* rows);
  void compute_replacement_means(const TextGroups& groups);
  void measure_pass(const TextLayers& layers);
  TextGroup all_texts() const;
  std::shared_ptr<const TextLayers> layers_of(const TextGroup& group) const;
  void visit(EffectRows* rows, RunState& state);

  TextEffectsRequest asked_;
  const OpenedModel& model_;
  Common& common_;
  std::vector<TextPosition> places_; ///< of all texts
  bool begun_ = false;               ///< whether a group has been computed
  Cost cost_;
  EffectMeans means_;
  std::vector<Effect> list_; ///< with --per-position: of every position
};

} // namespace mha::app
