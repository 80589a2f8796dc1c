#pragma once
// Which stages a layer has, and what each is computed from.

#include <mha/layer/layer.hpp>

namespace mha {

/// Whether the step is part of this layer at all (rope set, a bias there …), computable or not.
bool has_step(const Layer& layer, Stage stage);
/// What a stage is computed from in this layer: steps that it does not have are replaced by their
/// own inputs.
std::vector<Stage> inputs_of(const Layer& layer, Stage stage);
/// The stages that a stage is computed from, directly or not; nothing is followed beyond `up_to`.
StageSet ancestors_of(const Layer& layer, Stage stage, const StageSet& up_to = {});
/// What a stage is computed from in a layer that has every step, itself included, without the given
/// ones and what is before them alone: what an edit that adds a step may reach.
StageSet possible_ancestors(Stage stage, const StageSet& given);
/// What is computed from these stages in a layer that has every step, themselves included.
StageSet possible_descendants(StageSet of);
/// The stages that a layer has from elsewhere in its model: another layer's keys and values, the
/// tokens' embedding for it.
StageSet given_by_model(const Layer& layer);

/// Whether a stage is another one, or may be computed from it.
bool follows(Stage stage, Stage other);
/// Whether the tensors and stages that a stage is computed from are there, itself not being given,
/// whatever their sizes are. `available` holds the stages before it that are.
bool can_compute(const Layer& layer, Stage stage, const StageSet& available);
/// Whether `scaled` would have to be computed with a scale of 1/√ of a width that is 0, or unknown.
bool lacks_scale(const Layer& layer);
/// What this means, and the cure.
Message why_no_scale(const Layer& layer);
/// The stages that are given or can be computed.
StageSet available_stages(const Layer& layer);
/// Why a derived stage is not made of a layer's steps: "" where it is.
std::string why_not_derived(const Layer& layer, Stage stage, const StageSet& available);
/// Throws Error that lists the stages there are, if `stage` is not among them.
void require_stage(const Layer& layer, Stage stage);
/// The same where the layer's available stages are known.
void require_stage(const Layer& layer, Stage stage, const StageSet& available);
/// A given head_result that the layer could compute is what its output is summed of: it becomes a
/// patch of all its places.
void patch_given_head_result(Layer& layer);

} // namespace mha
