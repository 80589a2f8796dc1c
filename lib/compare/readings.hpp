#pragma once
// A reference for opened layers: whether it belongs to their text and layer, and the ways to read
// it.

#include <mha/compare/reference.hpp>
#include <mha/compare/same_text.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/system/clock.hpp>

#include <optional>
#include <vector>

namespace mha {

/// The whole model of the layers if a text makes their inputs, else nothing.
std::optional<WholeModelOfLayer> whole_model_of(const OpenedModel& model);

/// Reduces a reference to the text that the layers are computed for, with notes. Throws Error if it
/// is of another text.
SameText require_same_text(const OpenedModel& model, const ReferenceFiles& against);

/// Throws Error if several layers are compared and a stage of the reference names no layer: it
/// would be compared with each of them.
void require_layer_of_stages(const ReferenceFiles& against, std::size_t layers);

/// The reference for one layer in every reading that the numbers leave open, the best first (see
/// settled()). `model`: the whole model of the layer. A reference that is itself a layer is
/// computed.
std::vector<Reference> load_readings(const LoadedLayer& loaded, const ReferenceFiles& against,
                                     Effort& effort, const WholeModelOfLayer* model = nullptr);

/// The number of another layer of the request's files whose `stage` equals the reference's, or "".
/// Searches the first 128 layers, and only if the request chose a layer by its number.
std::string other_layer_of(const RunRequest& request, const std::string& layer,
                           const Reference& reference, Stage stage, std::size_t threads);

/// The same for layers whose inputs are computed from a text.
std::string other_layer_of_text(const OpenedModel& model, const std::string& layer,
                                const ReferenceStage& known, std::size_t threads);

} // namespace mha
