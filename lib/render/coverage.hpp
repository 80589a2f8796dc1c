#pragma once
// The coverage of a whole model's reference, for eyes.

#include <mha/compare/coverage.hpp>
#include <mha/render/text.hpp>

#include <string>

namespace mha::render {

/// "compared: …; not compared: …; passed over: …", wrapped, below a verdict on a whole model.
std::string coverage_text(const Coverage& coverage, const TextStyle& text_style);

} // namespace mha::render
