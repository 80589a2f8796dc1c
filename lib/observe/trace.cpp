#include <mha/observe/trace.hpp>

#include <mha/system/memory.hpp>
#include <mha/system/limits.hpp>
#include <mha/system/words.hpp>
#include <mha/tensor/storage.hpp>

#include <cstring>

namespace mha {

Trace::Trace(const Layer& layer, const std::vector<Stage>& wanted, const Selection& selection) {
  const StageSet available = wanted.empty() ? StageSet() : available_stages(layer);
  std::size_t bytes = 0;
  for (Stage stage : wanted) {
    require_stage(layer, stage, available);
    Placement placement(layer, stage, selection);
    bytes += count_of(placement.shape()) * size_of(layer.dtype_of(stage));
    kept_.emplace(stage, Kept{std::move(placement), {}});
  }
  require_memory(bytes, "the stages asked for",
                 message("select heads or queries, or <stream to a file>"));
  for (auto& [stage, kept] : kept_) {
    const DType dtype = layer.dtype_of(stage);
    kept.value = layer.lengths.empty() ? Tensor::uninitialised(dtype, kept.placement.shape())
                                       : sparse_zeros(dtype, kept.placement.shape());
  }
}

StageSet Trace::wants() const {
  StageSet set;
  for (const auto& [stage, kept] : kept_) set.add(stage);
  return set;
}

std::optional<std::size_t> Trace::batch() const {
  return kept_.empty() ? std::nullopt : kept_.begin()->second.placement.batch();
}

void Trace::observe(const Slice& block) {
  if (block.token >= block.length) return; // padding stays zero
  Kept& kept = kept_.at(block.stage);
  const std::size_t element = size_of(kept.value.dtype());
  std::byte* to = kept.value.raw_mutable();
  kept.placement.scatter(block,
                         [&](std::size_t offset, const std::byte* values, std::size_t count) {
                           copy_past_cache(to + offset * element, values, count * element);
                         });
}

void Trace::share(const Layer& layer, const Plan& part, ShareBytes& bytes) {
  for (auto& [stage, kept] : kept_) {
    const std::size_t element = size_of(kept.value.dtype());
    for (const auto& [offset, count] : kept.placement.filled_by(layer, part))
      bytes.fields(std::span(kept.value.raw_mutable() + offset * element, count * element));
  }
}

const Tensor& Trace::value(Stage stage) const& {
  const auto kept = kept_.find(stage);
  if (kept == kept_.end())
    fail("{} was not asked for; kept are {}", name_of(stage), joined_names(wants()));
  return kept->second.value;
}
Tensor Trace::value(Stage stage) && {
  return std::as_const(*this).value(stage);
}
const Placement& Trace::placement(Stage stage) const {
  return kept_.at(stage).placement;
}

Trace trace(const Layer& layer, const std::vector<Stage>& wanted, const Selection& selection,
            std::size_t threads, const ComputeLayer& by) {
  Trace kept(layer, wanted, selection);
  by(layer, make_plan(layer, kept.wants(), selection), kept, threads);
  return kept;
}

Tensor with_batch_axis(const Layer& layer, const Tensor& value) {
  if (layer.dims.batched) return value;
  Shape shape = value.shape();
  shape.insert(shape.begin(), 1);
  return value.reshaped(std::move(shape));
}

Tensor whole_stage(const Layer& layer, Stage stage, std::size_t threads) {
  return with_batch_axis(layer, trace(layer, {stage}, {}, threads).value(stage));
}

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
