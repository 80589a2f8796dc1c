#include <mha/observe/kept_tokens.hpp>

#include <mha/tensor/storage.hpp>

#include <cstring>

namespace mha {

KeptTokens::KeptTokens(const Layer& layer, const StageSet& wanted) : wanted_(wanted) {
  const Dims& dims = layer.dims;
  for (const Stage stage : wanted) {
    const Shape shape{dims.B, dims.T, dims.size_of(info_of(stage).letters.back())};
    kept_.emplace(stage, layer.lengths.empty() ? Tensor(layer.dtype, shape)
                                               : sparse_zeros(layer.dtype, shape));
  }
}

void KeptTokens::observe(const Slice& block) {
  if (block.token >= block.length) return;
  Tensor& tensor = kept_.at(block.stage);
  const std::size_t T = tensor.shape()[1], width = tensor.shape()[2],
                    element = size_of(tensor.dtype());
  const std::size_t stride = static_cast<std::size_t>(block.values.strides[0]);
  for (std::size_t i = 0; i < block.values.shape[0]; ++i)
    std::memcpy(tensor.raw_mutable() + ((block.batch * T + block.token + i) * width) * element,
                block.values.data + i * stride * element, width * element);
}

} // namespace mha
