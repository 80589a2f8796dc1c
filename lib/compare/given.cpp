// Layers of which some stages are a reference's.

#include <mha/compare/diff.hpp>

#include <mha/layer/forms.hpp>

namespace mha {

Layer with_given(Layer layer, Stage stage, const Tensor& value) {
  Tensor own = convert(value, layer.dtype);
  if (layer.settings.columns && info_of(stage).kind != Kind::row) own = transposed(own);
  own = stored(stage, own, layer.dims);
  if (stage == Stage::resid_pre) layer.X = own; // what the norm and the residual read
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
    if (theirs.stage < stage && !theirs.in_part)
      edited = with_given(std::move(edited), theirs.stage, theirs.value);
  return edited;
}

} // namespace mha
