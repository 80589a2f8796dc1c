#pragma once
// A reference of opened layers: whether it is of their text, and how it can be read for each.

#include <mha/compare/reference.hpp>
#include <mha/compare/same_text.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/system/effort.hpp>

#include <optional>
#include <vector>

namespace mha {

/// What the layers are of, where a text makes their inputs; else nothing.
std::optional<WholeModelOfLayer> whole_model_of(const OpenedModel& model);

/// Leaves of a reference what is of the text that the layers are computed for; the notes say so.
/// Throws Error where it is of another text.
SameText require_same_text(const OpenedModel& model, const ReferenceFiles& against);

/// Throws Error where several layers are compared and a stage of the reference says of none of them
/// which it is: each would be compared with it.
void require_layer_of_stages(const ReferenceFiles& against, std::size_t layers);

/// The reference for one layer, read in every way that the numbers leave open, the best first:
/// settled(). `model`: the whole model that the layer is of. A reference that is a layer itself is
/// computed.
std::vector<Reference> load_readings(const LoadedLayer& loaded, const ReferenceFiles& against,
                                     Effort& effort, const WholeModelOfLayer* model = nullptr);

/// The number of another layer of the request's files whose `stage` is the reference's, or "".
/// Looks where one layer was chosen by its number; at the first 128.
std::string other_layer_of(const RunRequest& request, const std::string& layer,
                           const Reference& reference, Stage stage, std::size_t threads);

/// The same where a text makes the layers' inputs: the number of another layer whose stage it is.
std::string other_layer_of_text(const OpenedModel& model, const std::string& layer,
                                const ReferenceStage& known, std::size_t threads);

} // namespace mha
