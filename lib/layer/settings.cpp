#include <mha/layer/settings.hpp>

#include <mha/system/named.hpp>
#include <mha/system/parse.hpp>
#include <mha/system/words.hpp>

#include <array>
#include <cmath>
#include <utility>

namespace mha {

namespace {

[[noreturn]] void expected(std::string_view what) {
  throw Error(std::string(what) + " expected");
}

bool boolean(std::string_view text) {
  if (text == "true" || text == "1" || text == "True" || text == "yes" || text == "on") return true;
  if (text == "false" || text == "0" || text == "False" || text == "no" || text == "off")
    return false;
  expected("true or false");
}

double number(std::string_view text) {
  const std::optional<double> value = parse_number<double>(text);
  if (!value || !std::isfinite(*value)) expected("a number");
  return *value;
}

std::int64_t integer(std::string_view text) {
  const double value = number(text); // some writers have "4.0" for 4
  if (value != std::floor(value)) expected("a whole number");
  if (std::fabs(value) > 1e15) expected("a whole number up to 10^15");
  return static_cast<std::int64_t>(value);
}

std::size_t whole(std::string_view text) {
  const std::int64_t value = integer(text);
  if (value < 0) expected("a number that is not negative");
  return static_cast<std::size_t>(value);
}

/// A number of heads; "auto": as the tensors have.
std::size_t heads(std::string_view text) {
  if (text == "auto") return 0;
  const std::int64_t value = integer(text);
  if (value < 1) expected("a positive number");
  return static_cast<std::size_t>(value);
}

double not_negative(std::string_view text) {
  const double value = number(text);
  if (value < 0) expected("a number that is not negative");
  return value;
}

double positive(std::string_view text) {
  const double value = number(text);
  if (value <= 0) expected("a positive number");
  return value;
}

std::string text_of(bool value) {
  return value ? "true" : "false";
}
std::string text_of(double value) {
  return fmt::format("{}", value);
}
std::string text_of(std::size_t value) {
  return fmt::format("{}", value);
}
std::string text_of(std::int64_t value) {
  return fmt::format("{}", value);
}

/// The words of an enumeration, in the order of its values.
template <class E> struct Words;
template <> struct Words<InputNorm> {
  static constexpr std::array words{"none", "layer", "rms", "affine", "checkpoint"};
};
template <> struct Words<CausalAlign> {
  static constexpr std::array words{"auto", "top_left", "bottom_right"};
};
template <> struct Words<Rope> {
  static constexpr std::array words{"none", "half", "interleaved"};
};
template <> struct Words<RopeScaling> {
  static constexpr std::array words{"none", "linear", "llama3", "dynamic", "yarn", "longrope"};
};
template <> struct Words<QkNorm> { static constexpr std::array words{"rms", "layer"}; };
template <> struct Words<GateActivation> {
  static constexpr std::array words{"sigmoid", "softplus", "silu"};
};
template <> struct Words<Alibi> {
  static constexpr std::array words{"false", "true", "bloom", "falcon", "mpt"};
};
template <> struct Words<Softmax> { static constexpr std::array words{"stable", "naive"}; };
template <> struct Words<QkvOrder> {
  static constexpr std::array words{"qkv", "qvk", "kqv", "kvq", "vqk", "vkq", "per_group"};
};
template <> struct Words<MaskedRows> {
  static constexpr std::array words{"zero", "nan", "uniform"};
};

template <class E> E choice(std::string_view text) {
  const auto& words = Words<E>::words;
  const auto at = std::ranges::find(words, text);
  if (at == words.end()) expected("one of " + joined_texts(words, ", "));
  return static_cast<E>(at - words.begin());
}
template <class E> std::string word(E value) {
  const auto index = static_cast<std::size_t>(value);
  return index < Words<E>::words.size() ? Words<E>::words[index] : text_of(index);
}

void set_scale(Settings& s, std::string_view text) {
  if (text == "d_k")
    s.scale = ScaleKind::d_k;
  else if (text == "d_model")
    s.scale = ScaleKind::d_model;
  else if (text == "none")
    s.scale = ScaleKind::none;
  else {
    try {
      s.scale_value = number(text);
    } catch (const Error&) {
      expected("a number, d_k (1/√d_k), d_model (1/√d_model) or none (1)");
    }
    s.scale = ScaleKind::number;
  }
}
std::string get_scale(const Settings& s) {
  switch (s.scale) {
  case ScaleKind::d_k:
    return "d_k";
  case ScaleKind::d_model:
    return "d_model";
  case ScaleKind::none:
    return "none";
  case ScaleKind::number:
    return text_of(s.scale_value);
  }
  return fmt::format("ScaleKind({})", static_cast<int>(s.scale));
}

std::int64_t window(std::string_view text) {
  const std::int64_t value = integer(text);
  if (value < -1) expected("a number of keys, or -1 for no bound");
  return value;
}

/// A row whose setter parses with `Parse` and stores into `Member`.
template <auto Member, auto Parse> void store(Settings& s, std::string_view text) {
  s.*Member = Parse(text);
}
template <auto Member> std::string load(const Settings& s) {
  return text_of(s.*Member);
}
template <auto Member> std::string load_heads(const Settings& s) {
  return s.*Member == 0 ? "auto" : text_of(s.*Member);
}
template <auto Member> std::string load_word(const Settings& s) {
  return word(s.*Member);
}

/// "16,24,24": how many pairs turn by each of three rows of positions.
void set_sections(Settings& s, std::string_view text) {
  if (text == "none") {
    s.mrope_section = {};
    return;
  }
  const std::vector<std::string_view> sections = split_at(text, ',');
  if (sections.size() != s.mrope_section.size()) expected("three numbers, 16,24,24, or none");
  std::ranges::transform(sections, s.mrope_section.begin(), whole);
}
std::string get_sections(const Settings& s) {
  const auto& [t, h, w] = s.mrope_section;
  return t + h + w == 0 ? "none" : fmt::format("{},{},{}", t, h, w);
}

using S = Settings;
// clang-format off
const SettingInfo setting_table[] = {
  {"num_heads", SettingKind::count, "N", "number of query heads, H", "q_num_heads n_heads n_head nheads nhead heads num_attention_heads H", store<&S::num_heads, heads>, load_heads<&S::num_heads>},
  {"num_kv_heads", SettingKind::count, "N", "number of key/value heads, H_kv; H is a multiple of it", "kv_num_heads n_kv_heads kv_heads num_key_value_heads H_kv", store<&S::num_kv_heads, heads>, load_heads<&S::num_kv_heads>},
  {"scale", SettingKind::choice, "NUMBER|d_k|d_model|none", "what scores are multiplied by: d_k = 1/√d_k", "", set_scale, get_scale},
  {"input_norm", SettingKind::choice, "none|layer|rms|affine|checkpoint", "normalise X first; affine: X · norm.weight + norm.bias, as a batch norm in inference; checkpoint: as the model family does, with the layer's own weights", "", store<&S::input_norm, choice<InputNorm>>, load_word<&S::input_norm>},
  {"input_norm_eps", SettingKind::number, "NUMBER", "epsilon of input_norm", "", store<&S::input_norm_eps, not_negative>, load<&S::input_norm_eps>},
  {"causal", SettingKind::boolean, "", "a query attends to itself and what came before", "is_causal", store<&S::causal, boolean>, load<&S::causal>},
  {"causal_align", SettingKind::choice, "auto|top_left|bottom_right", "where the diagonal of causal and windows is when T ≠ S: from the first key, or to the last; auto: from the first current key, with kv_lengths to the last valid one", "", store<&S::causal_align, choice<CausalAlign>>, load_word<&S::causal_align>},
  {"window_left", SettingKind::integer, "L", "keys before the query that it may attend to (with its own, L + 1); -1 = all", "left_window_size", store<&S::window_left, window>, load<&S::window_left>},
  {"window_right", SettingKind::integer, "R", "keys after the query that it may attend to; -1 = all", "right_window_size", store<&S::window_right, window>, load<&S::window_right>},
  {"window_chunk", SettingKind::count, "N", "a query sees only the keys of its own chunk of N positions (Llama 4); 0 = all", "", store<&S::window_chunk, whole>, load<&S::window_chunk>},
  {"temperature", SettingKind::number, "NUMBER", "scores of the query at position p are multiplied by 1 + this · ln(1 + ⌊(p + temperature_offset) / temperature_length⌋); 0 = off", "", store<&S::temperature, not_negative>, load<&S::temperature>},
  {"temperature_length", SettingKind::number, "N", "temperature: positions from one value to the next", "", store<&S::temperature_length, positive>, load<&S::temperature_length>},
  {"temperature_offset", SettingKind::count, "N", "temperature: what is added to the position (Llama 4: 1)", "", store<&S::temperature_offset, whole>, load<&S::temperature_offset>},
  {"softcap", SettingKind::number, "NUMBER", "softcap · tanh(scaled / softcap); 0 = off", "", store<&S::softcap, not_negative>, load<&S::softcap>},
  {"rope", SettingKind::choice, "none|half|interleaved", "rotary position embedding: pairs (i, i + d/2) or (2i, 2i + 1)", "rope_style", store<&S::rope, choice<Rope>>, load_word<&S::rope>},
  {"rope_base", SettingKind::number, "NUMBER", "base of the rotary frequencies", "rope_theta", store<&S::rope_base, positive>, load<&S::rope_base>},
  {"rope_dims", SettingKind::count, "N", "rotated dimensions of each head; 0 = all", "", store<&S::rope_dims, whole>, load<&S::rope_dims>},
  {"rope_first", SettingKind::count, "N", "the first rotated dimension of each head: latent attention rotates the last ones", "", store<&S::rope_first, whole>, load<&S::rope_first>},
  {"rope_offset", SettingKind::integer, "N", "position of the first token; default: the number of past keys", "",
   [](S& s, std::string_view text) {
     if (text == "past")
       s.rope_offset.reset();
     else
       s.rope_offset = integer(text);
   },
   [](const S& s) { return s.rope_offset ? text_of(*s.rope_offset) : std::string("past"); }},
  {"rope_scaling", SettingKind::choice, "none|linear|llama3|dynamic|yarn|longrope", "frequency scaling of the rotary embedding", "", store<&S::rope_scaling, choice<RopeScaling>>, load_word<&S::rope_scaling>},
  {"rope_factor", SettingKind::number, "NUMBER", "factor of rope_scaling", "", store<&S::rope_factor, positive>, load<&S::rope_factor>},
  {"rope_low_freq_factor", SettingKind::number, "NUMBER", "llama3: wavelengths above original length / this are scaled fully", "", store<&S::rope_low_freq_factor, positive>, load<&S::rope_low_freq_factor>},
  {"rope_high_freq_factor", SettingKind::number, "NUMBER", "llama3: wavelengths below original length / this are left alone", "", store<&S::rope_high_freq_factor, positive>, load<&S::rope_high_freq_factor>},
  {"rope_original_length", SettingKind::number, "N", "llama3, dynamic, yarn, longrope: context length before scaling", "", store<&S::rope_original_length, positive>, load<&S::rope_original_length>},
  {"rope_length", SettingKind::count, "N", "dynamic, longrope: length of the sequence; 0 = the last position + 1", "", store<&S::rope_length, whole>, load<&S::rope_length>},
  {"rope_beta_fast", SettingKind::number, "NUMBER", "yarn: pairs that turn more often than this within the original length are left alone", "", store<&S::rope_beta_fast, positive>, load<&S::rope_beta_fast>},
  {"rope_beta_slow", SettingKind::number, "NUMBER", "yarn: pairs that turn less often than this are scaled fully", "", store<&S::rope_beta_slow, positive>, load<&S::rope_beta_slow>},
  {"rope_truncate", SettingKind::boolean, "", "yarn: the ramp between the two begins and ends at whole pairs", "", store<&S::rope_truncate, boolean>, load<&S::rope_truncate>},
  {"rope_mscale", SettingKind::number, "NUMBER", "yarn: attention factor = g(this) / g(rope_mscale_all_dim), g(m) = 0.1 m ln(factor) + 1, where both are set; else g(1)", "", store<&S::rope_mscale, not_negative>, load<&S::rope_mscale>},
  {"rope_mscale_all_dim", SettingKind::number, "NUMBER", "yarn: see rope_mscale", "", store<&S::rope_mscale_all_dim, not_negative>, load<&S::rope_mscale_all_dim>},
  {"rope_attention_factor", SettingKind::number, "NUMBER", "what cosines and sines are multiplied by; 0 = from rope_scaling", "", store<&S::rope_attention_factor, not_negative>, load<&S::rope_attention_factor>},
  {"mrope_section", SettingKind::choice, "T,H,W|none", "pairs that turn by each of three rows of positions: time, height, width (Qwen2-VL)", "", set_sections, get_sections},
  {"mrope_interleaved", SettingKind::boolean, "", "the sections take turns, pair by pair (Qwen3-VL), instead of following each other", "", store<&S::mrope_interleaved, boolean>, load<&S::mrope_interleaved>},
  {"clip_qkv", SettingKind::number, "NUMBER", "queries, keys and values are clipped to ± this; 0 = not", "", store<&S::clip_qkv, not_negative>, load<&S::clip_qkv>},
  {"alibi", SettingKind::choice, "false|true|bloom|falcon|mpt", "linear position bias: slope · (key − query) as in the paper, or a family's form", "", store<&S::alibi, choice<Alibi>>, load_word<&S::alibi>},
  {"relative_bidirectional", SettingKind::boolean, "", "relative_bias: half of the buckets are for keys after the query (T5's encoder)", "", store<&S::relative_bidirectional, boolean>, load<&S::relative_bidirectional>},
  {"relative_max_distance", SettingKind::count, "N", "relative_bias: keys farther than this share one bucket", "", store<&S::relative_max_distance, whole>, load<&S::relative_max_distance>},
  {"relative_key_query", SettingKind::boolean, "", "relative_key: the keys are multiplied with it, too (BERT's relative_key_query)", "", store<&S::relative_key_query, boolean>, load<&S::relative_key_query>},
  {"qk_norm", SettingKind::choice, "rms|layer", "which normalisation q_norm.weight and k_norm.weight are of", "", store<&S::qk_norm, choice<QkNorm>>, load_word<&S::qk_norm>},
  {"qk_norm_eps", SettingKind::number, "NUMBER", "epsilon of QK normalisation, and of latent attention's", "", store<&S::qk_norm_eps, not_negative>, load<&S::qk_norm_eps>},
  {"norm_after_rotation", SettingKind::boolean, "", "queries and keys are rotated first, then normalised (Hunyuan)", "", store<&S::norm_after_rotation, boolean>, load<&S::norm_after_rotation>},
  {"qk_norm_one_plus", SettingKind::boolean, "", "QK normalisation multiplies by 1 + weight", "", store<&S::qk_norm_one_plus, boolean>, load<&S::qk_norm_one_plus>},
  {"gate_activation", SettingKind::choice, "sigmoid|softplus|silu", "what the gate of W_gate goes through before it multiplies the heads' results", "", store<&S::gate_activation, choice<GateActivation>>, load_word<&S::gate_activation>},
  {"residual", SettingKind::boolean, "", "add the stage residual = X + output", "", store<&S::residual, boolean>, load<&S::residual>},
  {"zero_attn", SettingKind::boolean, "", "append one zero key and value", "add_zero_attn", store<&S::zero_attn, boolean>, load<&S::zero_attn>},
  {"softmax", SettingKind::choice, "stable|naive", "naive: without subtracting the row's maximum, to see it overflow", "", store<&S::softmax, choice<Softmax>>, load_word<&S::softmax>},
  {"masked_rows", SettingKind::choice, "zero|nan|uniform", "weights of a query that may attend to nothing", "", store<&S::masked_rows, choice<MaskedRows>>, load_word<&S::masked_rows>},
  {"qkv_order", SettingKind::choice, "qkv|qvk|kqv|kvq|vqk|vkq|per_group", "the order of the columns of W_qkv: one after the other, or per key/value head: its queries, its key, its value", "", store<&S::qkv_order, choice<QkvOrder>>, load_word<&S::qkv_order>},
  {"columns", SettingKind::boolean, "", "tokens are columns: X is d_model × T, W applies from the left", "", store<&S::columns, boolean>, load<&S::columns>},
};
// clang-format on

} // namespace

std::span<const SettingInfo> settings_table() {
  return setting_table;
}

const SettingInfo* find_setting(std::string_view name) {
  for (const SettingInfo& info : setting_table)
    if (info.name == name || has_word(info.aliases, name)) return &info;
  return nullptr;
}

bool is_given(std::string_view origin) {
  return origin.starts_with("--") || find_setting(origin);
}

void set(Settings& settings, std::string_view name, std::string_view text,
         std::string_view origin) {
  const SettingInfo* info = find_setting(name);
  if (!info)
    fail("{}: no setting is called '{}'{}", origin, name,
         did_you_mean(name, names_of_rows(setting_table)));
  try {
    info->set(settings, text);
  } catch (const Error& error) {
    // Each setting names itself.
    const std::string what =
        is_given(origin) ? std::string(origin) : fmt::format("{}: {}", origin, info->name);
    fail("{} is '{}': {}", what, text, error.message());
  }
  settings.origins[std::string(info->name)] = origin;
}

void require_valid(const Settings& settings) {
  Settings unused;
  for (const SettingInfo& info : setting_table) {
    const std::string text = info.get(settings);
    try {
      info.set(unused, text);
    } catch (const Error& error) {
      fail("{} is {}: {}", info.name, text, error.message());
    }
  }
}

} // namespace mha
