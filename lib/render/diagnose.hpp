#pragma once
// Results of `diagnose`, of one layer and of a whole model: sentences and tables, and JSON.

#include <mha/diagnose/diagnose.hpp>
#include <mha/diagnose/model_diagnosis.hpp>
#include <mha/render/text.hpp>

#include <string>
#include <string_view>

namespace mha::render {

/// The changes that explain the reference, what each means and how to undo it, errors before and
/// after, and what came next; or how far it agrees.
std::string diagnosis_text(const Diagnosis& diagnosis, const TextStyle& text_style);

/// A layer's number, and its diagnosis.
struct LayerDiagnosis {
  std::string layer; ///< "" where the layer has no number; of a whole model "embed", "" for its end
  Diagnosis diagnosis;
};
/// One object; of several layers one keyed by layers.N.
std::string diagnosis_json(const std::vector<LayerDiagnosis>& layers);

/// A line for each run of places with the same verdict, then what was found in each. `title`: how
/// the model is called.
std::string model_diagnosis_text(const ModelDiagnosis& found, std::string_view title,
                                 const TextStyle& text_style);

} // namespace mha::render
