#include "effects_texts.hpp"

#include "progress.hpp"
#include <mha/model/stage_means.hpp>
#include <mha/system/clock.hpp>

#include <algorithm>
#include <ctime>
#include <utility>

namespace mha::app {

namespace {

/// The most tokens computed together: every layer of the clean run is kept for its ablations.
constexpr std::size_t most_ablated = 512;

/// Processor time of all threads.
double processor_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

void visit_effect(Effect& one, RunState& state) {
  const auto index = [&](std::optional<std::size_t>& number) {
    std::size_t after_none = number ? *number + 1 : 0;
    state.field(after_none);
    number = after_none > 0 ? std::optional(after_none - 1) : std::nullopt;
  };
  auto part = static_cast<std::size_t>(one.part);
  state.field(part);
  one.part = static_cast<Component>(part);
  index(one.layer), index(one.head), index(one.expert);
}

/// Whether an effect is of an expert on which no prediction depends: the tokens before it, and its
/// own, chose others.
bool is_idle_expert(const Effect& one) {
  return one.part == Component::expert &&
         std::ranges::all_of(effect_columns, [&](const EffectColumn& column) {
           return (one.*column.number).value_or(0) == 0;
         });
}
std::vector<Effect> without_idle_experts(std::vector<Effect> list) {
  std::erase_if(list, is_idle_expert);
  return list;
}

} // namespace

void EffectRows::add(const std::vector<Effect>& effects) {
  constexpr std::size_t any_width = 100;
  file_.write(stream_.add(effects_table(effects, view_, any_width)));
}

void EffectRows::finish() {
  file_.write(stream_.finish());
  file_.finish();
}

void EffectRows::visit(RunState& state) {
  file_.visit(state);
  stream_.visit(state);
}

TextEffects::TextEffects(TextEffectsRequest request, const OpenedModel& model, Common& common)
    : request_(std::move(request)), model_(model), common_(common) {
  const Texts& texts = *model.texts();
  if (texts.lengths().size() < 2) request_.can_split_into_groups = false;
  // Errors of --query appear here, before hours of work.
  places_ = predicted_places(texts, request_.query, request_.missing_tokens);
}

/// All texts in one group; a single text keeps its batch axis or its lack of one.
TextGroup TextEffects::all_texts() const {
  return {0, model_.texts()};
}

std::shared_ptr<const TextLayers> TextEffects::layers_of(const TextGroup& group) const {
  return model_.text_layers(group.texts);
}

void TextEffects::compute(EffectRows* rows, ResumeFile& resume, const std::string& settings) {
  const Stopwatch watch(common_.compute_s);
  const Texts& texts = *model_.texts();
  const bool is_mean = request_.effects.ablation == Ablation::mean;
  if (!request_.can_split_into_groups) {
    if (resume.asked())
      throw UsageError(
          "--resume needs many texts (--text-file FILE --each-line): the effects on one text, or "
          "with a patch that uses values of all texts, are computed at once");
    return compute_group(all_texts(), rows);
  }
  if (request_.effects.ablation == Ablation::resample && !request_.effects.align_end)
    require_equal_lengths(texts.lengths());
  const TextGroups groups(texts, most_ablated, texts.layers().size(), common_);
  const std::size_t done = resume.resume([&] { return run_fingerprint(model_, settings); },
                                         [&](RunState& state) { visit(rows, state); });
  if (is_mean && done < texts.lengths().size()) compute_replacement_means(groups);
  for (std::size_t n = 0; n < groups.count(); ++n) {
    const TextGroup current = groups.group(n);
    if (current.first < done) continue;
    compute_group(current, rows);
    resume.keep(current.first + current.texts->lengths().size(),
                [&](RunState& state) { visit(rows, state); });
  }
}

/// The means that replace parts are over all texts, so these are computed once in advance.
void TextEffects::compute_replacement_means(const TextGroups& groups) {
  const auto means = std::make_shared<StageMeans>();
  for (std::size_t n = 0; n < groups.count(); ++n)
    add_to_means(*layers_of(groups.group(n)), request_.effects, *means);
  request_.effects.means = means;
}

/// Measures a whole pass up to the predictions as the unit for the ablations' cost: the fastest of
/// three, after one that packs the weights.
void TextEffects::measure_pass(const TextLayers& layers) {
  const auto pass = [&] {
    Advance how;
    how.threads = common_.threads;
    const Residual last = advance(layers, layers.embedded(), layers.count(), how);
    const PredictionRows rows(layers.ends(last.x), request_.effects.places, common_.threads);
  };
  pass();
  const Uncounted unit(model_.sources());
  double seconds = 0, cpu = 0, operations = 0;
  for (int i = 0; i < 3; ++i) {
    const WorkCount work;
    const double before = processor_seconds(), wall = seconds_of(pass);
    const double processor = processor_seconds() - before;
    seconds = i == 0 ? wall : std::min(seconds, wall);
    cpu = i == 0 ? processor : std::min(cpu, processor);
    operations = work.operations();
  }
  cost_.pass_s += seconds, cost_.pass_cpu += cpu;
  std::size_t ablations = request_.effects.set.empty() ? 0 : 1;
  for (std::size_t n = 0; n < layers.count(); ++n) {
    const Layer layer = layers.sized(n);
    ablations += layer.dims.H + 1 + (layer.block->has_feed_forward() ? 1 : 0);
    if (request_.effects.experts) ablations += layer.dims.E;
  }
  cost_.ablations += ablations;
  cost_.full_pass_operations += static_cast<double>(ablations) * operations;
}

void TextEffects::compute_group(const TextGroup& group, EffectRows* rows) {
  const std::shared_ptr<const TextLayers> made = layers_of(group);
  const TextLayers& layers = *made;
  EffectsRequest& asked = request_.effects;
  asked.places.clear();
  for (const auto& [text, position] : places_)
    if (text >= group.first && text - group.first < group.texts->lengths().size())
      asked.places.emplace_back(text - group.first, position);
  if (asked.places.empty()) return; // these texts of a masked model hide no token
  asked.first_text = group.first;
  if (asked.ablation == Ablation::resample && group.texts != model_.texts()) {
    asked.next = model_.text_layers(std::make_shared<const Texts>(
        *model_.texts(), group.first + 1, group.texts->lengths().size(), "--text", true));
  }
  if (common_.timings) measure_pass(layers);
  const WorkCount work;
  const double before = processor_seconds();
  std::vector<Effect> list;
  cost_.effects_s += seconds_of([&] { list = effects(layers, asked); });
  report_warnings(layers.layer_warnings(),
                  common_of_group(common_, !std::exchange(has_computed_group_, true)));
  cost_.effects_cpu += processor_seconds() - before;
  cost_.operations += work.operations();
  for (Effect& one : list) one.batch += group.first;
  if (rows)
    rows->add(without_idle_experts(std::move(list)));
  else if (request_.per_position)
    std::ranges::move(list, std::back_inserter(position_effects_));
  else
    means_.add(list);
}

std::vector<Effect> TextEffects::results() const {
  return without_idle_experts(request_.per_position ? position_effects_ : means_.means());
}

std::vector<Effect> TextEffects::deviations() const {
  const std::vector<Effect> means = means_.means(), all = means_.deviations();
  std::vector<Effect> list;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!is_idle_expert(means[i])) list.push_back(all[i]);
  return list;
}

void TextEffects::visit(EffectRows* rows, RunState& state) {
  if (rows) return rows->visit(state);
  std::vector<EffectMeans::Spreads> parts = means_.parts();
  state.list(parts, [&](EffectMeans::Spreads& one) {
    visit_effect(one.part, state);
    for (MeanSpread& number : one.values) state.field(number);
  });
  if (!state.writes()) means_ = EffectMeans(std::move(parts));
}

void TextEffects::add_to_timings() const {
  common_.more_timings = [cost = cost_](render::JsonText& json) {
    json.member("ablations", cost.ablations);
    json.key("operations").raw(fmt::format("{:.6g}", cost.operations));
    json.key("of_whole_passes").raw(fmt::format("{:.6g}", cost.full_pass_operations));
    add_fixed(json, "share", cost.operations / cost.full_pass_operations, 4);
    add_fixed(json, "effects_s", cost.effects_s);
    add_fixed(json, "cpu_s", cost.effects_cpu);
    add_fixed(json, "pass_s", cost.pass_s);
    add_fixed(json, "pass_cpu_s", cost.pass_cpu);
  };
}

} // namespace mha::app
