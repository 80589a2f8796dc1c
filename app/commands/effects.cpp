// effects: what each head and feed-forward does to a model's prediction.

#include "commands/commands.hpp"
#include "grid.hpp"
#include "output.hpp"
#include "predicted_places.hpp"
#include "sweep.hpp"
#include "text_groups.hpp"
#include "work_count.hpp"
#include <mha/model/effects.hpp>
#include <mha/render/effects.hpp>
#include <mha/system/clock.hpp>

#include <algorithm>

namespace mha::app {

namespace {

struct EffectsCommand {
  Request request;
  Selection selection;
  OutputOptions output;
  std::string ablate = "zero", set, answer, versus, grid;
  std::optional<std::size_t> answer_id, versus_id, top;
  bool centre = false, per_position = false, spread = false;
  SweepOptions sweep;
  Common common;

  int run();

private:
  /// What was found, a line a part and prediction or their means, and what those vary by.
  struct Found {
    std::vector<Effect> effects, deviations;
  };
  /// What --timings says of the ablations.
  struct Cost {
    std::size_t ablations = 0;
    double operations = 0, of_passes = 0; ///< all of them; if each were a whole pass
    double pass_s = 0;                    ///< of one whole pass
  };
  void measure_pass(const TextLayers& layers, const EffectsRequest& asked);
  void report() const;
  Cost cost_;
  Found computed(const Sources& model, const std::shared_ptr<ModelPass>& pass,
                 EffectsRequest asked);
  void draw(const std::vector<Effect>& found, const std::string& picture,
            const std::string& title) const;
};

/// The number of a token that is one, with a leading blank if it is none without.
std::optional<int> token_of(const ModelPass& text, const std::string& word, const char* option,
                            const std::optional<std::size_t>& id) {
  if (id) {
    if (*id >= text.model().vocabulary())
      fail("{}-id {}: the vocabulary has 0 to {}", option, *id, text.model().vocabulary() - 1);
    return static_cast<int>(*id);
  }
  if (word.empty()) return std::nullopt;
  std::string pieces;
  for (const std::string& tried : {word, " " + word}) {
    const std::vector<int> ids = text.ids_of(tried);
    if (ids.size() == 1) return ids[0];
    if (!pieces.empty()) continue;
    for (int one : ids)
      pieces += fmt::format("{}'{}' ({})", pieces.empty() ? "" : ", ", text.label(one), one);
  }
  fail("{} '{}' is no single token: {}; say one of them, or give {}-id", option, word, pieces,
       option);
}

/// "layers.1.head_out[0,3] + layers.0.mlp_out": places that are taken out together.
std::vector<PatchText> set_of_places(const std::string& text, const std::string& ablate) {
  std::vector<PatchText> places;
  std::size_t from = 0, depth = 0;
  for (std::size_t i = 0; i <= text.size() && !text.empty(); ++i) {
    if (i < text.size() && text[i] == '[') ++depth;
    if (i < text.size() && text[i] == ']' && depth > 0) --depth;
    if (i < text.size() && (text[i] != '+' || depth > 0)) continue;
    std::string place = text.substr(from, i - from);
    place.erase(0, place.find_first_not_of(' '));
    if (place.empty()) fail("--set '{}': a place is empty: PLACE + PLACE expected", text);
    places.push_back(parse_patch(
        fmt::format("{} = {}", place, ablate == "resample" ? "from the next text" : ablate)));
    from = i + 1;
  }
  return places;
}

/// What a picture of heads can be coloured by.
struct EffectMeasure {
  const char* name;
  std::optional<double> Effect::*of;
};
constexpr EffectMeasure effect_measures[]{{"kl", &Effect::kl},
                                          {"loss_change", &Effect::loss_change},
                                          {"logit_change", &Effect::logit_change},
                                          {"direct", &Effect::direct},
                                          {"change", &Effect::change}};

/// --grid, or the first that some head has.
void EffectsCommand::draw(const std::vector<Effect>& found, const std::string& picture,
                          const std::string& title) const {
  for (const EffectMeasure& measure : effect_measures) {
    if (!grid.empty() && grid != measure.name) continue;
    std::vector<render::GridHead> cells;
    bool any = false;
    for (const Effect& one : found) {
      if (one.part != Contributor::head) continue;
      cells.push_back({std::to_string(*one.layer), *one.head, one.*measure.of});
      any = any || (one.*measure.of).has_value();
    }
    if (!any && grid.empty()) continue;
    if (!any) fail("--grid {}: no head has it here", grid);
    write_grid(output.path, picture, title, {render::grid_of(measure.name, cells)}, {},
               common.color);
    return;
  }
  fail("no head has an effect to draw");
}

/// Throws Error where --grid names none of them.
void require_effect_measure(const std::string& grid) {
  std::vector<std::string_view> names;
  for (const EffectMeasure& measure : effect_measures) names.emplace_back(measure.name);
  if (!grid.empty() && std::ranges::find(names, grid) == names.end())
    throw UsageError(fmt::format("--grid: '{}' is no effect{}", grid, did_you_mean(grid, names)));
}

/// A whole pass to the predictions, beside which the ablations are counted.
void EffectsCommand::measure_pass(const TextLayers& layers, const EffectsRequest& asked) {
  const WorkCount work;
  cost_.pass_s += seconds_of([&] {
    Advance way;
    way.threads = common.threads;
    const Residual last = advance(layers, layers.embedded(), layers.count(), way);
    prediction_rows(layers.ends(last.x), asked.places, common.threads);
  });
  std::size_t ablations = asked.set.empty() ? 0 : 1;
  for (std::size_t n = 0; n < layers.count(); ++n) {
    const Layer layer = layers.layer(n, layers.embedded().x);
    ablations += layer.dims.H + 1 + (layer.block->mlp.present() ? 1 : 0);
  }
  cost_.ablations += ablations;
  cost_.of_passes += static_cast<double>(ablations) * work.operations();
}

void EffectsCommand::report() const {
  report_timings(common,
                 fmt::format(", \"ablations\": {}, \"operations\": {:.6g}, "
                             "\"of_whole_passes\": {:.6g}, \"share\": {:.4f}, \"pass_s\": {:.6f}",
                             cost_.ablations, cost_.operations, cost_.of_passes,
                             cost_.operations / cost_.of_passes, cost_.pass_s));
}

/// Tokens that are computed together: every layer of the clean run is kept for its ablations.
constexpr std::size_t most_ablated = 512;

/// The lines of a text file some at a time; means and the values of other texts need all of them.
EffectsCommand::Found EffectsCommand::computed(const Sources& model,
                                               const std::shared_ptr<ModelPass>& pass,
                                               EffectsRequest asked) {
  const Stopwatch watch(common.compute_s);
  Found found;
  EffectMeans means;
  const auto add = [&](const TextLayers& layers, std::size_t first) {
    asked.places = predicted_places(layers.texts(), selection.query);
    if (common.timings) measure_pass(layers, asked);
    const WorkCount work;
    std::vector<Effect> list = effects(layers, asked);
    cost_.operations += work.operations();
    for (Effect& one : list) one.batch += first;
    if (per_position)
      std::ranges::move(list, std::back_inserter(found.effects));
    else
      means.add(list);
  };
  if (pass->text.each_line && asked.ablation == Ablation::zero && request.patches.empty()) {
    const TextGroups groups(*pass, most_ablated, model.layers().size(), common);
    for (std::size_t n = 0; n < groups.count(); ++n) {
      const TextGroup group = groups.group(n);
      add(TextLayers(model.for_text(group.texts), group.texts), group.first);
    }
  } else {
    add(TextLayers(model, pass), 0);
  }
  if (!per_position) found.effects = means.means();
  if (spread) found.deviations = means.deviations();
  return found;
}

int EffectsCommand::run() {
  require_effect_measure(grid);
  const std::string picture = grid_form(output, !grid.empty());
  if (sweep.asked() && !grid.empty())
    throw UsageError("--grid is of effects; a sweep is a picture with -f text, .png or .svg");
  if (!picture.empty() && (per_position || top))
    throw UsageError("a picture has every head: --top and --per-position are for tables");
  if (spread && (per_position || !picture.empty() || top))
    throw UsageError("--spread is of means, in a table of every part");
  const bool sweeps = sweep.asked();
  if (sweeps && spread)
    throw UsageError("--spread: a sweep of several pairs has it beside its mean");
  if (!request.has_text())
    throw UsageError("effects needs a text: --text \"…\", --text-file FILE or --ids N,N…");
  if (!request.layer.empty())
    throw UsageError("effects tells them of every layer: --layer chooses nothing");
  request.stages = {"logits"};
  const Sources model = open_sources(request, common);
  const auto pass = std::dynamic_pointer_cast<ModelPass>(request.inputs);
  ModelPass& text = *pass;
  text.threads = common.threads;
  text.require_token_numbers("effects");
  report_notes(text.notes(), common);
  if (sweeps) {
    SweepRequest asked;
    asked.answer = token_of(text, answer, "--answer", answer_id);
    asked.versus = token_of(text, versus, "--versus", versus_id);
    asked.places = [this](const ModelPass& one) { return predicted_places(one, selection.query); };
    run_sweep(sweep, model, pass, std::move(asked), {output, picture}, common);
    report_timings(common);
    return 0;
  }
  const std::string form = !picture.empty()   ? picture
                           : output.is_json() ? "json"
                                              : text_form(output);
  if (form == "npy")
    throw UsageError(
        "an array is of a sweep (--sweep); effects are a table, CSV, JSON or a picture");
  EffectsRequest asked;
  asked.ablation = ablate == "mean"       ? Ablation::mean
                   : ablate == "resample" ? Ablation::resample
                                          : Ablation::zero;
  asked.answer = token_of(text, answer, "--answer", answer_id);
  asked.versus = token_of(text, versus, "--versus", versus_id);
  asked.set = set_of_places(set, ablate);
  asked.centre = centre, asked.threads = common.threads;
  auto [found, deviations] = computed(model, pass, std::move(asked));
  if (!picture.empty()) {
    draw(found, picture, render::visible(model.title()));
    report();
    return 0;
  }
  if (top) {
    std::erase_if(found, [](const Effect& one) {
      return one.part != Contributor::head && one.part != Contributor::set;
    });
    const auto size = [](const Effect& one) { return one.kl ? *one.kl : one.change.value_or(0); };
    std::ranges::stable_sort(found, std::greater<>(), size);
    found.resize(std::min(found.size(), *top));
  }
  const Stopwatch watch(common.write_s);
  TextFile file(output.path);
  const render::TextStyle look = look_of(output, common.color);
  const render::EffectsView view{per_position, std::move(deviations)};
  if (form == "json")
    file.sink()(render::effects_json(found, view));
  else if (form == "table")
    file.sink()(render::effects_table(found, view, look));
  else
    file.sink()(render::effects_csv(found, view, form == "tsv" ? '\t' : ','));
  file.finish();
  report();
  return 0;
}

} // namespace

Run declare_effects(Cli& cli) {
  const auto effects = std::make_shared<EffectsCommand>();
  cli.about(
      "What each head, each layer's attention and each feed-forward does to a model's "
      "prediction: it is taken out, and what follows is computed again. Lines say by how much "
      "the prediction changes, patched − clean; `direct` is what a part adds to the answer's "
      "logit by itself. The prediction is the last token's, or the means over those of --query; "
      "--query all is of every position.");
  cli.group("Effects");
  cli.choice("--ablate", {"zero", "mean", "resample"}, effects->ablate,
             "what a part is replaced by: zero (the default), its mean over all positions, or the "
             "next text's values");
  cli.value("--set", "PLACES", effects->set,
            "places that are taken out together, a line more: 'layers.1.head_out[[0,3]] + "
            "layers.0.mlp_out'");
  cli.value("--answer", "TOKEN", effects->answer,
            "the token whose logit is followed; default: the most probable one");
  cli.value("--answer-id", "N", effects->answer_id, "the same, by its number");
  cli.value("--versus", "TOKEN", effects->versus, "its logit is subtracted from the answer's");
  cli.value("--versus-id", "N", effects->versus_id, "the same, by its number");
  cli.flag("--centre", effects->centre, "the vocabulary's mean logit is subtracted");
  cli.flag("--per-position", effects->per_position,
           "a line a part and position, instead of their mean");
  cli.flag("--spread", effects->spread,
           "beside each mean the standard deviation over its predictions, as of many texts");
  cli.value("--top", "N", effects->top, "the N heads with the largest effect alone");
  add_sweep(cli, effects->sweep);
  add_selection(cli, effects->selection,
                {.batch = false, .head = false, .query = true, .key = false});
  add_grid(cli, effects->grid, {"kl", "loss_change", "logit_change", "direct", "change"});
  add_output(cli, effects->output, {"table", "csv", "tsv", "json", "npy", "text", "png", "svg"},
             "write to a file; .png and .svg are pictures, text is one in the terminal");
  add_layer(cli, effects->request);
  add_common(cli, effects->common);
  cli.example("effects data/induction-model --text-file data/induction-model/expected/repeat.txt "
              "--query 17-31",
              "which heads a model needs to repeat what it has read");
  cli.example("effects data/bard-gpt2 --text 'O Romeo, Romeo! wherefore art thou' --top 5",
              "the five heads that this prediction needs most");
  cli.example("effects data/bard-gpt2 --text 'What news from' --patch-from 'What says my' "
              "--sweep resid_pre --quiet",
              "which positions of which layers carry what two texts differ by");
  return [effects] { return effects->run(); };
}

} // namespace mha::app
