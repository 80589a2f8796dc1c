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
// Of layers that are read and not computed, by kind; a layer is of the kind of the first that it has.
constexpr std::string_view recurrent = "is recurrent", convolution = "is a short convolution", gate = "has gated heads",
                           indexer = "chooses its keys by an indexer";
const std::vector<TensorInfo> kind_table{
  {"A_log", weight, "H", {{H}, {by(H, d_k)}}, "logarithm of the decay's rate", "", false, {}, recurrent},
  {"dt_bias", weight, "H", {{H}, {by(H, d_k)}}, "added to what the decay is made of", "", false, {}, recurrent},
  {"D", weight, "H", {{H}, {by(H, d_v)}}, "how much of a value skips the state", "", false, {}, recurrent},
  {"W_beta", weight, "IO", {{d_model, H}}, "how much of a value is written into the state; dt of Mamba-2", "", false, {}, recurrent},
  {"b_beta", weight, "O", {{H}}, "its bias", "", false, {}, recurrent},
  {"W_decay", weight, "IO", {{d_model, H}, {d_model, by(H, d_k)}}, "the state's decay", "", false, {}, recurrent},
  {"b_decay", weight, "O", {{H}, {by(H, d_k)}}, "its bias", "", false, {}, recurrent},
  {"W_decay_a", weight, "IO", {{d_model, widths}}, "the same as two maps: the first", "", false, {}, recurrent},
  {"W_decay_b", weight, "IO", {{widths, by(H, d_k)}}, "and the second", "", false, {}, recurrent},
  {"conv_q", weight, "CI", {{by(H_qk, d_k), taps}}, "short causal convolution of queries; the last tap is the current token", "", false, {}, convolution},
  {"conv_q.bias", weight, "C", {{by(H_qk, d_k)}}, "its bias", "", false, {}, convolution},
  {"conv_k", weight, "CI", {{by(H_qk, d_k), taps}}, "short causal convolution of keys; the last tap is the current token", "", false, {}, convolution},
  {"conv_k.bias", weight, "C", {{by(H_qk, d_k)}}, "its bias", "", false, {}, convolution},
  {"conv_v", weight, "CI", {{by(H, d_v), taps}}, "short causal convolution of values; the last tap is the current token", "", false, {}, convolution},
  {"conv_v.bias", weight, "C", {{by(H, d_v)}}, "its bias", "", false, {}, convolution},
  {"W_gate", weight, "IO", {{d_model, by(H, d_v)}, {d_model, H}}, "gate of the heads' outputs", "", false, {}, gate},
  {"b_gate", weight, "O", {{by(H, d_v)}, {H}}, "its bias", "", false, {}, gate},
  {"W_gate_a", weight, "IO", {{d_model, widths}}, "the same as two maps: the first", "", false, {}, gate},
  {"W_gate_b", weight, "IO", {{widths, by(H, d_v)}}, "and the second", "", false, {}, gate},
  {"head_norm.weight", weight, "C", {{d_v}, {by(H, d_v)}}, "weight of the norm after the heads", "", false, {}, "has a norm after its heads"},
  {"v_norm.weight", weight, "C", {{d_v}, {by(H, d_v)}}, "weight of the values' norm", "", false, {}, "has a norm of its values"},
  {"index.W_q", weight, "IO", {{widths, by(H_I, d_I)}}, "the indexer's queries", "", false, {}, indexer},
  {"index.W_k", weight, "IO", {{d_model, d_I}}, "the indexer's keys", "", false, {}, indexer},
  {"index.k_norm.weight", weight, "C", {{d_I}}, "weight of the norm of the indexer's keys", "", false, {}, indexer},
  {"index.k_norm.bias", weight, "C", {{d_I}}, "its bias", "", false, {}, indexer},
  {"index.W_weights", weight, "IO", {{d_model, H_I}}, "how much each of the indexer's heads counts", "", false, {}, indexer},
  {"W_router", weight, "IO", {{d_model, E}}, "logits of the experts", "", false, {}, mixture_kind},
  {"b_router", weight, "O", {{E}}, "its bias", "", false, {}, mixture_kind},
  {"router_bias", weight, "O", {{E}}, "added to an expert's score to choose it, not to weigh it", "", false, {}, mixture_kind},
  {"experts.in", weight, "EIO", {{E, d_model, I}}, "the experts' first map; the gate of gated ones", "", false, {}, mixture_kind},
  {"experts.up", weight, "EIO", {{E, d_model, I}}, "the other factor of gated experts", "", false, {}, mixture_kind},
  {"experts.out", weight, "EIO", {{E, I, d_model}}, "the experts' second map", "", false, {}, mixture_kind},
  {"experts.in.bias", weight, "EO", {{E, I}}, "its bias", "", false, {}, mixture_kind},
  {"experts.up.bias", weight, "EO", {{E, I}}, "its bias", "", false, {}, mixture_kind},
  {"experts.out.bias", weight, "EO", {{E, d_model}}, "its bias", "", false, {}, mixture_kind},
  {"shared.in", weight, "IO", {{d_model, I_shared}}, "the shared experts' first map, or their gate", "", false, {}, mixture_kind},
  {"shared.up", weight, "IO", {{d_model, I_shared}}, "the other factor of gated ones", "", false, {}, mixture_kind},
  {"shared.out", weight, "IO", {{I_shared, d_model}}, "the shared experts' second map", "", false, {}, mixture_kind},
  {"W_shared_gate", weight, "IO", {{d_model, widths}}, "gate of the shared experts' result", "", false, {}, mixture_kind},
};

// What recurrent layers share with others has its own shape there, H being the states. Of Mamba-2 C is W_q, B W_k and
// x W_v.
const std::pair<std::string_view, TensorForm> recurrent_forms[]{
  {"W_q", {d_model, by(H_qk, d_k)}}, {"W_k", {d_model, by(H_qk, d_k)}}, {"W_v", {d_model, by(H, d_v)}}, {"W_o", {by(H, d_v), d_out}},
};
// clang-format on

/// Those of recurrent layers that others have, too, follow the table's.
std::vector<TensorInfo> rows_of_kinds() {
  std::vector<TensorInfo> rows = kind_table;
  for (const auto& [name, form] : recurrent_forms) {
    TensorInfo row = *find_named(tensor_names(), name);
    row.axes = "IO", row.forms = {form}, row.in_layer = {};
    rows.push_back(std::move(row));
  }
  return rows;
}

} // namespace

std::span<const TensorInfo> tensors_of_kinds() {
  static const std::vector<TensorInfo> rows = rows_of_kinds();
  return rows;
}

const TensorInfo* find_tensor_name(std::string_view name) {
  static const auto by_word = [] {
    std::unordered_map<std::string_view, const TensorInfo*> map;
    for (const TensorInfo& info : tensor_names()) {
      map.emplace(info.name, &info);
      for (std::string_view alias : words_of(info.aliases)) map.emplace(alias, &info);
    }
    return map;
  }();
  const auto found = by_word.find(name);
  return found == by_word.end() ? nullptr : found->second;
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
      axes += axes.ends_with('H') ? 'G' : 'H'; // heads beside heads
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
