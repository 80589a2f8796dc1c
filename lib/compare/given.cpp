// Layers of which some stages are a reference's.

#include <mha/compare/diff.hpp>

namespace mha {

Layer with_given(Layer layer, Stage stage, const Tensor& value) {
  const StageInfo& info = info_of(stage);
  const Dims& dims = layer.dims;
  Tensor own = convert(value, layer.dtype);
  if (layer.settings.columns && info.kind != Kind::row) own = transposed(own);
  Shape shape{dims.B};
  for (Dim letter : info.letters) shape.push_back(dims.size_of(letter));
  own = own.reshaped(shape);
  if (info.kind == Kind::token && info.letters.size() == 3)
    own = permuted(own, {0, 2, 1, 3}).reshaped({dims.B, shape[2], shape[1] * shape[3]});
  if (stage == Stage::resid_pre) layer.X = own; // what the norm and the residual read
  layer.given[index_of(stage)] = own;
  layer.given_set.set(index_of(stage));
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
