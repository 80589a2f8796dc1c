// Weights of a model by name, and models with one exchanged.

#include <mha/api/model_state.hpp>
#include <mha/api/visit.hpp>
#include <mha/api/wishes.hpp>
#include <mha/layer/members.hpp>
#include <mha/layer/names.hpp>
#include <mha/load/layer_source.hpp>
#include <mha/load/whole_model.hpp>
#include <mha/observe/not_finite.hpp>

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace mha {

namespace {

/// The tensor called "name.weight" or "name.bias".
const Tensor* tensor_called(std::string_view called, std::string_view name, const Norm& norm) {
  if (called == fmt::format("{}.weight", name)) return &norm.weight;
  return called == fmt::format("{}.bias", name) ? &norm.bias : nullptr;
}

/// The tensor called "name" or "name.bias".
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

/// The feed-forward's and the norms' of a layer: "mlp.in" (d_model, d_ff), "mlp.in.bias",
/// "pre_mlp_norm.weight" …; empty where the layer has no such weight, none where there is no such
/// name.
std::optional<Tensor> weight_around_attention(const TransformerBlock* block,
                                              std::string_view name) {
  static const TransformerBlock none;
  const Tensor* const found = find_around_attention(block ? *block : none, name);
  return found ? std::optional(*found) : std::nullopt;
}

/// The embedding's and the head's: "W_E" (vocabulary, d_model), as its table is stored, "W_pos",
/// "final_norm.weight", "W_U" (d_model, vocabulary), "b_U" …; else as above.
std::optional<Tensor> weight_of_ends(const WholeModel& model, std::string_view name) {
  const Tensor* const found = find_at_ends(model, name);
  return found ? std::optional(*found) : std::nullopt;
}

/// Their names, for messages.
std::string_view names_of_ends() {
  return "W_E, W_pos, embedding_norm.weight, final_norm.weight, W_U, b_U";
}

/// The name without "layers.3.". A name of another tool may have a dot too: norm.weight.
std::string without_layer(std::string_view name) {
  std::string typed(name);
  if (layers_of_place(name, name).names_layer())
    typed.erase(0, typed.find('.', typed.find('.') + 1) + 1);
  return typed;
}

/// The layer of "layers.3.W_q", and the tensor's canonical name or its name around attention.
std::pair<std::size_t, std::string> layer_and_tensor(const Model::State& model,
                                                     std::string_view name) {
  if (name.empty()) fail("no weight is named: layers.3.W_q is one");
  const PlaceLayers named = api::layers_named(name, model.layers());
  const std::string typed = without_layer(name);
  const bool around = weight_around_attention(nullptr, typed).has_value();
  if (!around && find_stage(typed) && !find_tensor_name(typed))
    fail("{}: {} is a stage, not a weight: a run keeps it, or patches it", name, typed);
  if (!around && !named.names_layer() && canonical_name(typed, true).empty())
    fail("{}: the model has no weight of this name: {}, or of a layer, layers.0.W_q or "
         "layers.0.mlp.in",
         name, names_of_ends());
  const std::string tensor = around ? typed : bound_name(std::string(name), typed, true);
  const bool one = named.layers && named.layers->first == named.layers->second;
  if (!one && (model.layers() != 1 || named.every_layer))
    fail("{}: of which layer? Give it as layers.0.{}", name, tensor);
  return {one ? named.layers->first : 0, tensor};
}

} // namespace

Tensor Model::weight(std::string_view name) const {
  return api::visiting([&] {
    const WholeModel& model = state_->weights->model();
    if (const std::optional<Tensor> found = weight_of_ends(model, name)) {
      if (found->empty()) fail("{}: the model has none", name);
      return convert(*found, dtype()).read_only();
    }
    const auto [n, tensor] = layer_and_tensor(*state_, name);
    const Layer layer = state_->layer_of_one_token(n);
    Tensor found;
    if (const auto around = weight_around_attention(layer.block.get(), tensor))
      if (!around->empty()) return convert(*around, dtype()).read_only();
    each_part_of_layer(layer, [&, &wanted = tensor](std::string_view part, const auto& value) {
      if constexpr (std::same_as<std::remove_cvref_t<decltype(value)>, Tensor>)
        if (part == wanted) found = value;
    });
    if (found.empty() || tensor == "X") fail("{}: layer {} has no {}", name, n, tensor);
    return found.read_only();
  });
}

Model Model::with(std::string_view name, Tensor weight) const {
  return api::visiting([&] {
    if (weight_of_ends(state_->weights->model(), name))
      fail("{}: weights of attention are exchanged, layers.N.W_q; what it makes, embed, final and "
           "logits, is patched in a run",
           name);
    const auto [n, tensor] = layer_and_tensor(*state_, name);
    if (weight_around_attention(nullptr, tensor))
      fail("{}: weights of attention are exchanged, layers.N.W_q; what it makes, a stage of the "
           "layer, is patched in a run",
           name);
    if (tensor == "X") fail("{}: a weight of a layer expected, layers.N.W_q", name);
    (void)state_->layer_of_one_token(n).with(tensor, weight); // throws Error where it does not fit
    auto changed = std::make_shared<State>(*state_);
    if (const std::string found = not_finite_in(weight); !found.empty())
      changed->doubts.push_back(
          warning(fmt::format("{} has {}: everything computed from them is lost", name, found)));
    changed->edits.push_back({.name = tensor, .tensor = std::move(weight), .layer = n});
    changed->take_one_token();
    return Model(std::move(changed));
  });
}

} // namespace mha
