#include <mha/model/part_logits.hpp>

#include <mha/model/frozen_norm.hpp>
#include <mha/observe/summary.hpp>
#include <mha/observe/trace.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

namespace {

bool is_part(Stage stage) {
  return stage == Stage::head_result || stage == Stage::output || stage == Stage::attn_add ||
         stage == Stage::mlp_out || stage == Stage::mlp_add || stage == Stage::layer_add;
}

const ModelHead& linear_head(const Layer& ends) {
  const ModelHead& head = ends.ends->head;
  if (!head.present())
    fail("<of>: the model has no head, so its parts add to no logit: its layers were saved alone");
  if (head.dense.present())
    fail("<of>: the model's head has a layer and a norm of its own after the stream; what a part "
         "adds to the logits is known for linear heads");
  return head;
}

/// row · W_U · scale, of rows in double.
std::vector<double> unembedded(const ModelHead& head, const DoubleRow& row) {
  const Tensor& W = head.decoder.W;
  const std::size_t d = W.shape()[0], V = W.shape()[1], together = 4096;
  std::vector<double> logits(V);
  for (std::size_t first = 0; first < V; first += together) {
    const std::size_t n = std::min(together, V - first);
    const Tensor part = convert(columns_when_read(W, first, n), DType::f64);
    const double* const w = part.as<double>().data();
    for (std::size_t i = 0; i < d; ++i)
      for (std::size_t j = 0; j < n; ++j) logits[first + j] += row[i] * w[i * n + j];
  }
  for (double& z : logits) z *= head.scale;
  return logits;
}

/// Throws Error for logits that have no order.
const std::vector<double>& require_numbers(const std::vector<double>& logits,
                                           const std::string& place, const std::string& at) {
  if (!has_softmax(logits))
    fail("<of> {}: what it writes{} is NaN or infinite: no token is promoted or suppressed by it; "
         "`info` names the tensor, `show <text> …` shows in which layer it begins",
         place, at);
  return logits;
}

/// The layer that a place names; the first for the embedding.
std::size_t layer_of(const TextLayers& layers, StagePlace place) {
  place.count_from_first(layers.count(), place.name);
  if (place.stage == Stage::embed) return 0;
  if (is_of_model(place.stage) || (!is_part(place.stage) && !is_stream(place.stage)))
    fail("<of> {}: a stage of the stream (embed, resid_pre, resid_post …) or a part of it "
         "(head_result, output, mlp_out) expected",
         place.name);
  if (!place.layers || place.layers->first != place.layers->second)
    fail("<of> {}: of which layer? Give it as layers.N.{}", place.name, name_of(place.stage));
  if (place.layers->first >= layers.count())
    fail("<of> {}: there is no layer {}: the layers are 0 to {}", place.name, place.layers->first,
         layers.count() - 1);
  return place.layers->first;
}

} // namespace

PartNorm norm_of_part(const StagePlace& place) {
  return is_part(place.stage) ? PartNorm::frozen : PartNorm::own;
}

std::vector<PartLogits> part_logits(const TextLayers& layers, const StagePlace& place,
                                    const std::vector<TextPosition>& positions,
                                    std::size_t threads) {
  const std::size_t n = layer_of(layers, place);
  Advance pass;
  pass.threads = threads;
  const Residual before = advance(layers, layers.embedded(), n, pass);
  const Layer layer = layers.layer(before);
  const Stage stage = place.stage == Stage::embed ? Stage::resid_pre : place.stage;
  const Tensor whole = trace(layer, {stage}, {}, threads).value(stage);
  std::vector<PartLogits> found;
  if (norm_of_part(place) == PartNorm::own) {
    const Layer ends = layers.ends(whole.reshaped(before.x.shape()));
    if (!ends.ends->head.present()) (void)linear_head(ends);
    const PredictionRows rows(ends, positions, threads);
    for (std::size_t i = 0; i < positions.size(); ++i)
      found.push_back({positions[i], std::nullopt,
                       require_numbers(rows[i].in_double(), place.name,
                                       fmt::format(" at position {}", positions[i].second))});
    return found;
  }
  const TransformerBlock& block = *layer.block;
  const bool of_attention = stage == Stage::head_result || stage == Stage::output;
  if (block.shape == BlockShape::post || block.post_block_norm.present())
    fail("<of> {}: the block normalises the sum, so that a part has no share of its own; stages of "
         "the stream (resid_post) have their logits",
         place.name);
  if ((of_attention && block.post_attention_norm.present()) ||
      (stage == Stage::mlp_out && block.post_mlp_norm.present()))
    fail("<of> {}: there is a norm between {} and the stream; what is added is {}", place.name,
         name_of(stage), of_attention ? "attn_add" : "mlp_add");
  const Residual last = advance(layers, before, layers.count(), pass);
  const Layer ends = layers.ends(last.x);
  const ModelHead& head = linear_head(ends);
  const Norm& norm = ends.ends->final;
  const std::size_t d = last.x.shape().back(), T = last.x.shape()[1];
  const bool with_heads = stage == Stage::head_result;
  const std::size_t H = with_heads ? layer.dims.H : 1;
  StagePlace heads = place;
  heads.axes.resize(std::min<std::size_t>(heads.axes.size(), 1));
  const std::vector<std::size_t> chosen =
      axes_of(heads, layer, stage, message("<of> {}", place.text())).heads;
  double factor = 1; // of the stream, from this layer on
  for (std::size_t m = n; m < layers.count(); ++m) factor *= layers.sized(m).block->stream_scale;
  for (const auto& at : positions)
    for (const std::size_t h : chosen) {
      const auto& [batch, position] = at;
      const NormStatistics statistics =
          statistics_of(norm, row_of(last.x, batch * T + position, d));
      DoubleRow part = row_of(whole, (batch * H + h) * T + position, d);
      for (double& number : part) number *= factor;
      found.push_back({at, with_heads ? std::optional(h) : std::nullopt,
                       require_numbers(unembedded(head, frozen(norm, statistics, part)), place.name,
                                       fmt::format("{} at position {}",
                                                   with_heads ? fmt::format(" in head {}", h) : "",
                                                   position))});
    }
  return found;
}

std::vector<double> vector_logits(const TextLayers& layers, const Tensor& vector) {
  const Layer ends = layers.ends(layers.embedded().x);
  const std::size_t d = ends.dims.d_model;
  if (vector.count() != d)
    fail("<of>: the file's tensor is {}: {} numbers expected, the width of the stream",
         to_string(vector.shape()), d);
  const Summary summary = summary_of(vector);
  if (summary.nan + summary.infinite > 0)
    fail("<of>: {} of the vector's {} numbers are NaN or infinite: no token is promoted or "
         "suppressed by it",
         summary.nan + summary.infinite, summary.count);
  return unembedded(linear_head(ends), frozen(ends.ends->final, {}, row_of(vector, 0, d)));
}

} // namespace mha
