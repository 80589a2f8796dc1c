#include <mha/layer/names.hpp>

#include <mha/layer/layer.hpp>
#include <mha/system/named.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <iterator>
#include <unordered_map>

namespace mha {

namespace {

using enum Dim;
using enum TensorRole;
using L = LayerTensors; // of which each is a row

const TensorForm batch_heads_queries_keys{B, H, T, S};

// clang-format off
const std::vector<TensorInfo> tensor_table{
  {"X", input, "BTC", {{T, d_model}}, "the input; queries come from it", "hidden_states input inputs", true,
   {.member = &L::X, .readers = {Stage::resid_pre, Stage::x, Stage::residual}}},
  {"X_kv", input, "BSC", {{S, d_in}}, "the source of keys and values where it is not X", "encoder_hidden_states memory", true},
  {"X_k", input, "BSC", {{S, d_in}}, "the source of keys alone", "", true, {.member = &L::X_k, .readers = {Stage::k}}},
  {"X_v", input, "BSC", {{S, d_in}}, "the source of values alone", "", true, {.member = &L::X_v, .readers = {Stage::v}}},
  {"W_q", weight, "HIO", {{d_in, by(H, d_k)}, {H, d_in, d_k}}, "projects to queries: X W_q", "Wq w_q W_query", true,
   {.member = &L::W_q, .readers = {Stage::q}, .can_be_added = true}},
  {"W_k", weight, "HIO", {{d_in, by(H_kv, d_k)}, {H_kv, d_in, d_k}}, "projects to keys", "Wk w_k W_key", true,
   {.member = &L::W_k, .readers = {Stage::k}, .can_be_added = true}},
  {"W_v", weight, "HIO", {{d_in, by(H_kv, d_v)}, {H_kv, d_in, d_v}}, "projects to values", "Wv w_v W_value", true,
   {.member = &L::W_v, .readers = {Stage::v}, .can_be_added = true}},
  {"W_o", weight, "HIO", {{by(H, d_v), d_out}, {H, d_v, d_out}}, "projects the concatenated heads to the output", "Wo w_o W_out W_output", true,
   {.member = &L::W_o, .readers = {Stage::head_result, Stage::output}, .can_be_added = true}},
  {"b_q", weight, "HO", {{by(H, d_k)}, {H, d_k}}, "bias of the queries", "bq b_query", false,
   {.member = &L::b_q, .readers = {Stage::q}, .can_be_added = true}},
  {"b_k", weight, "HO", {{by(H_kv, d_k)}, {H_kv, d_k}}, "bias of the keys", "bk b_key", false,
   {.member = &L::b_k, .readers = {Stage::k}, .can_be_added = true}},
  {"b_v", weight, "HO", {{by(H_kv, d_v)}, {H_kv, d_v}}, "bias of the values", "bv b_value", false,
   {.member = &L::b_v, .readers = {Stage::v}, .can_be_added = true}},
  {"b_o", weight, "O", {{d_out}}, "bias of the output", "bo b_out b_output", false,
   {.member = &L::b_o, .readers = {Stage::output}, .can_be_added = true}},
  {"W_qkv", weight, "IO", {{d_in, widths}}, "queries', keys' and values' projections in one; qkv_order says how", "Wqkv w_qkv", true},
  {"b_qkv", weight, "O", {{widths}}, "their biases in one", "bqkv"},
  {"norm.weight", weight, "C", {{d_model}}, "weight of the normalisation before the layer (input_norm)", "", false,
   {.member = &L::norm_weight, .readers = {Stage::x}, .can_be_added = true}},
  {"norm.bias", weight, "C", {{d_model}}, "its bias", "", false,
   {.member = &L::norm_bias, .readers = {Stage::x}, .can_be_added = true}},
  {"Q", packed, "BTC", {{T, by(H, d_k)}}, "queries, packed: start after the projections", "", true},
  {"K", packed, "BSC", {{S, by(H_kv, d_k)}}, "keys, packed", "", true},
  {"V", packed, "BSC", {{S, by(H_kv, d_v)}}, "values, packed", "", true},
  {"k_past", past, "BHSD", {{H_kv, P, d_k}}, "earlier keys, put before the current ones", "past_key", true,
   {.member = &L::k_past, .readers = {Stage::k_all}}},
  {"v_past", past, "BHSD", {{H_kv, P, d_v}}, "earlier values", "past_value", true,
   {.member = &L::v_past, .readers = {Stage::v_all}}},
  {"k_extra", weight, "HO", {{by(H_kv, d_k)}, {H_kv, d_k}}, "one learned extra key at the end", "", false,
   {.member = &L::k_extra, .readers = {Stage::k_all}}},
  {"v_extra", weight, "HO", {{by(H_kv, d_v)}, {H_kv, d_v}}, "one learned extra value at the end", "", false,
   {.member = &L::v_extra, .readers = {Stage::v_all}}},
  {"mask", mask, "BHTS", {batch_heads_queries_keys}, "float: added; boolean: true = may attend", "attn_mask", true},
  {"block_mask", mask, "BHTS", {batch_heads_queries_keys}, "boolean: true = may not attend", "", true},
  {"key_padding_mask", mask, "BS", {{B, S}}, "boolean: true = ignore that key; of the current keys, or of all", ""},
  {"attention_mask", mask, "BS", {{B, S}}, "1 = token, 0 = padding, as tokenizers give it; of the current keys, or of all", ""},
  {"kv_lengths", lengths, "B", {{B}}, "number of valid keys", "nonpad_kv_seqlen"},
  {"bias", bias, "BHTS", {batch_heads_queries_keys}, "position bias, added before the mask", "", true},
  {"relative_bias", weight, "IH", {{buckets, H}}, "position bias by the distance's bucket, as in T5", "", false,
   {.member = &L::relative_bias}},
  {"relative_key", weight, "IO", {{distances, d_k}}, "a vector for every distance query − key, from −(M − 1) on: q · it is a position bias (Shaw et al., BERT)", "distance_embedding", false,
   {.member = &L::relative_key}},
  {"positions", positions, "T", {{T}, {three, T}}, "rotary positions of the tokens; three rows of them with mrope_section", "position_ids", false,
   {.member = &L::positions, .readers = {Stage::q_rope, Stage::k_rope}, .can_be_added = true, .keeps_form = true, .in_double = true}},
  {"rope_short_factor", weight, "C", {{rope_pairs}}, "longrope: what the frequencies are divided by up to the original length", "", false,
   {.member = &L::rope_short_factor, .in_double = true}},
  {"rope_long_factor", weight, "C", {{rope_pairs}}, "longrope: and beyond it", "", false,
   {.member = &L::rope_long_factor, .in_double = true}},
  {"sinks", weight, "H", {{H}}, "one extra logit a head that joins the softmax and is dropped", "", false,
   {.member = &L::sinks, .can_be_added = true}},
  {"q_norm.weight", weight, "HO", {{d_k}, {H, d_k}, {by(H, d_k)}}, "weight of the queries' normalisation (qk_norm): one for all heads, one a head, or over all heads together", "", false,
   {.member = &L::q_norm_weight, .readers = {Stage::q_norm}, .can_be_added = true, .keeps_form = true}},
  {"k_norm.weight", weight, "HO", {{d_k}, {H_kv, d_k}, {by(H_kv, d_k)}}, "weight of the keys' normalisation", "", false,
   {.member = &L::k_norm_weight, .readers = {Stage::k_norm}, .can_be_added = true, .keeps_form = true}},
  {"q_norm.bias", weight, "HO", {{d_k}, {H, d_k}, {by(H, d_k)}}, "its bias, in a layer normalisation", "", false,
   {.member = &L::q_norm_bias, .readers = {Stage::q_norm}, .keeps_form = true}},
  {"k_norm.bias", weight, "HO", {{d_k}, {H_kv, d_k}, {by(H_kv, d_k)}}, "its bias, in a layer normalisation", "", false,
   {.member = &L::k_norm_bias, .readers = {Stage::k_norm}, .keeps_form = true}},
  {"W_q_a", weight, "IO", {{d_in, r_q}}, "latent attention: compresses the input for the queries; W_q expands", "", true,
   {.member = &L::W_c_q, .readers = {Stage::c_q}}},
  {"b_q_a", weight, "O", {{r_q}}, "its bias", "", false, {.member = &L::b_c_q, .readers = {Stage::c_q}}},
  {"q_a_norm.weight", weight, "C", {{r_q}}, "weight of the RMS normalisation between", "", false,
   {.member = &L::c_q_norm_weight, .readers = {Stage::c_q}}},
  {"W_kv_a", weight, "IO", {{d_in, r_kv_d_pe}}, "latent attention: compresses the input for keys and values; behind, the part of the key that all heads share", "", true},
  {"b_kv_a", weight, "O", {{r_kv_d_pe}}, "its bias", ""},
  {"kv_a_norm.weight", weight, "C", {{r_kv}}, "weight of the RMS normalisation of the compressed ones", "", false,
   {.member = &L::c_kv_norm_weight, .readers = {Stage::c_kv}}},
  {"W_kv_b", weight, "IO", {{r_kv, keys_values}}, "expands them: of each head its key without the shared part, then its value", ""},
};

// What W_kv_a and b_kv_a are split into; files do not name them.
const std::vector<TensorInfo> split_tensors{
  {"W_c_kv", weight, "IO", {{d_in, r_kv}}, "", "", true, {.member = &L::W_c_kv, .readers = {Stage::c_kv}}},
  {"W_k_pe", weight, "IO", {{d_in, d_pe}}, "", "", true, {.member = &L::W_k_pe, .readers = {Stage::k_pe}}},
  {"b_c_kv", weight, "O", {{r_kv}}, "", "", false, {.member = &L::b_c_kv, .readers = {Stage::c_kv}}},
  {"b_k_pe", weight, "O", {{d_pe}}, "", "", false, {.member = &L::b_k_pe, .readers = {Stage::k_pe}}},
};

// Of layers that are read and not computed, by kind; of several that a layer has the first says what it is.
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
  {"head_norm.weight", weight, "C", {{d_v}, {by(H, d_v)}}, "weight of the norm behind the heads", "", false, {}, "has a norm behind its heads"},
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
    TensorInfo row = *find_named(tensor_table, name);
    row.axes = "IO", row.forms = {form}, row.in_layer = {};
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<TensorInfo> rows_with_member() {
  std::vector<TensorInfo> rows;
  for (const auto* table : {&tensor_table, &split_tensors})
    std::ranges::copy_if(*table, std::back_inserter(rows),
                         [](const TensorInfo& info) { return info.in_layer.member; });
  return rows;
}

} // namespace

std::span<const TensorInfo> tensor_names() {
  return tensor_table;
}

std::span<const TensorInfo> tensors_of_kinds() {
  static const std::vector<TensorInfo> rows = rows_of_kinds();
  return rows;
}

std::span<const TensorInfo> layer_tensors() {
  static const std::vector<TensorInfo> rows = rows_with_member();
  return rows;
}

const TensorInfo* find_tensor_name(std::string_view name) {
  static const auto by_word = [] {
    std::unordered_map<std::string_view, const TensorInfo*> map;
    for (const TensorInfo& info : tensor_table) {
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

std::string axes_of(std::string_view name) {
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
