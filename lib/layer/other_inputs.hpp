#pragma once
// Stages that some layers compute from other stages than those in the stage table, and when: rows
// beside those of the table, in stage.cpp.

#include <mha/layer/stage.hpp>

#include <span>
#include <vector>

namespace mha {

/// `stage` of a layer that `holds` is computed from `inputs`, in the place of those of its row.
struct OtherInputs {
  Stage stage;
  bool (*holds)(const Layer&);
  std::vector<Stage> inputs;
};

/// The first row of a stage that holds counts.
std::span<const OtherInputs> other_inputs();

/// What a stage is computed from, steps that the layer does not have included.
const std::vector<Stage>& steps_before(const Layer& layer, Stage stage);

/// The stage whose turn it is at this place of the table: the computation is in the table's order,
/// but for rotations and norms that change places.
Stage in_turn(const Layer& layer, Stage place);
/// Whether a layer computes `stage` before `other`.
bool comes_before(const Layer& layer, Stage stage, Stage other);

} // namespace mha
