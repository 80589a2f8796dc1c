#include "describe.hpp"

#include <filesystem>

namespace mha::app {

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
    words.emplace_back(s.qk_norm == QkNorm::layer ? "QK layer norm" : "QK norm");
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
  if (s.causal) words.emplace_back("causal");
  if (s.window_left >= 0 || s.window_right >= 0)
    words.push_back(fmt::format(
        "window {}", s.window_right < 0  ? fmt::format("left {}", s.window_left)
                     : s.window_left < 0 ? fmt::format("right {}", s.window_right)
                                         : fmt::format("{} + {}", s.window_left, s.window_right)));
  if (!layer.added.empty() || !layer.blocked.empty()) words.emplace_back("masked");
  if (!layer.sinks.empty()) words.emplace_back("sinks");
  if (s.softmax == Softmax::naive) words.emplace_back("naive softmax");
  if (s.columns) words.emplace_back("columns");
  return words;
}

/// What is said of a layer behind the source's name: " layer 1 (LLaMA names) · 4 heads × 16 · …".
std::string facts_of(const LoadedLayer& loaded) {
  const Dims& dims = loaded.layer.dims;
  std::string text;
  if (!loaded.naming.empty() && loaded.naming != "canonical")
    text += fmt::format(" ({} names)", loaded.naming);
  if (dims.H > 0) text += " · " + heads_text(dims);
  if (dims.batched) text += fmt::format(" · B {}", dims.B);
  if (dims.T > 0) text += fmt::format(" · T {}", dims.T);
  if (dims.S_all != dims.T) text += fmt::format(" · S {}", dims.S_all);
  text += fmt::format(" · {}", name_of(loaded.layer.dtype));
  for (const std::string& word : peculiarities(loaded.layer)) text += " · " + word;
  for (const StagePatch& patch : loaded.layer.patches.list)
    text += " · patched: " + render::visible(patch.text);
  return text;
}

std::string layer_of(const LoadedLayer& loaded) {
  return loaded.id.empty() ? std::string() : " layer " + render::visible(loaded.id);
}

} // namespace

std::string shown_path(const std::string& text) {
  const std::filesystem::path path(text);
  const bool dots = text.find_first_not_of("./") == std::string::npos;
  if (text.empty() || (!path.is_absolute() && !dots)) return text;
  std::error_code error;
  std::filesystem::path whole = std::filesystem::absolute(path, error).lexically_normal();
  if (error) return text;
  if (!whole.has_filename()) whole = whole.parent_path(); // "/data/model/"
  return whole.has_filename() ? whole.filename().string() : text;
}

std::string headline_text(const OpenedModel& model, const LoadedLayer& loaded) {
  return render::visible(model.title()) + layer_of(loaded) + facts_of(loaded);
}

std::string headline(const OpenedModel& model, const LoadedLayer& loaded,
                     const render::TextStyle& text_style) {
  const std::string name = render::visible(model.title()) + layer_of(loaded);
  return text_style.bold(name) +
         text_style.dim(render::fitted_facts(facts_of(loaded), render::display_width(name),
                                             text_style.width)) +
         "\n";
}

std::string description(const LoadedLayer& loaded) {
  std::string text = layer_of(loaded) + facts_of(loaded);
  const std::string_view before = text.starts_with(" · ") ? " · " : " ";
  return text.substr(before.size());
}

std::string title_of(const OpenedModel& model) {
  const std::string title = model.title();
  // NAME=FILE, and raw bytes' FILE:DTYPE[SHAPE]: what stands before the path stays.
  const std::size_t equals = title.find('=');
  const bool binding = equals != std::string::npos && title.find('/') > equals;
  const std::string before = binding ? title.substr(0, equals + 1) : "";
  return before + shown_path(title.substr(before.size()));
}

} // namespace mha::app
