#include <mha/diagnose/hypotheses/surroundings.hpp>

namespace mha {

TransformerBlock& own_block(Layer& layer) {
  auto block = std::make_shared<TransformerBlock>(*layer.block);
  TransformerBlock& own = *block;
  layer.block = std::move(block);
  return own;
}

ModelEnds& own_ends(Layer& layer) {
  auto ends = std::make_shared<ModelEnds>(*layer.ends);
  ModelEnds& own = *ends;
  layer.ends = std::move(ends);
  return own;
}

} // namespace mha
