#pragma once
// Weights of a model beside those of attention, by name.

#include <mha/load/whole_model.hpp>

#include <optional>
#include <string_view>

namespace mha::api {

/// The feed-forward's and the norms' of a layer: "mlp.in" (d_model, d_ff), "mlp.in.bias",
/// "pre_mlp_norm.weight" …; empty where the layer has no such weight, none where there is no such
/// name.
std::optional<Tensor> weight_around_attention(const TransformerBlock* block, std::string_view name);
/// The embedding's and the head's: "W_E" (vocabulary, d_model), as its table lies, "W_pos",
/// "final_norm.weight", "W_U" (d_model, vocabulary), "b_U" …; else as above.
std::optional<Tensor> weight_of_ends(const WholeModel& model, std::string_view name);
/// Their names, for messages.
std::string_view names_of_ends();

} // namespace mha::api
