#include <mha/load/families/positions.hpp>

#include <mha/files/text.hpp>
#include <mha/load/families/config_keys.hpp>

namespace mha::naming {

namespace {

/// The keys with N where each Nth layer sees all keys.
const std::initializer_list<std::string_view> periods{
    "sliding_window_pattern", "global_attn_every_n_layers", "full_attention_interval"};

/// Whether layer_types name this layer sliding_attention; nothing without layer_types or a number.
std::optional<bool> is_sliding_by_type(const Group& group) {
  const std::optional<std::size_t> layer = group.number();
  const std::optional<std::string> types = group.configured("layer_types");
  if (!types || !layer) return std::nullopt;
  const std::optional<std::string> type = element(*types, *layer);
  if (!type)
    fail("{}: config.json's layer_types end before layer {}", group.contents->name, *layer);
  if (*type != "sliding_attention" && *type != "full_attention")
    fail("{}: config.json's layer_types have '{}' for layer {}, which is not computed here: "
         "sliding_attention or full_attention expected",
         group.contents->name, io::shown(*type), *layer);
  return *type == "sliding_attention";
}

} // namespace

std::optional<bool> is_sliding(const Group& group, Slides slides) {
  if (!slides) return true;
  const std::optional<bool> typed = is_sliding_by_type(group);
  if (typed) { // these are known, but layer_types wins
    for (const std::string_view period : periods) group.has_key(period);
    group.has_key("_sliding_window_pattern");
    return typed;
  }
  if (slides == every_layer && !group.configured("layer_types")) return true;
  const std::optional<std::size_t> layer = group.number();
  return layer ? std::optional(slides(group, *layer)) : std::nullopt;
}

void set_window(LayerReading& to, Slides slides, std::size_t otherwise, bool by_itself) {
  const std::initializer_list<std::string_view> keys{"sliding_window", "sliding_window_size"};
  const auto given = to.group().configured_count(keys, 0);
  if (!given && to.group().has_key("sliding_window")) otherwise = 0; // null
  // Qwen and SmolLM 3 use the window in the config only with use_sliding_window.
  const bool used = to.is_true({"use_sliding_window"}, by_itself && slides != upper_layers);
  if (slides == upper_layers) to.number({"max_window_layers"});
  const std::size_t window = given.value_or(otherwise);
  if (!used) {
    if (slides) is_sliding_by_type(to.group());
    if ((!slides || slides == every_layer) && window >= 1)
      to.warn(message("config.json has use_sliding_window false, so all keys are seen; "
                      "Transformers does not read that of a model of this kind and uses the "
                      "window of {} keys: <window_left> {} does so here",
                      window, window - 1));
    return;
  }
  const std::optional<bool> sliding = is_sliding(to.group(), slides);
  // llama.cpp writes 0 for no window; Transformers would hide every key, if some layer slides.
  const bool gguf = to.group().contents->format == "gguf";
  if (given == 0u && !gguf && sliding.value_or(true)) to.group().configured_count(keys, 1);
  if (window < 1) return;
  if (!sliding)
    to.warn(message("some layers of this model see a window of {} keys, and this layer's number is "
                    "not known: all keys are seen; <window_left> {} chooses",
                    window, window - 1));
  if (!sliding.value_or(false)) return;
  to.set("window_left", fmt::format("{}", window - 1), given ? "config.json" : "");
}

bool every_layer(const Group&, std::size_t) {
  return true;
}
bool even_layers(const Group&, std::size_t layer) {
  return layer % 2 == 0;
}
bool all_but_every_fourth(const Group& group, std::size_t layer) {
  return (layer + 1) % group.configured_count(periods, 1).value_or(4) != 0;
}

bool all_but_every_sixth(const Group& group, std::size_t layer) {
  return (layer + 1) % group.configured_count({"sliding_window_pattern"}, 1).value_or(6) != 0;
}

bool upper_layers(const Group& group, std::size_t layer) {
  return static_cast<double>(layer) >= group.configured_number({"max_window_layers"}).value_or(28);
}

bool last_layers(const Group& group, std::size_t layer) {
  constexpr double of_dots = 62;
  return static_cast<double>(layer) >=
         group.configured_number({"max_window_layers"}).value_or(of_dots);
}

} // namespace mha::naming
