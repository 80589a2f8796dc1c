#include <mha/api/model_weights.hpp>

#include <fmt/format.h>

#include <utility>

namespace mha::api {

namespace {

/// The tensor called "name.weight" or "name.bias".
const Tensor* tensor_called(std::string_view called, std::string_view name, const Norm& norm) {
  if (called == fmt::format("{}.weight", name)) return &norm.weight;
  return called == fmt::format("{}.bias", name) ? &norm.bias : nullptr;
}

/// Likewise "name" and "name.bias".
const Tensor* tensor_called(std::string_view called, std::string_view name, const LinearMap& map) {
  if (called == name) return &map.W;
  return called == fmt::format("{}.bias", name) ? &map.b : nullptr;
}

constexpr std::pair<std::string_view, LinearMap FeedForward::*> maps[]{
    {"mlp.in", &FeedForward::in}, {"mlp.up", &FeedForward::up}, {"mlp.out", &FeedForward::out}};

constexpr std::pair<std::string_view, Norm TransformerBlock::*> norms[]{
    {"post_attention_norm", &TransformerBlock::post_attention_norm},
    {"pre_mlp_norm", &TransformerBlock::pre_mlp_norm},
    {"post_mlp_norm", &TransformerBlock::post_mlp_norm},
    {"post_block_norm", &TransformerBlock::post_block_norm}};

const Tensor* find_around_attention(const TransformerBlock& block, std::string_view called) {
  const FeedForward& mlp = block.mlp;
  if (called == "mlp.product_bias") return &mlp.product_bias;
  if (const Tensor* found = tensor_called(called, "mlp.inner_norm", mlp.inner)) return found;
  for (const auto& [name, member] : maps)
    if (const Tensor* found = tensor_called(called, name, mlp.*member)) return found;
  for (const auto& [name, member] : norms)
    if (const Tensor* found = tensor_called(called, name, block.*member)) return found;
  return nullptr;
}

const Tensor* find_at_ends(const WholeModel& model, std::string_view called) {
  const Embedding& embedding = model.embedding();
  const LinearMap& unembedding = model.head().decoder;
  for (const auto& [name, tensor] : {std::pair("W_E", &embedding.tokens),
                                     {"W_pos", &embedding.positions},
                                     {"W_U", &unembedding.W},
                                     {"b_U", &unembedding.b}})
    if (called == name) return tensor;
  for (const auto& [name, norm] :
       {std::pair("embedding_norm", &embedding.norm), {"final_norm", &model.last_norm()}})
    if (const Tensor* found = tensor_called(called, name, *norm)) return found;
  return nullptr;
}

} // namespace

std::optional<Tensor> weight_around_attention(const TransformerBlock* block,
                                              std::string_view name) {
  static const TransformerBlock none;
  const Tensor* const found = find_around_attention(block ? *block : none, name);
  return found ? std::optional(*found) : std::nullopt;
}

std::optional<Tensor> weight_of_ends(const WholeModel& model, std::string_view name) {
  const Tensor* const found = find_at_ends(model, name);
  return found ? std::optional(*found) : std::nullopt;
}

std::string_view names_of_ends() {
  return "W_E, W_pos, embedding_norm.weight, final_norm.weight, W_U, b_U";
}

} // namespace mha::api
