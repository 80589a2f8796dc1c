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

} // namespace mha
