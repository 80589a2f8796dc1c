#pragma once
// diagnose of a whole model: each layer is computed from the reference's own stream, so that each
// has a verdict of its own.

#include "options.hpp"
#include <mha/compare/coverage.hpp>
#include <mha/diagnose/diagnose.hpp>
#include <mha/layer/layer_words.hpp>
#include <mha/render/text.hpp>

namespace mha::app {

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

/// Diagnoses every layer that the request chooses, of a model that a text is given for, and, where
/// no layer is chosen, its embedding and its end. Throws Error where the reference has nothing of
/// them.
ModelDiagnosis diagnose_model(const RunRequest& request, OpenedModel& model,
                              const std::vector<std::string>& against, Common& common);

/// A line for each run of places with the same verdict, then what was found in each. `title`: how
/// the model is called.
std::string model_diagnosis_text(const ModelDiagnosis& found, std::string_view title,
                                 const render::TextStyle& text_style);

} // namespace mha::app
