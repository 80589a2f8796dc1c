#pragma once
// A whole model by the names of a graph's weights, held against what the graph computes.

#include <mha/load/whole_model.hpp>

namespace mha {

/// Throws Error that names a node where the graph computes other logits (without a head: another
/// last stream) of token numbers than the model does, whose layers are the graph's own: for two
/// lengths. What else is to be known of it.
std::vector<Note> hold_against_graph(const WholeModel& model);

} // namespace mha
