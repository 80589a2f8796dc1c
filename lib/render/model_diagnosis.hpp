#pragma once
// The diagnosis of a whole model, for eyes.

#include <mha/diagnose/model_diagnosis.hpp>
#include <mha/render/text.hpp>

#include <string>
#include <string_view>

namespace mha::render {

/// A line for each run of places with the same verdict, then what was found in each. `title`: how
/// the model is called.
std::string model_diagnosis_text(const ModelDiagnosis& found, std::string_view title,
                                 const TextStyle& text_style);

} // namespace mha::render
