// Scaling of the rotary frequencies to longer contexts: ignored, added, inverted, of another kind,
// and the attention factor that goes with it.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/rope.hpp>
#include <mha/diagnose/hypotheses/rope_turn.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

#include <cmath>

namespace mha {

namespace {

StageSet scaled_stages() {
  return set_of({Stage::q_rope, Stage::k_rope});
}

/// What Llama 3.1 and 3.2 have in their configs.
struct Llama3 {
  double factor, original_length;
};
constexpr Llama3 llama3_settings[]{{8, 8192}, {32, 8192}, {16, 8192}, {4, 8192}};

void add_llama3(const Layer& layer, ChangeList& list) {
  const Settings& s = layer.settings;
  const bool now = s.rope_scaling == RopeScaling::llama3;
  std::vector<Llama3> kinds(std::begin(llama3_settings), std::end(llama3_settings));
  if (s.rope_scaling == RopeScaling::linear) kinds.push_back({s.rope_factor, 8192});
  for (const Llama3& kind : kinds) {
    if (now && kind.factor == s.rope_factor && kind.original_length == s.rope_original_length)
      continue;
    list.add(
            s.rope_scaling == RopeScaling::none ? "rope.scaling.added" : "rope.scaling.kind",
            scaled_stages(),
            fmt::format("scales the rotary frequencies as Llama 3.1 does, by the factor {}",
                        kind.factor),
            s.rope_scaling == RopeScaling::none ? "leave the rotary frequencies as they are"
                                                : "scale the rotary frequencies as this layer does",
            [kind](Layer& edited) {
              edited.settings.rope_scaling = RopeScaling::llama3;
              edited.settings.rope_factor = kind.factor;
              edited.settings.rope_original_length = kind.original_length;
              edited.settings.rope_low_freq_factor = 1, edited.settings.rope_high_freq_factor = 4;
            },
            fmt::format("--rope-scaling llama3 --rope-factor {} --rope-low-freq-factor 1 "
                        "--rope-high-freq-factor 4 --rope-original-length {}",
                        kind.factor, kind.original_length))
        .rare = true;
  }
}

/// 0.1 ln s + 1, the factor of cosines and sines in YaRN (Peng et al. 2023).
double attention_factor(double scale) {
  return 0.1 * std::log(scale) + 1;
}

void add_factors(ChangeList& list) {
  const auto add = [&](double factor, std::string did) {
    list.add("rope.attention_factor", scaled_stages(), std::move(did),
             "multiply cosines and sines by the attention factor once, where the layer has one",
             [factor](Layer& edited) {
               Turn turn = turn_of(edited);
               turn.factor *= factor;
               turn_with(edited, turn);
             })
        .rare = true;
  };
  for (double scale : {2.0, 4.0, 8.0, 16.0, 32.0, 40.0, 64.0}) {
    const double factor = attention_factor(scale);
    add(factor, fmt::format("multiplies what is rotated by the attention factor {:.6g} "
                            "(0.1 ln {:.4g} + 1)",
                            factor, scale));
    add(factor * factor,
        fmt::format("multiplies what is rotated by the square of the attention factor {:.6g}, or "
                    "twice by it",
                    factor));
    add(1 / factor,
        fmt::format("leaves out the attention factor {:.6g} (0.1 ln {:.4g} + 1)", factor, scale));
  }
}

std::vector<Change> rope_scaling_changes(const Subject& subject) {
  const Layer& layer = subject.layer;
  const Settings& s = layer.settings;
  if (s.rope == Rope::none || layer.dims.d_k < 2) return {};
  ChangeList list;
  if (s.rope_scaling != RopeScaling::none) {
    list.add(
        "rope.scaling.missing", scaled_stages(), "does not scale the rotary frequencies",
        fmt::format("scale the rotary frequencies: {}, factor {}",
                    find_setting("rope_scaling")->get(s), s.rope_factor),
        [](Layer& edited) { edited.settings.rope_scaling = RopeScaling::none; },
        "--rope-scaling none");
    Change inverted = rope_factor_change(layer, 1 / s.rope_factor);
    inverted.id = "rope.scaling.inverted";
    inverted.did = fmt::format("multiplies by the factor {} instead of dividing", s.rope_factor);
    list.add(inverted.id, inverted.touches, inverted.did, inverted.cure, inverted.edit,
             inverted.option);
  }
  for (double factor : {2.0, 4.0, 8.0, 16.0, 32.0, 0.5, 0.25, 0.125}) {
    if (s.rope_scaling == RopeScaling::linear &&
        (factor == s.rope_factor || factor == 1 / s.rope_factor))
      continue;
    const Change one = rope_factor_change(layer, factor);
    list.add(one.id, one.touches, one.did, one.cure, one.edit, one.option).rare = true;
  }
  if (s.rope_scaling == RopeScaling::llama3) {
    const Change one = rope_factor_change(layer, s.rope_factor);
    list.add(one.id, one.touches, one.did, one.cure, one.edit, one.option);
  }
  add_llama3(layer, list);
  add_factors(list);
  return list.take();
}

} // namespace

Change rope_factor_change(const Layer& layer, double factor) {
  const Settings& s = layer.settings;
  const bool none = s.rope_scaling == RopeScaling::none;
  Change change;
  change.id = none ? "rope.scaling.added" : "rope.scaling.kind";
  change.touches = scaled_stages();
  change.did = factor >= 1 ? fmt::format("divides the rotary positions by {:.6g}", factor)
                           : fmt::format("multiplies the rotary positions by {:.6g}", 1 / factor);
  change.cure = none ? "leave the rotary positions as they are"
                     : fmt::format("scale the rotary frequencies: {}, factor {}",
                                   find_setting("rope_scaling")->get(s), s.rope_factor);
  change.option = fmt::format("--rope-scaling linear --rope-factor {:.9g}", factor);
  change.edit = [factor](Layer& edited) {
    edited.settings.rope_scaling = RopeScaling::linear;
    edited.settings.rope_factor = factor;
  };
  return change;
}

const Theme rope_scaling_theme{
    "rope_scaling",
    "rope.scaling.missing rope.scaling.added rope.scaling.kind rope.scaling.inverted "
    "rope.attention_factor",
    rope_scaling_changes};

} // namespace mha
