// Fits which head each head takes something from: its key/value head, its biases, its position
// bias.

#include <mha/diagnose/causes.hpp>
#include <mha/diagnose/differing_parts.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/written_out.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

namespace mha {

namespace {

using Heads = std::vector<std::size_t>;

std::string in_words(const Heads& heads) {
  constexpr std::size_t most = 12;
  const auto shown = std::span(heads).first(std::min(heads.size(), most));
  return fmt::format("{}{}", fmt::join(shown, ", "), heads.size() > most ? ", …" : "");
}

/// The change under which query head h reads key/value head heads[h].
Change kv_heads_change(const Heads& heads) {
  return {"gqa.map", StageSet{Stage::scores, Stage::head_out},
          fmt::format("lets query heads 0, 1, … read key/value heads {}", in_words(heads)),
          "let query head h read key/value head ⌊h · H_kv / H⌋",
          [heads](Layer& edited) { edited.kv_heads = heads; }};
}

/// The part of a bias that each head adds.
struct HeadBias {
  Stage stage;
  Tensor Layer::*bias;
  const char* name;
};
constexpr HeadBias biases[]{
    {Stage::q, &Layer::b_q, "b_q"}, {Stage::k, &Layer::b_k, "b_k"}, {Stage::v, &Layer::b_v, "b_v"}};

/// The change under which head h adds the part of these biases that belongs to head heads[h].
Change biases_change(const std::vector<HeadBias>& parts, const Heads& heads) {
  StageSet touched;
  std::vector<const char*> names;
  for (const HeadBias& part : parts) touched.add(part.stage), names.push_back(part.name);
  const std::string all = fmt::format("{}", fmt::join(names, ", "));
  return {"bias.heads", touched,
          fmt::format("adds {} with the heads in another order: heads 0, 1, … get the biases of "
                      "heads {}",
                      all, in_words(heads)),
          fmt::format("reorder {} together with the columns of the weights", all),
          [parts, heads](Layer& edited) {
            for (const HeadBias& part : parts) {
              Tensor& bias = edited.*part.bias;
              const std::size_t d = bias.count() / heads.size();
              bias = columns_from(bias, [&](std::size_t i) { return heads[i / d] * d + i % d; });
            }
          }};
}

/// The same for the position bias.
Change position_bias_change(const Heads& heads) {
  return {"bias.position.heads", StageSet{Stage::biased},
          fmt::format("adds the position bias with the heads in another order: heads 0, 1, … get "
                      "that of heads {}",
                      in_words(heads)),
          "reorder the position bias together with the heads of the weights",
          [heads](Layer& edited) {
            for (Broadcast& bias : edited.bias)
              write_heads(edited, bias,
                          [&](std::size_t b, std::size_t h) { return std::pair(b, heads[h]); });
            edited.relative_bias =
                columns_from(edited.relative_bias, [&](std::size_t h) { return heads[h]; });
          }};
}

/// For each head of a stage, the sum of squares of ours − theirs.
std::vector<double> errors_by_head(const Tensor& ours, const Tensor& theirs, std::size_t H,
                                   bool packed) {
  std::vector<double> errors(H, 0.0);
  const std::size_t outer = ours.shape()[0] * (packed ? ours.shape()[1] : 1),
                    inner = ours.count() / (outer * H);
  for (std::size_t i = 0; i < ours.count(); ++i) {
    const double difference = value_at(ours, i) - value_at(theirs, i);
    if (std::isfinite(difference)) errors[i / inner % H] += difference * difference;
  }
  return errors;
}

/// Whether a stage has a token's query heads side by side.
bool has_query_heads(const Dims& dims, Stage stage) {
  const StageInfo& info = info_of(stage);
  if (info.kind != Kind::token || info.letters.empty()) return false;
  return stage == Stage::concat || info.letters[0] == Dim::H ||
         (info.letters[0] == Dim::H_kv && dims.H_kv == dims.H);
}

} // namespace

/// Finds, for each head separately, the head that it takes something from, out of a stage with
/// heads or the output.
void CauseSearch::fit_heads(Trials& trials, Changes& candidates) {
  const Target& target = trials.target();
  const Dims& d = layer_.dims;
  const bool is_output = target.stage == Stage::output && !layer_.W_o.empty();
  const bool packed = is_output || has_query_heads(d, target.stage);
  if (info_of(target.stage).kind != Kind::map && !packed) return;
  const Tensor theirs = is_output ? joined_heads_of(layer_, target.theirs) : target.theirs;
  if (theirs.empty()) return;
  const auto fit = [&](std::size_t choices, const std::function<Change(const Heads&)>& make) {
    Heads heads(d.H, 0);
    if (choices < 2 || !trials.concerns(make(heads))) return;
    std::vector<double> least(d.H, std::numeric_limits<double>::infinity());
    for (std::size_t g = 0; g < choices; ++g) {
      const Change all = make(Heads(d.H, g));
      const Tensor ours = is_output ? value_of(changed(layer_, {&all}), Stage::concat, threads_)
                                    : trials.value({&all});
      const std::vector<double> errors = errors_by_head(ours, theirs, d.H, packed);
      for (std::size_t h = 0; h < d.H; ++h)
        if (errors[h] < least[h]) least[h] = errors[h], heads[h] = g;
    }
    Change change = make(heads);
    change.fitted = true;
    candidates.push_back(keep(std::move(change)));
  };
  fit(d.H_kv, kv_heads_change);
  if (!layer_.relative_bias.empty() ||
      std::ranges::any_of(layer_.bias, [](const Broadcast& one) { return one.strides[1] != 0; }))
    fit(d.H, position_bias_change);
  const auto fit_biases = [&](std::vector<HeadBias> parts) {
    std::erase_if(parts, [&](const HeadBias& part) {
      return (layer_.*part.bias).empty() || (part.stage != Stage::q && d.H_kv != d.H);
    });
    if (!parts.empty()) fit(d.H, [&](const Heads& heads) { return biases_change(parts, heads); });
  };
  fit_biases({std::begin(biases), std::end(biases)});
  const bool small = d.S_all * d.H * (d.d_k + d.d_v) <= thresholds::small_layer;
  for (const HeadBias& part : biases)
    if (small || target.stage == part.stage) fit_biases({part});
}

} // namespace mha
