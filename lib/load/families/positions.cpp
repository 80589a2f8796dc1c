#include <mha/load/families/positions.hpp>

#include <array>
#include <cmath>

namespace mha::naming {

namespace {

/// A value of rope_scaling, or of rope_parameters, which later files have in its place.
class RopeConfig {
public:
  RopeConfig(const Translation& to, std::string_view layer_type)
      : to_(to), layer_type_(layer_type) {}

  std::optional<std::string> text(std::string_view key) const {
    for (const std::string& name : names(key))
      if (std::optional<std::string> value = to_.group().configured(name)) return value;
    return std::nullopt;
  }
  std::optional<double> number(std::string_view key) const {
    for (const std::string& name : names(key))
      if (const std::optional<double> value = to_.number({name})) return value;
    return std::nullopt;
  }

private:
  std::array<std::string, 3> names(std::string_view key) const {
    return {fmt::format("rope_parameters.{}.{}", layer_type_, key),
            fmt::format("rope_parameters.{}", key), fmt::format("rope_scaling.{}", key)};
  }
  const Translation& to_;
  std::string_view layer_type_;
};

void set_scaling(Translation& to, const RopeConfig& config) {
  std::optional<std::string> type = config.text("rope_type");
  if (!type) type = config.text("type");
  if (!type || *type == "default" || to.option("rope_scaling")) return;
  if (*type != "linear" && *type != "llama3")
    fail("{}: rope_scaling '{}' is not supported: linear and llama3 are; --rope-scaling none "
         "computes "
         "without it",
         to.group().contents->name, *type);
  to.set("rope_scaling", *type, "config.json");
  for (const auto& [setting, key] : {std::pair("rope_factor", "factor"),
                                     {"rope_low_freq_factor", "low_freq_factor"},
                                     {"rope_high_freq_factor", "high_freq_factor"},
                                     {"rope_original_length", "original_max_position_embeddings"}})
    if (const std::optional<std::string> value = config.text(key))
      to.set(setting, *value, "config.json");
}

} // namespace

void set_rotary(Translation& to, const Rotary& rotary) {
  const RopeConfig config(to, rotary.layer_type);
  if (!to.set_from_config("rope", {"rope"})) to.set("rope", rotary.style);
  if (const std::optional<std::string> base = config.text("rope_theta"))
    to.set("rope_base", *base, "config.json");
  else if (!to.set_from_config("rope_base", rotary.base_keys) && rotary.base != 10000)
    to.set("rope_base", fmt::format("{}", rotary.base));

  // Rotated dimensions: their number, or their part of a head, cut off as Python's int() does.
  if (!to.set_from_config("rope_dims", {"rotary_dim"})) {
    std::optional<double> part = config.number("partial_rotary_factor");
    if (!part) part = to.number({"partial_rotary_factor", "rotary_pct", "rope_pct"});
    const std::optional<std::size_t> width = to.head_width();
    if (width && part.value_or(rotary.part) != 1)
      to.set(
          "rope_dims",
          fmt::format("{}", std::floor(static_cast<double>(*width) * part.value_or(rotary.part))),
          part ? "config.json" : "");
    if (!part && rotary.part != 1)
      to.warn(fmt::format("config.json does not say how much of a head is rotated: {} of it, as is "
                          "usual; --rope-dims chooses",
                          rotary.part));
  }
  if (rotary.scaled) set_scaling(to, config);
}

std::optional<std::string> element(const std::string& list, std::size_t index) {
  std::size_t at = 0;
  for (; index > 0; --index) {
    at = list.find(',', at);
    if (at == std::string::npos) return std::nullopt;
    ++at;
  }
  return list.substr(at, std::min(list.find(',', at), list.size()) - at);
}

std::optional<bool> is_sliding(const Group& group, Slides slides) {
  const std::optional<std::size_t> layer = group.number();
  const std::optional<std::string> types = group.configured("layer_types");
  if (!types && slides == every_layer) return true;
  if (!layer) return std::nullopt;
  if (types) return element(*types, *layer) == "sliding_attention";
  return slides(group, *layer);
}

void set_window(Translation& to, Slides slides, std::size_t otherwise) {
  if (!to.is_true({"use_sliding_window"}, true)) return; // Qwen: a window in the config, not in use
  const std::optional<double> given = to.number({"sliding_window"});
  const double window = given.value_or(static_cast<double>(otherwise));
  if (window < 1) return;
  const std::optional<bool> sliding = is_sliding(to.group(), slides);
  if (!sliding)
    to.warn(
        fmt::format("some layers of this model see a window of {} keys, and no number says which "
                    "layer this is: all keys are seen; --window-left {} chooses",
                    window, window - 1));
  if (!sliding.value_or(false)) return;
  to.set("window_left", fmt::format("{}", window - 1), given ? "config.json" : "");
}

void set_rotary_of_gptj(Translation& to) {
  set_rotary(to, {.style = "interleaved"});
  if (!to.group().configured("rotary_dim"))
    to.warn("config.json does not say rotary_dim: all dimensions of a head are rotated; "
            "--rope-dims chooses");
}

bool every_layer(const Group&, std::size_t) {
  return true;
}
bool even_layers(const Group&, std::size_t layer) {
  return layer % 2 == 0;
}

bool upper_layers(const Group& group, std::size_t layer) {
  return static_cast<double>(layer) >= group.configured_number({"max_window_layers"}).value_or(0);
}

} // namespace mha::naming
