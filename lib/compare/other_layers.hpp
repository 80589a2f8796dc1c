#pragma once
// Whether a reference belongs to another layer of the same checkpoint.

#include <mha/compare/reference.hpp>
#include <mha/model/opened_model.hpp>

namespace mha {

/// The number of another layer of the request's files whose `stage` is the reference's, or "".
/// Looks where one layer was chosen by its number; at the first 128.
std::string other_layer_of(const RunRequest& request, const std::string& layer,
                           const Reference& reference, Stage stage, std::size_t threads);

/// The same where a text makes the layers' inputs: the number of another layer whose stage it is.
std::string other_layer_of_text(const OpenedModel& model, const std::string& layer,
                                const ReferenceStage& known, std::size_t threads);

} // namespace mha
