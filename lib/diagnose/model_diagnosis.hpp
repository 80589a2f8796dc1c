#pragma once
// Diagnosis of a whole model. Each layer is computed from the reference's own stream, so that it
// has a verdict of its own.

#include <mha/compare/coverage.hpp>
#include <mha/diagnose/diagnose.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/naming/layer_words.hpp>
#include <mha/system/clock.hpp>

#include <functional>
#include <string>
#include <vector>

namespace mha {

/// The embedding ("embed"), a layer by its number, or the model's end ("").
struct PlaceDiagnosis {
  std::string id;
  LayerWords words;
  Diagnosis diagnosis;
};

struct ModelDiagnosis {
  std::vector<PlaceDiagnosis> places; ///< in the order of the computation
  Coverage coverage;
  std::string undecided; ///< a sentence on what the precision leaves undecided, or ""
  /// The places that could not be judged although the reference has steps of them, or "".
  std::string not_judged;
  /// Whether options that reproduce a change are right for the whole model, as they apply to every
  /// layer.
  bool reproduces_everywhere = true;
};

/// The callbacks that provide a diagnosis with layers and receive its notes. Their exceptions end
/// it.
struct DiagnosisCalls {
  /// Loads a layer on the model's own stream.
  std::function<LoadedLayer(const std::string& id)> load;
  /// Receives each reference that was read, for checks that may throw.
  std::function<void(const Reference&)> read = [](const Reference&) {};
  std::function<void(const std::string& text)> note = [](const std::string&) {};
};

/// Diagnoses every chosen layer of a model on its text, and if no layer is chosen, also its
/// embedding and its end. Throws Error if the reference has none of their stages.
ModelDiagnosis diagnose_model(OpenedModel& model, ReferenceFiles against,
                              const DiagnosisCalls& calls, Effort& effort);

} // namespace mha
