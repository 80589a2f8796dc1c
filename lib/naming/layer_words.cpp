#include <mha/naming/layer_words.hpp>

#include <fmt/format.h>

#include <vector>

namespace mha {

namespace {

std::string heads_text(const Dims& dims) {
  std::string text = counted(dims.H, "heads");
  if (dims.d_k > 0)
    text += fmt::format(" × {}", dims.d_k);
  else if (dims.d_v > 0)
    text += fmt::format(" × {}", dims.d_v);
  if (dims.d_v > 0 && dims.d_k > 0 && dims.d_v != dims.d_k)
    text += fmt::format(" (values × {})", dims.d_v);
  if (dims.H_kv > 0 && dims.H_kv != dims.H) text += " on " + counted(dims.H_kv, "key/value heads");
  return text;
}

/// The settings that shape a result and are not the paper's defaults, in words.
std::vector<std::string> peculiarities(const Layer& layer) {
  const Settings& s = layer.settings;
  std::vector<std::string> words;
  const auto get = [&](std::string_view name) { return find_setting(name)->get(s); };
  if (s.input_norm != InputNorm::none) words.push_back("input norm " + get("input_norm"));
  if (!layer.W_c_kv.empty()) words.emplace_back("latent attention");
  if (s.clip_qkv > 0) words.push_back("q, k, v within ±" + get("clip_qkv"));
  if (!layer.q_norm_weight.empty())
    words.push_back(fmt::format("QK {}norm{}", s.qk_norm == QkNorm::layer ? "layer " : "",
                                norms_after_rotation(layer) ? " after RoPE" : ""));
  if (!layer.W_gate.empty()) words.push_back("gate " + get("gate_activation"));
  if (s.rope != Rope::none) {
    words.push_back("RoPE " + get("rope"));
    if (s.rope_scaling != RopeScaling::none)
      words.back() += fmt::format(" {} × {}", get("rope_scaling"), get("rope_factor"));
  }
  if (!layer.relative_key.empty())
    words.emplace_back(s.relative_key_query ? "relative key and query" : "relative key");
  if (s.alibi != Alibi::none)
    words.push_back(s.alibi == Alibi::paper ? "ALiBi" : "ALiBi " + get("alibi"));
  if (s.scale != ScaleKind::d_k) words.push_back("scale " + get("scale"));
  if (s.softcap != 0) words.push_back("softcap " + get("softcap"));
  if (s.temperature != 0) words.push_back("temperature " + get("temperature"));
  if (s.causal) words.emplace_back("causal");
  if (s.window_chunk > 0) words.push_back("chunks of " + get("window_chunk"));
  if (s.window_left >= 0 || s.window_right >= 0)
    words.push_back(fmt::format(
        "window {}", s.window_right < 0  ? fmt::format("left {}", s.window_left)
                     : s.window_left < 0 ? fmt::format("right {}", s.window_right)
                                         : fmt::format("{} + {}", s.window_left, s.window_right)));
  if (layer.dims.E > 0) {
    words.push_back(fmt::format("{} of {} experts × {}", layer.dims.n, layer.dims.E, layer.dims.I));
    if (layer.dims.I_shared > 0) words.back() += fmt::format(" + {}", layer.dims.I_shared);
  }
  if (!layer.added.empty() || !layer.blocked.empty()) words.emplace_back("masked");
  if (!layer.sinks.empty()) words.emplace_back("sinks");
  if (s.softmax == Softmax::naive) words.emplace_back("naive softmax");
  if (s.columns) words.emplace_back("columns");
  return words;
}

std::string facts_of(const Layer& layer, std::string_view naming) {
  const Dims& dims = layer.dims;
  std::string text;
  if (!naming.empty() && naming != "canonical") text += fmt::format(" ({} names)", naming);
  if (dims.H > 0) text += " · " + heads_text(dims);
  if (dims.batched) text += fmt::format(" · B {}", dims.B);
  if (dims.T > 0) text += fmt::format(" · T {}", dims.T);
  if (dims.S_all != dims.T) text += fmt::format(" · S {}", dims.S_all);
  text += fmt::format(" · {}", name_of(layer.dtype));
  for (const std::string& word : peculiarities(layer)) text += " · " + word;
  for (const ResolvedEdit& patch : layer.patches.list)
    if (!patch.text.empty()) text += " · patched: " + patch.text;
  return text;
}

} // namespace

std::string LayerWords::text() const {
  if (!layer.empty()) return layer + facts;
  const std::string_view before = facts.starts_with(" · ") ? " · " : " ";
  return facts.substr(before.size());
}

LayerWords layer_in_words(const Layer& layer, std::string_view id, std::string_view naming) {
  return {id.empty() ? std::string() : fmt::format("layer {}", id), facts_of(layer, naming)};
}

} // namespace mha
