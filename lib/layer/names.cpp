#include <mha/layer/names.hpp>

#include <mha/layer/stage.hpp>
#include <mha/layer/words.hpp>

#include <unordered_map>

namespace mha {

namespace {

// clang-format off
const TensorInfo tensor_table[] = {
  {"X", "BTC", "(B,) T, d_model", "the input; queries come from it", "hidden_states input inputs", true},
  {"X_kv", "BSC", "(B,) S, d_in", "the source of keys and values where it is not X", "encoder_hidden_states memory", true},
  {"X_k", "BSC", "(B,) S, d_in", "the source of keys alone", "", true},
  {"X_v", "BSC", "(B,) S, d_in", "the source of values alone", "", true},
  {"W_q", "HIO", "d_in, H·d_k or H, d_in, d_k", "projects to queries: X W_q", "Wq w_q W_query", true},
  {"W_k", "HIO", "d_in, H_kv·d_k or H_kv, d_in, d_k", "projects to keys", "Wk w_k W_key", true},
  {"W_v", "HIO", "d_in, H_kv·d_v or H_kv, d_in, d_v", "projects to values", "Wv w_v W_value", true},
  {"W_o", "HIO", "H·d_v, d_model or H, d_v, d_model", "projects the concatenated heads to the output", "Wo w_o W_out W_output", true},
  {"b_q", "HO", "H·d_k or H, d_k", "bias of the queries", "bq b_query"},
  {"b_k", "HO", "H_kv·d_k or H_kv, d_k", "bias of the keys", "bk b_key"},
  {"b_v", "HO", "H_kv·d_v or H_kv, d_v", "bias of the values", "bv b_value"},
  {"b_o", "O", "d_model", "bias of the output", "bo b_out b_output"},
  {"W_qkv", "IO", "d_in, all widths", "queries', keys' and values' projections in one; --qkv-order says how", "Wqkv w_qkv", true},
  {"b_qkv", "O", "all widths", "their biases in one", "bqkv"},
  {"norm.weight", "C", "d_model", "weight of the normalisation before the layer (input_norm)", ""},
  {"norm.bias", "C", "d_model", "its bias", ""},
  {"Q", "BTC", "(B,) T, H·d_k", "queries, packed: start after the projections", "", true},
  {"K", "BSC", "(B,) S, H_kv·d_k", "keys, packed", "", true},
  {"V", "BSC", "(B,) S, H_kv·d_v", "values, packed", "", true},
  {"k_past", "BHSD", "(B,) H_kv, P, d_k", "earlier keys, put before the current ones", "past_key", true},
  {"v_past", "BHSD", "(B,) H_kv, P, d_v", "earlier values", "past_value", true},
  {"k_extra", "HO", "H_kv·d_k", "one learned extra key at the end", ""},
  {"v_extra", "HO", "H_kv·d_v", "one learned extra value at the end", ""},
  {"mask", "BHTS", "broadcastable to B, H, T, S", "float: added; boolean: true = may attend", "attn_mask", true},
  {"block_mask", "BHTS", "broadcastable to B, H, T, S", "boolean: true = may not attend", "", true},
  {"key_padding_mask", "BS", "B, S or B, S_all", "boolean: true = ignore that key", ""},
  {"attention_mask", "BS", "B, S or B, S_all", "1 = token, 0 = padding, as tokenizers give it", ""},
  {"kv_lengths", "B", "B", "number of valid keys", "nonpad_kv_seqlen"},
  {"bias", "BHTS", "broadcastable to B, H, T, S", "position bias, added before the mask", "", true},
  {"relative_bias", "IH", "buckets, H", "position bias by the distance's bucket, as in T5", ""},
  {"relative_key", "IO", "2M − 1, d_k", "a vector for every distance query − key, from −(M − 1) on: q · it is a position bias (Shaw et al., BERT)", "distance_embedding"},
  {"positions", "T", "T, or 3, T with mrope_section", "rotary positions of the tokens", "position_ids"},
  {"rope_short_factor", "C", "rope_dims / 2", "longrope: what the frequencies are divided by up to the original length", ""},
  {"rope_long_factor", "C", "rope_dims / 2", "longrope: and beyond it", ""},
  {"sinks", "H", "H", "one extra logit a head that joins the softmax and is dropped", ""},
  {"q_norm.weight", "HO", "d_k; H, d_k; or H·d_k", "weight of the queries' normalisation (qk_norm): one for all heads, one a head, or over all heads together", ""},
  {"k_norm.weight", "HO", "d_k; H_kv, d_k; or H_kv·d_k", "weight of the keys' normalisation", ""},
  {"q_norm.bias", "HO", "as q_norm.weight", "its bias, in a layer normalisation", ""},
  {"k_norm.bias", "HO", "as k_norm.weight", "its bias, in a layer normalisation", ""},
  {"W_q_a", "IO", "d_model, r_q", "latent attention: compresses the input for the queries; W_q expands", "", true},
  {"b_q_a", "O", "r_q", "its bias", ""},
  {"q_a_norm.weight", "C", "r_q", "weight of the RMS normalisation between", ""},
  {"W_kv_a", "IO", "d_model, r_kv + d_pe", "latent attention: compresses the input for keys and values; behind, the part of the key that all heads share", "", true},
  {"b_kv_a", "O", "r_kv + d_pe", "its bias", ""},
  {"kv_a_norm.weight", "C", "r_kv", "weight of the RMS normalisation of the compressed ones", ""},
  {"W_kv_b", "IO", "r_kv, H·(d_k − d_pe + d_v)", "expands them: of each head its key without the shared part, then its value", "", true},
};
// clang-format on

} // namespace

std::span<const TensorInfo> tensor_names() {
  return tensor_table;
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

std::string axes_of(std::string_view name) {
  if (const TensorInfo* info = find_tensor_name(name)) return std::string(info->axes);
  const std::optional<Stage> stage = find_stage(name);
  if (!stage) return "";
  std::string axes = "B";
  const StageInfo& info = info_of(*stage);
  const bool with_heads =
      axis_of(info.letters[0]) == Axis::head || axis_of(info.letters[0]) == Axis::kv_head;
  for (Dim letter : info.letters) {
    switch (axis_of(letter)) {
    case Axis::head:
    case Axis::kv_head:
      axes += 'H';
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
