// The ramp of YaRN and Llama 3.1 between unchanged and divided frequencies: other ends, and other
// mixtures.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/rope_turn.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace mha {

namespace {

/// NTK-aware scaling (bloc97): the base with which the slowest pair is divided by s.
double stretched_base(const Settings& s, double dims) {
  return s.rope_base * std::pow(s.rope_factor, dims / (dims - 2));
}

std::vector<double> unscaled_frequencies(const Layer& layer, double base) {
  Layer plain = layer;
  plain.settings.rope_scaling = RopeScaling::none;
  plain.settings.rope_base = base;
  return turn_of(plain).frequencies;
}

/// The frequency of a pair, plain and with the stretched base, and its place on the ramp: 0 is
/// unchanged, 1 is divided by s.
struct Ramped {
  double plain, stretched, share, s;

  double mixed_with(double other_share) const {
    return plain / s * other_share + plain * (1 - other_share);
  }
};

struct Mix {
  double (*frequency)(const Ramped&);
  const char *did, *cure;
};
constexpr const char *base_cure = "leave the base unchanged where the ramp scales the frequencies",
                     *way_cure = "keep the pairs that turn often and divide those that turn rarely";
constexpr Mix mixes[]{
    {[](const Ramped& of) { return of.plain / of.s * of.share + of.stretched * (1 - of.share); },
     "mixes the divided frequencies with those of an already stretched base (NTK)", base_cure},
    {[](const Ramped& of) {
       return of.stretched / of.s * of.share + of.stretched * (1 - of.share);
     },
     "scales the frequencies of an already stretched base (NTK)", base_cure},
    {[](const Ramped& of) { return of.stretched * of.share + of.plain * (1 - of.share); },
     "mixes the frequencies with those of a stretched base (NTK), not with the divided ones",
     "divide the frequencies of the pairs that turn rarely by the factor"},
    {[](const Ramped& of) { return of.plain / (of.s * of.share + 1 - of.share); },
     "mixes wavelengths, or dividers, along the ramp where this layer mixes frequencies",
     "mix frequencies: θ / s · r + θ · (1 − r)"},
    {[](const Ramped& of) { return of.mixed_with(1 - of.share); },
     "runs along the ramp the other way: it divides the pairs that this layer keeps", way_cure},
    {[](const Ramped& of) {
       return of.mixed_with(of.share > 0 && of.share < 1 ? 1 - of.share : of.share);
     },
     "mixes the other way on the ramp", way_cure},
    {[](const Ramped& of) { return of.mixed_with(of.share < 1 ? 0 : 1); },
     "keeps the pairs on the ramp unchanged", "mix their frequencies"},
    {[](const Ramped& of) { return of.mixed_with(of.share > 0 ? 1 : 0); },
     "divides the frequencies of the pairs on the ramp", "mix their frequencies"},
};

/// Replaces the frequencies by those of another mixture.
void mix_otherwise(Layer& layer, const Mix& mix) {
  const Settings& s = layer.settings;
  Turn turn = turn_of(layer);
  const auto dims = static_cast<double>(turn.dims);
  const std::vector<double> plain = unscaled_frequencies(layer, s.rope_base),
                            stretched = unscaled_frequencies(layer, stretched_base(s, dims));
  for (std::size_t i = 0; i < turn.frequencies.size(); ++i) {
    // θ = plain / s · r + plain · (1 − r), solved for r.
    const double share = (1 - turn.frequencies[i] / plain[i]) / (1 - 1 / s.rope_factor);
    constexpr double rounded = 1e-9; // the ramp's ends are exact
    const double r = share < rounded ? 0 : share > 1 - rounded ? 1 : share;
    turn.frequencies[i] = mix.frequency({plain[i], stretched[i], r, s.rope_factor});
  }
  turn_with(layer, turn);
}

class RampChanges {
public:
  explicit RampChanges(const Layer& layer) : s_(layer.settings) {
    const std::size_t dims = s_.rope_dims == 0 ? layer.dims.d_k : s_.rope_dims;
    dims_ = static_cast<double>(dims - dims % 2);
  }

  std::vector<Change> changes() {
    const bool yarn = s_.rope_scaling == RopeScaling::yarn;
    if (s_.rope == Rope::none || (!yarn && s_.rope_scaling != RopeScaling::llama3)) return {};
    yarn ? add_betas() : add_bands();
    const double longer = s_.rope_original_length * s_.rope_factor;
    add(fmt::format("begins and ends the ramp as if trained on {} positions", longer),
        "use the length before scaling for it", {{"rope_original_length", longer}});
    if (s_.rope_factor != 1 && dims_ > 2)
      for (const Mix& mix : mixes)
        list_.add("rope.scaling.ramp", rotary_stages(), mix.did, mix.cure,
                  [&mix](Layer& edited) { mix_otherwise(edited, mix); });
    return list_.take();
  }

private:
  void add(std::string did, const char* cure, Edits settings) {
    list_.add_settings("rope.scaling.ramp", rotary_stages(), std::move(did), cure,
                       std::move(settings));
  }

  void add_betas() {
    const bool whole = !s_.rope_truncate;
    add(fmt::format("begins and ends yarn's ramp at {} pairs", whole ? "whole" : "fractions of"),
        whole ? "begin and end it at fractions of pairs" : "begin and end it at whole pairs",
        {{"rope_truncate", whole}});
    const auto add_pair = [this](double fast, double slow, const char* did, const char* cure) {
      if (fast != s_.rope_beta_fast || slow != s_.rope_beta_slow)
        add(did, cure, {{"rope_beta_fast", fast}, {"rope_beta_slow", slow}});
    };
    const double fast = s_.rope_beta_fast, slow = s_.rope_beta_slow;
    const char* const begin = "begin the ramp at the pair that turns beta_fast times";
    add_pair(slow, fast, "exchanges beta_fast and beta_slow of yarn's ramp", begin);
    add_pair(
        slow, slow,
        "has no ramp: it divides the pairs after the one that turns beta_slow "
        "times, as happens where the two betas are exchanged and the ramp has at least 0.001 pairs",
        begin);
    add_pair(fast, fast,
             "has no ramp: it divides the pairs after the one that turns beta_fast "
             "times",
             "end the ramp at the pair that turns beta_slow times");
    add_pair(32, 1, "begins and ends yarn's ramp at the default betas, 32 and 1",
             "read beta_fast and beta_slow");
    if (s_.rope_factor == 1 || dims_ <= 2) return;
    const double base = stretched_base(s_, dims_);
    add("scales the frequencies of an already stretched base (NTK), from which it also computes "
        "the ramp's ends",
        base_cure, {{"rope_base", base, 17}});
  }

  void add_bands() {
    const auto add_pair = [this](double low, double high, const char* did, const char* cure) {
      add(did, cure, {{"rope_low_freq_factor", low}, {"rope_high_freq_factor", high}});
    };
    const double low = s_.rope_low_freq_factor, high = s_.rope_high_freq_factor;
    if (low == high) return;
    add_pair(high, low, "exchanges low_freq_factor and high_freq_factor: two bands and no ramp",
             "divide wavelengths above M / low_freq_factor and keep those below "
             "M / high_freq_factor");
    add_pair(high, high, "has no ramp: it divides wavelengths above M / high_freq_factor",
             "mix the frequencies between M / high_freq_factor and M / low_freq_factor");
    if (low != 1 || high != 4)
      add_pair(1, 4, "uses the usual low_freq_factor 1 and high_freq_factor 4",
               "read low_freq_factor and high_freq_factor");
  }

  const Settings& s_;
  double dims_;
  ChangeList list_;
};

} // namespace

const Theme rope_ramp_theme{"rope_ramp", "rope.scaling.ramp", [](const Subject& subject) {
                              return RampChanges(subject.layer).changes();
                            }};

} // namespace mha
