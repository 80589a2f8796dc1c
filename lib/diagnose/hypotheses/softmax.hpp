#pragma once
// Dropout, which is seen in what the reference drops: weights, rows of the embedding, results.

#include <mha/diagnose/hypotheses/change.hpp>

#include <optional>

namespace mha {

/// The reference's numbers are ours / (1 − p) or 0, p estimated; nothing if they are not. Both in
/// the form of Layer::given; the stage is one of those of `drops`.
std::optional<Change> dropout_change(Stage stage, const Tensor& ours, const Tensor& theirs);

/// Whether models in training drop numbers of this stage: weights, the embedding, the results of
/// attention and of the feed-forward.
bool drops(Stage stage);

} // namespace mha
