// Scaling of the rotary frequencies to longer contexts: left out, added, inverted or of another
// kind; and its attention factor.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/fitted_changes.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>
#include <mha/forward/rotary_kinds.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace mha {

namespace {

/// The scaling in the configs of Llama 3.1 and 3.2.
struct Llama3 {
  double factor, original_length;
};
constexpr double llama3_factors[]{8, 32, 16, 4};
constexpr double llama3_length = 8192;

void add_llama3(const Layer& layer, ChangeList& list) {
  const Settings& s = layer.settings;
  const bool now = s.rope_scaling == RopeScaling::llama3;
  std::vector<Llama3> kinds;
  for (double factor : llama3_factors) {
    kinds.push_back({factor, llama3_length});
    if (now && s.rope_original_length != llama3_length)
      kinds.push_back({factor, s.rope_original_length});
  }
  if (now && std::ranges::find(llama3_factors, s.rope_factor) == std::end(llama3_factors))
    kinds.push_back({s.rope_factor, llama3_length});
  if (s.rope_scaling == RopeScaling::linear) kinds.push_back({s.rope_factor, llama3_length});
  for (const Llama3& kind : kinds) {
    if (now && kind.factor == s.rope_factor && kind.original_length == s.rope_original_length)
      continue;
    list.add_settings(
            s.rope_scaling == RopeScaling::none ? "rope.scaling.added" : "rope.scaling.kind",
            rotary_stages(),
            fmt::format("scales the rotary frequencies as Llama 3.1 does, by the factor {}{}",
                        kind.factor,
                        kind.original_length == llama3_length
                            ? ""
                            : fmt::format(" from {} positions", kind.original_length)),
            s.rope_scaling == RopeScaling::none ? "do not scale the rotary frequencies"
                                                : "scale the rotary frequencies as this layer does",
            {{"rope_scaling", "llama3"},
             {"rope_factor", kind.factor},
             {"rope_low_freq_factor", 1},
             {"rope_high_freq_factor", 4},
             {"rope_original_length", kind.original_length}})
        .rare = true;
  }
}

/// Other kinds of scaling with this factor and original length.
void add_kinds(const Layer& layer, double factor, double original_length, bool rare,
               std::initializer_list<RopeScaling> kinds, ChangeList& list) {
  const Settings& s = layer.settings;
  const bool none = s.rope_scaling == RopeScaling::none;
  for (RopeScaling kind : kinds) {
    if (kind == s.rope_scaling) continue;
    Settings scaled = s;
    scaled.rope_scaling = kind;
    const std::string name = find_setting("rope_scaling")->get(scaled);
    list.add_settings(
            none ? "rope.scaling.added" : "rope.scaling.kind", rotary_stages(),
            fmt::format("scales the rotary frequencies by another kind: {}, factor {} from {} "
                        "positions",
                        name, factor, original_length),
            none ? "do not scale the rotary frequencies"
                 : "scale the rotary frequencies as this layer does",
            {{"rope_scaling", name},
             {"rope_factor", factor},
             {"rope_original_length", original_length}})
        .rare = rare;
  }
}

/// The length by which longrope chooses its frequencies.
void add_lengths(const Layer& layer, ChangeList& list) {
  const Settings& s = layer.settings;
  const auto add_length = [&](std::size_t length, std::string did) {
    list.add_settings("rope.scaling.length", rotary_stages(), std::move(did),
                      "choose the frequencies by the length of the sequence, as this layer does",
                      {{"rope_length", length}});
  };
  const auto trained = static_cast<std::size_t>(std::min(s.rope_original_length, 1e15));
  const std::size_t length = rotary_length(layer, layer.dims.S, layer.first_position());
  if (s.rope_scaling == RopeScaling::longrope && length > trained)
    add_length(trained,
               "divides by rope_short_factor, although the text is longer than trained on");
  else if (s.rope_scaling == RopeScaling::longrope)
    add_length(trained + 1, "divides by rope_long_factor, although the text is no longer than "
                            "trained on");
}

/// 0.1 ln s + 1, the factor of cosines and sines in YaRN (Peng et al. 2023).
double attention_factor(double scale) {
  return 0.1 * std::log(scale) + 1;
}

void add_factors(const Layer& layer, ChangeList& list) {
  const double own =
      rotary_frequencies(layer, layer.dims.T, layer.first_position()).attention_factor;
  const auto add = [&](double factor, std::string did) -> Change& {
    return list.add_settings(
        "rope.attention_factor", rotary_stages(), std::move(did),
        "multiply cosines and sines by the attention factor once, where the layer has one",
        {{"rope_attention_factor", factor, 17}});
  };
  if (own != 1) {
    add(1, fmt::format("leaves out the attention factor {:.6g}", own));
    add(own * own, fmt::format("multiplies by the square of the attention factor {:.6g}, or twice "
                               "by it",
                               own));
    add(1 / own, fmt::format("divides by the attention factor {:.6g}", own));
    list.add_settings(
        "rope.scaling.missing", rotary_stages(),
        fmt::format("multiplies by the attention factor {:.6g}, but does not scale the rotary "
                    "frequencies",
                    own),
        "scale the rotary frequencies as this layer does",
        {{"rope_scaling", "none"}, {"rope_attention_factor", own, 17}});
    add(std::sqrt(own), fmt::format("multiplies by the root of the attention factor {:.6g}", own));
  }
  const double plain = attention_factor(layer.settings.rope_factor);
  if (layer.settings.rope_scaling == RopeScaling::yarn && layer.settings.rope_factor > 1 &&
      std::fabs(plain - own) > 1e-6 * own) {
    const std::string what = fmt::format("0.1 ln {:.4g} + 1", layer.settings.rope_factor);
    add(plain, fmt::format("multiplies by the attention factor {:.6g} ({}), not by {:.6g}: mscale "
                           "or attention_factor of the config is not read",
                           plain, what, own));
    if (own != 1) // applied in addition to the layer's own factor
      add(plain * own, fmt::format("multiplies by {:.6g} ({}) and by {:.6g}: by two attention "
                                   "factors",
                                   plain, what, own));
  }
  for (double scale : {2.0, 4.0, 8.0, 16.0, 32.0, 40.0, 64.0}) {
    const double factor = attention_factor(scale);
    if (own == factor) continue;
    add(own * factor, fmt::format("multiplies what is rotated by the attention factor {:.6g} "
                                  "(0.1 ln {:.4g} + 1)",
                                  factor, scale))
        .rare = true;
    add(own * factor * factor,
        fmt::format("multiplies what is rotated by the square of the attention factor {:.6g}, or "
                    "twice by it",
                    factor))
        .rare = true;
    add(own / factor,
        fmt::format("leaves out the attention factor {:.6g} (0.1 ln {:.4g} + 1)", factor, scale))
        .rare = true;
  }
}

std::vector<Change> rope_scaling_changes(const Subject& subject) {
  const Layer& layer = subject.layer;
  const Settings& s = layer.settings;
  if (s.rope == Rope::none || layer.dims.d_k < 2) return {};
  ChangeList list;
  if (s.rope_scaling != RopeScaling::none) {
    Edits unscaled{{"rope_scaling", "none"}};
    if (s.rope_attention_factor != 0) // the scaling's own factor is removed with it
      unscaled.add(SettingEdit("rope_attention_factor", 0));
    list.add_settings(
        "rope.scaling.missing", rotary_stages(),
        s.rope_attention_factor == 0 || s.rope_attention_factor == 1
            ? "does not scale the rotary frequencies"
            : fmt::format("neither scales the rotary frequencies nor multiplies by the attention "
                          "factor {:.6g}",
                          s.rope_attention_factor),
        fmt::format("scale the rotary frequencies: {}, factor {}",
                    find_setting("rope_scaling")->get(s), s.rope_factor),
        unscaled);
    Change inverted = rope_factor_change(layer, 1 / s.rope_factor);
    inverted.id = "rope.scaling.inverted";
    inverted.did = fmt::format("multiplies by the factor {} instead of dividing", s.rope_factor);
    list.add(std::move(inverted));
  }
  for (double factor : {2.0, 4.0, 8.0, 16.0, 32.0, 0.5, 0.25, 0.125}) {
    if (s.rope_scaling == RopeScaling::linear &&
        (factor == s.rope_factor || factor == 1 / s.rope_factor))
      continue;
    list.add(rope_factor_change(layer, factor)).rare = true;
  }
  if (s.rope_scaling != RopeScaling::none && s.rope_scaling != RopeScaling::linear)
    list.add(rope_factor_change(layer, s.rope_factor));
  add_llama3(layer, list);
  using enum RopeScaling;
  if (s.rope_scaling != none)
    add_kinds(layer, s.rope_factor, s.rope_original_length, false, {dynamic, yarn}, list);
  else // the configs of Qwen 2.5 and 3, GPT-OSS and DeepSeek
    for (const auto& [factor, length] : {std::pair{4.0, 32768.0}, {32.0, 4096.0}, {40.0, 4096.0}})
      add_kinds(layer, factor, length, true, {yarn}, list);
  add_lengths(layer, list);
  add_factors(layer, list);
  return list.take();
}

} // namespace

Change rope_factor_change(const Layer& layer, double factor) {
  const Settings& s = layer.settings;
  const bool none = s.rope_scaling == RopeScaling::none;
  return settings_change(none ? "rope.scaling.added" : "rope.scaling.kind", rotary_stages(),
                         factor >= 1
                             ? fmt::format("divides the rotary positions by {:.6g}", factor)
                             : fmt::format("multiplies the rotary positions by {:.6g}", 1 / factor),
                         none ? "do not scale the rotary positions"
                              : fmt::format("scale the rotary frequencies: {}, factor {}",
                                            find_setting("rope_scaling")->get(s), s.rope_factor),
                         {{"rope_scaling", "linear"}, {"rope_factor", factor, 9}});
}

const Theme rope_scaling_theme{
    "rope_scaling",
    "rope.scaling.missing rope.scaling.added rope.scaling.kind rope.scaling.inverted "
    "rope.scaling.length rope.attention_factor",
    rope_scaling_changes};

} // namespace mha
