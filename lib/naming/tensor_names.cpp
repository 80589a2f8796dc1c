#include <mha/naming/tensor_names.hpp>

#include <mha/naming/stage_names.hpp>
#include <mha/system/named.hpp>
#include <mha/system/words.hpp>

#include <unordered_map>

namespace mha {

namespace {

using enum Dim;
using enum TensorRole;

// clang-format off
// Tensors of layers that are read but not computed, with the layer's kind. A layer with several of
// them has the kind of the one listed first.
constexpr std::string_view recurrent = "is recurrent", convolution = "is a short convolution", gate = "has gated heads",
                           indexer = "chooses its keys with an indexer";
const std::vector<TensorInfo> kind_table{
  {"A_log", weight, "H", {{H}, {by(H, d_k)}}, "logarithm of the decay rate", "", false, {}, recurrent},
  {"dt_bias", weight, "H", {{H}, {by(H, d_k)}}, "added to the input of the decay", "", false, {}, recurrent},
  {"D", weight, "H", {{H}, {by(H, d_v)}}, "factor of the values that skip the state", "", false, {}, recurrent},
  {"W_beta", weight, "IO", {{d_model, H}}, "how much of a value is written into the state; Mamba-2's dt", "", false, {}, recurrent},
  {"b_beta", weight, "O", {{H}}, "bias of W_beta", "", false, {}, recurrent},
  {"W_decay", weight, "IO", {{d_model, H}, {d_model, by(H, d_k)}}, "projects to the decay of the state", "", false, {}, recurrent},
  {"b_decay", weight, "O", {{H}, {by(H, d_k)}}, "bias of W_decay", "", false, {}, recurrent},
  {"W_decay_a", weight, "IO", {{d_model, widths}}, "first map of a W_decay of low rank", "", false, {}, recurrent},
  {"W_decay_b", weight, "IO", {{widths, by(H, d_k)}}, "second map of a W_decay of low rank", "", false, {}, recurrent},
  {"conv_q", weight, "CI", {{by(H_qk, d_k), taps}}, "short causal convolution of queries; the last tap is the current token", "", false, {}, convolution},
  {"conv_q.bias", weight, "C", {{by(H_qk, d_k)}}, "bias of conv_q", "", false, {}, convolution},
  {"conv_k", weight, "CI", {{by(H_qk, d_k), taps}}, "short causal convolution of keys; the last tap is the current token", "", false, {}, convolution},
  {"conv_k.bias", weight, "C", {{by(H_qk, d_k)}}, "bias of conv_k", "", false, {}, convolution},
  {"conv_v", weight, "CI", {{by(H, d_v), taps}}, "short causal convolution of values; the last tap is the current token", "", false, {}, convolution},
  {"conv_v.bias", weight, "C", {{by(H, d_v)}}, "bias of conv_v", "", false, {}, convolution},
  {"W_gate_a", weight, "IO", {{d_model, widths}}, "first map of a W_gate of low rank", "", false, {}, gate},
  {"W_gate_b", weight, "IO", {{widths, by(H, d_v)}}, "second map of a W_gate of low rank", "", false, {}, gate},
  {"index.W_q", weight, "IO", {{widths, by(H_I, d_I)}}, "projects to the queries of the indexer", "", false, {}, indexer},
  {"index.W_k", weight, "IO", {{d_model, d_I}}, "projects to the keys of the indexer", "", false, {}, indexer},
  {"index.k_norm.weight", weight, "C", {{d_I}}, "weight of the norm of the indexer's keys", "", false, {}, indexer},
  {"index.k_norm.bias", weight, "C", {{d_I}}, "bias of the norm of the indexer's keys", "", false, {}, indexer},
  {"index.W_weights", weight, "IO", {{d_model, H_I}}, "projects to the weight of each head of the indexer", "", false, {}, indexer},
  {"W_router", weight, "IO", {{d_model, E}}, "projects to the logits of the experts", "", false, {}, mixture_kind},
  {"b_router", weight, "O", {{E}}, "bias of W_router", "", false, {}, mixture_kind},
  {"router_bias", weight, "O", {{E}}, "added to the experts' scores when choosing experts, but not to their weights", "", false, {}, mixture_kind},
  {"expert_factors", weight, "O", {{E}}, "multiply the weight of each expert where it is chosen", "", false, {}, mixture_kind},
  {"experts.in", weight, "EIO", {{E, d_model, I}}, "the experts' first map; in gated experts, the gate", "", false, {}, mixture_kind},
  {"experts.up", weight, "EIO", {{E, d_model, I}}, "gated experts: the map that the gate multiplies", "", false, {}, mixture_kind},
  {"experts.out", weight, "EIO", {{E, I, d_model}}, "the experts' second map", "", false, {}, mixture_kind},
  {"experts.in.bias", weight, "EO", {{E, I}}, "bias of experts.in", "", false, {}, mixture_kind},
  {"experts.up.bias", weight, "EO", {{E, I}}, "bias of experts.up", "", false, {}, mixture_kind},
  {"experts.out.bias", weight, "EO", {{E, d_model}}, "bias of experts.out", "", false, {}, mixture_kind},
  {"shared.in", weight, "IO", {{d_model, I_shared}}, "the shared experts' first map; in gated ones, the gate", "", false, {}, mixture_kind},
  {"shared.up", weight, "IO", {{d_model, I_shared}}, "gated shared experts: the map that the gate multiplies", "", false, {}, mixture_kind},
  {"shared.out", weight, "IO", {{I_shared, d_model}}, "the shared experts' second map", "", false, {}, mixture_kind},
  {"W_shared_gate", weight, "IO", {{d_model, widths}}, "projects to the gate of the shared experts' result", "", false, {}, mixture_kind},
};

// Tensors that recurrent layers share with other layers, but with these shapes, in which H counts
// the states. Mamba-2 calls W_q C, W_k B and W_v x.
const std::pair<std::string_view, std::vector<TensorForm>> shapes_in_recurrent_layers[]{
  {"W_q", {{d_model, by(H_qk, d_k)}}}, {"W_k", {{d_model, by(H_qk, d_k)}}}, {"W_v", {{d_model, by(H, d_v)}}}, {"W_o", {{by(H, d_v), d_out}}},
  {"W_gate", {{d_model, by(H, d_v)}, {d_model, H}}}, {"b_gate", {{by(H, d_v)}, {H}}}, {"head_norm.weight", {{d_v}, {by(H, d_v)}}},
};
// clang-format on

/// The rows of kind_table, then those of the tensors that recurrent layers share with others.
std::vector<TensorInfo> make_rows_of_kinds() {
  std::vector<TensorInfo> rows = kind_table;
  for (const auto& [name, forms] : shapes_in_recurrent_layers) {
    TensorInfo row = *find_named(tensor_names(), name);
    row.forms = forms, row.in_layer = {};
    if (row.axes == "HIO") row.axes = "IO";
    rows.push_back(std::move(row));
  }
  return rows;
}

} // namespace

std::span<const TensorInfo> tensors_of_kinds() {
  static const std::vector<TensorInfo> rows = make_rows_of_kinds();
  return rows;
}

const TensorInfo* find_tensor_name(std::string_view name) {
  static const auto by_name_or_alias = [] {
    std::unordered_map<std::string_view, const TensorInfo*> map;
    for (const TensorInfo& info : tensor_names()) {
      map.emplace(info.name, &info);
      for (std::string_view alias : words_of(info.aliases)) map.emplace(alias, &info);
    }
    return map;
  }();
  const auto found = by_name_or_alias.find(name);
  return found == by_name_or_alias.end() ? nullptr : found->second;
}

const TensorInfo* find_tensor_of_kind(std::string_view name) {
  static const auto by_name = [] {
    std::unordered_map<std::string_view, const TensorInfo*> map;
    for (const TensorInfo& info : tensors_of_kinds()) map.emplace(info.name, &info);
    return map;
  }();
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : found->second;
}

std::string shape_text(const TensorInfo& info) {
  std::string text = info.has_batch() ? "(B,) " : "";
  if (info.axes == "BHTS" && !info.has_batch()) text = "broadcastable to ";
  for (const TensorForm& form : info.forms) {
    if (&form != &info.forms.front()) text += " or ";
    for (const Length& length : form)
      text += (&length == &form.front() ? "" : ", ") + text_of(length);
  }
  return text;
}

std::string axes_of_name(std::string_view name) {
  if (const TensorInfo* info = find_tensor_name(name)) return std::string(info->axes);
  std::optional<Stage> stage = find_stage(name);
  if (!stage) stage = find_derived(name);
  if (!stage) return "";
  std::string axes = "B";
  const StageInfo& info = info_of(*stage);
  const bool with_heads = begins_with_heads(*stage);
  for (Dim letter : info.letters) {
    switch (axis_of(letter)) {
    case Axis::head:
    case Axis::kv_head:
      axes += axes.ends_with('H') ? 'G' : 'H'; // a second axis of heads
      break;
    case Axis::query:
      axes += 'T';
      break;
    case Axis::key:
      axes += 'S';
      break;
    default:
      axes += with_heads && info.kind == Kind::token ? 'D' : 'C';
      break;
    }
  }
  return axes;
}

} // namespace mha
