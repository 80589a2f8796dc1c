// Attention with linear biases: whether, and in which of its forms.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>
#include <mha/diagnose/hypotheses/written_out.hpp>
#include <mha/forward/bias.hpp>

#include <cmath>

namespace mha {

namespace {

/// −slope · |key − query|, as implementations without a causal mask have it.
void both_ways(Layer& layer) {
  const std::vector<double> slopes = alibi_slopes(layer.dims.H, layer.settings.alibi);
  write_bias(layer, "alibi", [&](std::size_t h, std::ptrdiff_t distance) {
    return -slopes[h] * std::fabs(static_cast<double>(distance));
  });
  layer.settings.alibi = Alibi::none;
}

std::vector<Change> alibi_changes(const Subject& subject) {
  const Settings& s = subject.layer.settings;
  const StageSet biased = StageSet{Stage::biased};
  ChangeList list;
  if (s.alibi != Alibi::none)
    list.add_settings("alibi.missing", biased, "adds no ALiBi",
                      "add ALiBi's slope · distance to the scaled scores", {{"alibi", "false"}});
  struct Form {
    Alibi form;
    const char *word, *text;
  };
  for (const Form& form :
       {Form{Alibi::paper, "true", "slope · (key − query), as in the paper"},
        {Alibi::bloom, "bloom", "slope · key, as BLOOM does"},
        {Alibi::falcon, "falcon", "(q kᵀ + slope · key) · scale, as Falcon does"},
        {Alibi::mpt, "mpt", "MPT's slopes and distances"}}) {
    if (form.form == s.alibi) continue;
    const std::string cure = s.alibi == Alibi::none ? "leave out ALiBi: this layer has none"
                                                    : "use the form of ALiBi that the layer names";
    list.add_settings("alibi.form", biased, fmt::format("adds {}", form.text), cure,
                      {{"alibi", form.word}});
  }
  if (s.alibi != Alibi::none && !s.causal)
    list.add("alibi.form", biased, "adds −slope · |key − query|, the same both ways",
             "add slope · (key − query), which favours later keys", both_ways);
  return list.take();
}

} // namespace

const Theme alibi_theme{"alibi", "alibi.missing alibi.form", alibi_changes};

} // namespace mha
