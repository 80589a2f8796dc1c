#pragma once
// Diagnoses a whole model layer by layer, each layer on the reference's own stream.

#include <mha/compare/readings.hpp>
#include <mha/compare/streams.hpp>
#include <mha/diagnose/captured.hpp>
#include <mha/diagnose/diagnose.hpp>
#include <mha/diagnose/gelu_forms.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/model_diagnosis.hpp>
#include <mha/diagnose/stream_causes.hpp>
#include <mha/diagnose/trials.hpp>
#include <mha/layer/graph.hpp>
#include <mha/load/loaded_words.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/observe/trace.hpp>

#include <map>
#include <mutex>

#include <fmt/format.h>

namespace mha {

/// The stages that a reference has.
std::vector<Stage> stages_in(const Reference& reference);

/// The stages of a reference that are computed in a layer, or with `embed` those of the embedding.
std::vector<ReferenceStage> targets_in(const Reference& reference, bool embed);

class ModelDiagnoser {
public:
  ModelDiagnoser(OpenedModel& model, ReferenceFiles against, const DiagnosisCalls& calls,
                 Effort& effort)
      : model_(model),
        texts_(*model.texts()),
        files_(std::move(against)),
        whole_(*whole_model_of(model)),
        calls_(calls),
        effort_(effort) {
    SameText same = require_same_text(model, files_);
    for (const std::string& note : same.notes) calls_.note(note);
    around_.before = std::move(same.tokens_before), around_.after = std::move(same.tokens_after);
    around_.embedding = &texts_.embedding();
    around_.ids = texts_.ids(), around_.lengths = texts_.lengths();
    around_.layers = texts_.layers().size();
    around_.layer = [this](std::size_t number) { return other_layer(number); };
  }

  ModelDiagnosis run();

private:
  void embedding(const LoadedLayer& first, const Reference& of_first);
  bool explain_embedding_from_layer(const LoadedLayer& loaded,
                                    const std::vector<ReferenceStage>& known, Layer& layer);
  bool explain_stream_from_next_layer(const std::vector<ReferenceStage>& known, Layer& layer);
  void between(const LoadedLayer& loaded, const Reference& reference);
  std::pair<Diagnosis, Reference> verdict(const LoadedLayer& loaded,
                                          const std::vector<Reference>& readings, bool first,
                                          Layer& layer);
  void layer(const LoadedLayer& loaded);
  void drop_normalised_resid_pre(const LoadedLayer& loaded, const std::optional<Tensor>& before,
                                 std::vector<Reference>& readings);
  bool saved_from_other_step(const Tensor& next, double tolerance);
  bool padding_was_attended(const LoadedLayer& first);
  std::vector<Layer> outlines() const;
  bool take_last_choices(const Reference& of_ends);
  void end();
  void record_other_step(PlaceDiagnosis& place, const std::string& other);
  void detect_saved_layer_inputs();
  void detect_saved_feed_forward_inputs();
  bool ends_follow_own_stream();
  bool only_last_resid_post_differs() const;
  std::optional<Tensor> computed_stream(const LoadedLayer& next, const Reference& reference);
  void apply_other_step_to_final_layer();
  void name_other_layer();
  void name_form_of_gelu();
  void keep(const std::string& id, const LoadedLayer& loaded, Diagnosis diagnosis);
  std::pair<Diagnosis, Reference> best(const Layer& layer, const std::vector<Reference>& readings,
                                       bool fused);
  Layer ends_from(const Tensor& stream) const;
  LoadedLayer of_ends(const Layer& ends) const;
  Tensor predicted();
  std::shared_ptr<const Layer> other_layer(std::size_t number);

  OpenedModel& model_;
  const Texts& texts_;
  ReferenceFiles files_;
  WholeModelOfLayer whole_;
  const DiagnosisCalls& calls_;
  Effort& effort_;
  ModelAround around_;
  ModelDiagnosis diagnoses_;
  ReferenceStream stream_;
  GeluForms gelu_;
  std::vector<OtherStep> captures_; ///< of the current layer
  std::vector<Change> likely_;      ///< the causes of the previous layer
  std::optional<LoadedLayer> last_; ///< the layer compared last, with its input
  Changes last_changes_;
  std::vector<Change> kept_changes_;
  Tensor embed_;
  /// The first unexplained layer, and its first stage that differs.
  std::optional<std::pair<std::string, ReferenceStage>> unexplained_;
  bool is_sum_ = false;            ///< the stream after the previous layer is a sum of saved steps
  bool stream_is_unknown_ = false; ///< the stream after the previous layer is unknown
  bool ends_with_own_ = false;     ///< the end is computed from the model's own last stream
  bool streams_ = false;           ///< the reference has some stream
  std::mutex reading_others_;
  std::map<std::size_t, std::shared_ptr<const Layer>> others_;
};

} // namespace mha
