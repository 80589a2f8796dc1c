#pragma once
// A layer that holds some of the queries only: what they attend to is as before. For screening: the
// bits of its stages need not be those of the whole layer.

#include <mha/layer/layer.hpp>

namespace mha {

/// The layer with the queries of these rows alone, ready to compute `target`: keys and values
/// whole, masks and position biases written out.
Layer some_queries(const Layer& layer, const std::vector<std::size_t>& rows, Stage target);

/// Those queries' part of a stage's value, in the form of Layer::given; stages of keys as they are.
Tensor some_queries(Stage stage, const Tensor& value, const std::vector<std::size_t>& rows);

} // namespace mha
