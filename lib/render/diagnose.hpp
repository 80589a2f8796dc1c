#pragma once
// Results of `diagnose`: sentences and a table for eyes, and JSON.

#include <mha/diagnose/diagnose.hpp>
#include <mha/render/text.hpp>

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

} // namespace mha::render
