// Layers with some of a reference's stages given.

#include <mha/compare/diff.hpp>

#include <mha/naming/forms.hpp>
#include <mha/layer/graph.hpp>
#include <mha/layer/other_inputs.hpp>

#include <algorithm>

namespace mha {

namespace {

/// Whether files hold stages and no weights: then the settings of the missing steps are not known.
bool holds_results_only(const Layer& layer) {
  return layer.given_set.any() && layer.W_q.empty() && layer.W_k.empty() && layer.W_v.empty() &&
         layer.W_o.empty();
}

} // namespace

bool may_be_compared(const Layer& layer, Stage stage) {
  if (layer.has_given(stage) || !holds_results_only(layer)) return true;
  for (const Stage given : layer.given_set)
    if (contains(ancestors_of(layer, given), stage)) return false;
  const std::vector<Stage> inputs = inputs_of(layer, stage);
  return std::all_of(inputs.begin(), inputs.end(),
                     [&](Stage input) { return may_be_compared(layer, input); });
}

Layer with_given(Layer layer, Stage stage, const Tensor& value) {
  Tensor own = convert(value, layer.dtype);
  if (layer.settings.columns && info_of(stage).kind != Kind::row) own = transposed(own);
  own = stored(stage, own, layer.dims);
  if (stage == Stage::resid_pre) layer.X = own; // the norm and the residual read X
  layer.given[index_of(stage)] = own;
  layer.given_set.add(stage);
  return layer;
}

Layer without_given(Layer layer, Stage stage) {
  layer.given[index_of(stage)] = Tensor();
  layer.given_set.remove(stage);
  return layer;
}

Layer with_reference_before(const Layer& layer, Stage stage, const Reference& reference) {
  Layer edited = layer;
  for (const ReferenceStage& theirs : reference.stages)
    if (comes_before(layer, theirs.stage, stage) && !theirs.in_part)
      edited = with_given(std::move(edited), theirs.stage, theirs.value);
  return edited;
}

} // namespace mha
