#pragma once
// Causes that are visible only in what their stream enters: of the embedding, of one layer, of all
// layers. Each function returns nothing if no change explains the reference.

#include <mha/diagnose/diagnose.hpp>

namespace mha {

/// Finds the change of the last layer under which the model's end (final or logits) agrees. `ends`
/// follow the unchanged layer.
std::optional<Diagnosis> explain_through(const Layer& last, const Layer& ends,
                                         const ReferenceStage& known,
                                         const DiagnoseContext& context);

/// Finds the change of the embedding under which the first layer's stages agree, if the reference
/// lacks the layer's input. `ends` hold the unchanged embedding.
std::optional<Diagnosis> explain_embedding(const Layer& ends, const Layer& first,
                                           const std::vector<ReferenceStage>& known,
                                           const DiagnoseContext& context);

/// Finds the change of a layer's last sum under which the next layer's stages agree, if the
/// reference lacks the stream between the two.
std::optional<Diagnosis> explain_last_sum(const Layer& before, const Layer& next,
                                          const std::vector<ReferenceStage>& known,
                                          const DiagnoseContext& context);

/// Explains the model's end by attention to the padding around each text, if the reference has
/// padding. `layers` have no X; the embedding in `ends` is the first layer's input.
std::optional<Diagnosis> explain_attended_padding(const std::vector<Layer>& layers,
                                                  const Layer& ends, const ReferenceStage& known,
                                                  const DiagnoseContext& context);

/// Explains the model's end by a change in every layer that allows it, in some or one of them, by a
/// change of the embedding, or by one layer left out, run twice, or exchanged with the next.
/// `layers` have no X.
std::optional<Diagnosis> explain_everywhere(const std::vector<Layer>& layers, const Layer& ends,
                                            const ReferenceStage& known,
                                            const DiagnoseContext& context);

} // namespace mha
