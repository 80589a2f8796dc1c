#include <mha/compare/streams.hpp>

#include <mha/layer/graph.hpp>

#include <algorithm>
#include <cstring>

namespace mha {

Layer with_stream(const Layer& layer, const Tensor& stream) {
  Layer edited = layer;
  const Tensor own =
      convert(stream, layer.dtype).reshaped({layer.dims.B, layer.dims.T, layer.dims.d_model});
  if (layer.ends) {
    auto ends = std::make_shared<ModelEnds>(*layer.ends);
    ends->stream = own;
    edited.ends = std::move(ends);
    return edited;
  }
  edited.X = own;
  edited.given[index_of(Stage::resid_pre)] = {};
  edited.given_set.remove(Stage::resid_pre);
  return edited;
}

bool PassContext::has_agreed(const Tensor& resid_pre) const {
  return agreed && agreed->dtype() == resid_pre.dtype() && agreed->count() == resid_pre.count() &&
         std::memcmp(agreed->raw(), resid_pre.raw(),
                     resid_pre.count() * size_of(resid_pre.dtype())) == 0;
}

std::optional<Tensor> ReferenceStream::before(const Reference& reference) const {
  if (const ReferenceStage* own = reference.find(Stage::resid_pre); own && !own->in_part)
    return own->value;
  return output_before_;
}

namespace {

/// residual + the feed-forward's result, if a reference has both.
std::optional<Tensor> sum_of_parts(const Layer& layer, const Reference& reference) {
  if (!layer.block ||
      (layer.block->shape != BlockShape::pre && layer.block->shape != BlockShape::sandwich) ||
      layer.block->stream_scale != 1 || layer.block->supplement.present())
    return std::nullopt;
  const ReferenceStage *residual = reference.find(Stage::residual),
                       *added = reference.find(
                           layer.block->shape == BlockShape::pre ? Stage::mlp_out : Stage::mlp_add);
  if (!residual || !added || residual->in_part || added->in_part) return std::nullopt;
  Tensor sum(DType::f64, residual->value.shape());
  for (std::size_t i = 0; i < sum.count(); ++i)
    sum.as_mutable<double>()[i] = value_at(residual->value, i) + value_at(added->value, i);
  return sum;
}

} // namespace

void ReferenceStream::pass(const Layer& layer, const Reference& reference) {
  const ReferenceStage* next = reference.find(Stage::resid_post);
  output_before_ = next && !next->in_part ? std::optional(next->value) : std::nullopt;
  if (!next) output_before_ = sum_of_parts(layer, reference);
}

void judge_alone(const Layer& layer, const Reference& reference,
                 const std::optional<Tensor>& stream, const Tolerances& tolerances,
                 std::size_t threads, Diff& found) {
  const Diff alone =
      diff(stream ? with_stream(layer, *stream) : layer, reference, tolerances, threads);
  bool known = stream.has_value();
  for (const StageDiff& row : alone.stages) {
    const auto same = std::ranges::find_if(
        found.stages, [&](const StageDiff& one) { return one.stage == row.stage; });
    if (same == found.stages.end()) continue;
    const bool agrees = row.status == DiffStatus::equal || row.status == DiffStatus::close;
    const bool decides = stream || (row.recomputed && !row.from.empty());
    const bool wrong = decides && !agrees && row.own != false;
    if (decides) same->own = wrong, same->from = row.from, same->recomputed = row.recomputed;
    // embed is judged with the model's ends, last, but comes first: layer 0's input has shown it.
    if (wrong && (!found.by_itself || found.by_itself == Stage::embed)) found.by_itself = row.stage;
    known = known || wrong;
  }
  if (known) found.sound = !found.by_itself;
}

} // namespace mha
