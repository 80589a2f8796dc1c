#pragma once
// Causes that are seen in what a stream enters alone: of the embedding, of one layer, of all.

#include <mha/diagnose/diagnose.hpp>

namespace mha {

/// The change of the last layer under which the model's end (final or logits) is the reference's;
/// nothing where none is. `ends` as they are after the layer as it is.
std::optional<Diagnosis> explain_through(const Layer& last, const Layer& ends,
                                         const ReferenceStage& known,
                                         const DiagnoseContext& context);

/// The change of the embedding under which the first layer's stages are the reference's, which does
/// not have what enters it; nothing where none is. `ends` hold the embedding as it is.
std::optional<Diagnosis> explain_embedding(const Layer& ends, const Layer& first,
                                           const std::vector<ReferenceStage>& known,
                                           const DiagnoseContext& context);

/// The change of a layer's last sum under which the next layer's stages are the reference's, which
/// has neither what the one hands on nor what enters the other; nothing where none is.
std::optional<Diagnosis> explain_last_sum(const Layer& before, const Layer& next,
                                          const std::vector<ReferenceStage>& known,
                                          const DiagnoseContext& context);

/// Whether the model's end is the reference's where every token sees the padding around its text:
/// nothing where the reference has none, or is not like that. `layers` without an X; of `ends` the
/// embedding is what enters the first one.
std::optional<Diagnosis> explain_attended_padding(const std::vector<Layer>& layers,
                                                  const Layer& ends, const ReferenceStage& known,
                                                  const DiagnoseContext& context);

/// The same of a whole model: each change in every layer that it is of, each of the embedding, and
/// one layer left out, run twice, or exchanged with the next. `layers` without an X.
std::optional<Diagnosis> explain_everywhere(const std::vector<Layer>& layers, const Layer& ends,
                                            const ReferenceStage& known,
                                            const DiagnoseContext& context);

} // namespace mha
