#pragma once
// Whether a reference belongs to another layer of the same checkpoint.

#include "options.hpp"
#include <mha/compare/reference.hpp>

namespace mha::app {

/// The number of another layer of the request's files whose `stage` is the reference's, or "".
/// Looks where one layer was chosen by its number; at the first 128.
std::string other_layer_of(const RunRequest& request, const std::string& layer,
                           const Reference& reference, Stage stage, const Common& common);

/// The same where a text makes the layers' inputs: the number of another layer whose stage it is.
std::string other_layer_of_text(const RunRequest& request, const std::string& layer,
                                const ReferenceStage& known, const Common& common);

} // namespace mha::app
