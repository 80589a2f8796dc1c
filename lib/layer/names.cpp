#include <mha/layer/names.hpp>

#include <mha/layer/layer.hpp>

#include <algorithm>
#include <iterator>

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
  {"W_qkv", weight, "IO", {{d_in, widths}}, "queries', keys' and values' projections in one; their order is qkv_order", "Wqkv w_qkv", true},
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
  {"cu_seqlens", lengths, "C", {{B}}, "where each of B packed texts begins, then the end: keys of other texts are hidden", "cu_seqlens_q cu_seq_lens cu_seq_lens_q"},
  {"cu_seqlens_k", lengths, "C", {{B}}, "the same of the keys, where they differ", "cu_seqlens_kv cu_seq_lens_k"},
  {"bias", bias, "BHTS", {batch_heads_queries_keys}, "position bias, added before the mask", "", true},
  {"relative_bias", weight, "IH", {{buckets, H}}, "position bias by the distance's bucket, as in T5", "", false,
   {.member = &L::relative_bias}},
  {"relative_key", weight, "IO", {{distances, d_k}}, "a vector for every distance query − key, from −(M − 1) on: q · it is a position bias (Shaw et al., BERT)", "distance_embedding", false,
   {.member = &L::relative_key}},
  {"positions", positions, "T", {{T}, {three, T}}, "rotary positions of the tokens; three rows of them with mrope_section", "position_ids", false,
   {.member = &L::positions, .readers = {Stage::q_rope, Stage::k_rope, Stage::scaled}, .can_be_added = true, .keeps_form = true, .in_double = true}},
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
  {"v_norm.weight", weight, "HO", {{d_v}, {H_kv, d_v}, {by(H_kv, d_v)}}, "weight of an RMS normalisation of the values", "", false,
   {.member = &L::v_norm_weight, .readers = {Stage::v_norm}, .can_be_added = true, .keeps_form = true}},
  {"head_norm.weight", weight, "HO", {{d_v}, {H, d_v}, {by(H, d_v)}}, "weight of an RMS normalisation of head_out: one for all heads, one a head, or over all heads together", "", false,
   {.member = &L::head_norm_weight, .readers = {Stage::head_norm}, .can_be_added = true, .keeps_form = true}},
  {"W_gate", weight, "IO", {{d_in, by(H, d_gate)}}, "projects x to the gate of the heads' results: a number an element (H·d_v columns) or a head (H)", "", true,
   {.member = &L::W_gate, .readers = {Stage::gate}}},
  {"b_gate", weight, "O", {{by(H, d_gate)}}, "its bias", "", false,
   {.member = &L::b_gate, .readers = {Stage::gate}}},
  {"W_q_a", weight, "IO", {{d_in, r_q}}, "latent attention: compresses the input for the queries; W_q expands", "", true,
   {.member = &L::W_c_q, .readers = {Stage::c_q}}},
  {"b_q_a", weight, "O", {{r_q}}, "its bias", "", false, {.member = &L::b_c_q, .readers = {Stage::c_q}}},
  {"q_a_norm.weight", weight, "C", {{r_q}}, "weight of the RMS normalisation between", "", false,
   {.member = &L::c_q_norm_weight, .readers = {Stage::c_q}}},
  {"W_kv_a", weight, "IO", {{d_in, r_kv_d_pe}}, "latent attention: compresses the input for keys and values; the last columns are the part of the key that all heads share", "", true},
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
// clang-format on

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

std::span<const TensorInfo> layer_tensors() {
  static const std::vector<TensorInfo> rows = rows_with_member();
  return rows;
}

} // namespace mha
