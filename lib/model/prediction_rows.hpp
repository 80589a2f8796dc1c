#pragma once
// What a model says at some positions of its texts: rows of logits, compared as distributions.

#include <mha/layer/layer.hpp>

#include <cstddef>
#include <utility>
#include <vector>

namespace mha {

/// A position of a text.
using TextPosition = std::pair<std::size_t, std::size_t>; // text, position

/// The logits at some positions, in double; of a model without a head what its last norm makes, or
/// its last stream. `ends` is what stands behind the last layer, with the stream that it reads.
std::vector<std::vector<double>>
prediction_rows(const Layer& ends, const std::vector<TextPosition>& places, std::size_t threads);

/// log p of every token, of one row of logits.
std::vector<double> log_softmax(const std::vector<double>& logits);

/// D(p ‖ q) = Σ p (log p − log q), in nats, of two rows of log p.
double divergence(const std::vector<double>& log_p, const std::vector<double>& log_q);

} // namespace mha
