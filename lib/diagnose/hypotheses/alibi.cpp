// Attention with linear biases: whether, and in which of its forms.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>
#include <mha/forward/bias.hpp>

#include <cmath>

namespace mha {

namespace {

/// −slope · |key − query|, as implementations without a causal mask have it.
void both_ways(Layer& layer) {
  const Dims& d = layer.dims;
  const std::vector<double> slopes = alibi_slopes(d.H, layer.settings.alibi);
  Broadcast bias;
  bias.tensor = Tensor(layer.dtype, {d.B, d.H, d.T, d.S_all});
  bias.strides = {d.H * d.T * d.S_all, d.T * d.S_all, d.S_all, 1};
  bias.keys = d.S_all;
  bias.origin = "alibi";
  by_precision(layer.dtype, [&]<class T>(T) {
    auto* to = bias.tensor.as_mutable<T>().data();
    for (std::size_t b = 0; b < d.B; ++b)
      for (std::size_t h = 0; h < d.H; ++h)
        for (std::size_t t = 0; t < d.T; ++t, to += d.S_all)
          for (std::size_t j = 0; j < d.past + d.S; ++j)
            to[j] = static_cast<T>(-slopes[h] *
                                   std::fabs(static_cast<double>(static_cast<std::ptrdiff_t>(j) -
                                                                 layer.query_position(b, t))));
  });
  layer.settings.alibi = Alibi::none;
  layer.bias.push_back(std::move(bias));
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
