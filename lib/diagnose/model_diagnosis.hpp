#pragma once
// diagnose of a whole model: each layer is computed from the reference's own stream, so that each
// has a verdict of its own.

#include <mha/compare/coverage.hpp>
#include <mha/diagnose/diagnose.hpp>
#include <mha/layer/layer_words.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/system/clock.hpp>

#include <functional>
#include <string>
#include <vector>

namespace mha {

/// The embedding ("embed"), a layer by its number, or the model's end ("").
struct PlaceDiagnosis {
  std::string id;
  LayerWords words; ///< the layer that was computed
  Diagnosis diagnosis;
};

struct ModelDiagnosis {
  std::vector<PlaceDiagnosis> places; ///< in the order of the computation
  Coverage coverage;
  std::string undecided; ///< what its precision cannot tell, in a sentence; or ""
  /// Places that the reference has steps of and that could not be judged, and why; or "".
  std::string not_judged;
  /// Whether what reproduces a change does so in the whole model: an option is every layer's.
  bool reproduces_everywhere = true;
};

/// How a model's diagnosis gets its layers, and where its notes go. An exception of any of
/// them ends it.
struct DiagnosisCalls {
  /// Loads a layer on the model's own stream.
  std::function<LoadedLayer(const std::string& id)> load;
  /// Gets each reference as it was read, whose doubts may be too many.
  std::function<void(const Reference&)> read = [](const Reference&) {};
  std::function<void(const std::string& text)> note = [](const std::string&) {};
};

/// Diagnoses every chosen layer of a model that a text is given for, and, where no layer is chosen,
/// its embedding and its end. Throws Error where the reference has nothing of them.
ModelDiagnosis diagnose_model(OpenedModel& model, ReferenceFiles against,
                              const DiagnosisCalls& calls, Effort& effort);

} // namespace mha
