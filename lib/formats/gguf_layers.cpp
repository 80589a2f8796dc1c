// Which layers of a GGUF file have a window.

#include <mha/formats/gguf_settings.hpp>
#include <mha/formats/gguf_tables.hpp>

#include <fmt/format.h>

namespace mha::io {

namespace {

/// Sets layer_types: which layers have a window.
void take_pattern(GgufSettings& settings, bool windowed) {
  const GgufValue* const pattern = settings.value("attention.sliding_window_pattern");
  const bool is_list = pattern && pattern->is_array;
  const auto usual = settings.is("gemma3")                             ? 6
                     : settings.is("olmo2 cohere2 exaone4 exaone-moe") ? 4
                                                                       : 2;
  const std::int64_t every =
      pattern && !is_list
          ? settings.file().integer(settings.whole("attention.sliding_window_pattern")).value_or(0)
          : usual;
  constexpr std::uint64_t most = 4096;
  const double layers = settings.number("block_count").value_or(0);
  const std::uint64_t count = is_list ? pattern->count
                              : layers > 0 && layers <= static_cast<double>(most)
                                  ? static_cast<std::uint64_t>(layers)
                                  : 0;
  std::string types;
  for (std::uint64_t i = 0; i < count; ++i) {
    // The last layer of each group has no window; with 0 all layers have one.
    bool slides = every <= 0 || static_cast<std::int64_t>(i) % every < every - 1;
    if (is_list) slides = pattern->boolean(i).value_or(pattern->integer(i).value_or(0) != 0);
    types += fmt::format("{}{}", i > 0 ? "," : "",
                         slides && windowed ? "sliding_attention" : "full_attention");
  }
  if (!types.empty()) settings.set("layer_types", types);
}

} // namespace

void take_gguf_windows(GgufSettings& settings) {
  if (!settings.is(gguf_windowed) && !settings.is(gguf_alternating)) return;
  const std::optional<double> given = settings.number("attention.sliding_window");
  // Gemma 2 and the largest EXAONE 4 have a window even without the key.
  const bool largest = settings.is("exaone4") && settings.number("block_count") == 64;
  const double window = given.value_or(settings.is("gemma2") || largest ? 4096 : 0);
  if (largest && !given) settings.set_number("sliding_window", window);
  // Without a window every layer of EXAONE 4 rotates.
  if (window == 0 && (!given || settings.is("exaone4"))) settings.set("sliding_window", "null");
  // Mistral's files have the architecture "llama", but LLaMA has no window.
  if (settings.is("llama") && given) settings.set("model_type", "mistral");
  if (settings.is("gpt-oss cohere2 exaone-moe") && !given)
    settings.refuse("attention.sliding_window",
                    "is missing, without which models of this kind are not computed");
  // With a window of 0, no token of Cohere 2 would see any key.
  if (settings.is("cohere2 exaone-moe") && given == 0.0)
    settings.refuse("attention.sliding_window", "which is not computed here: a window expected");
  if (settings.is(gguf_alternating)) take_pattern(settings, window > 0);
}

} // namespace mha::io
