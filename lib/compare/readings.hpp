#pragma once
// A reference of opened layers: whether it is of their text, and how it can be read for each.

#include <mha/compare/reference.hpp>
#include <mha/compare/same_text.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/system/clock.hpp>

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

} // namespace mha
