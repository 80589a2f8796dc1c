// effects: measures how each head and feed-forward affects a model's prediction.

#include "commands/commands.hpp"
#include "describe.hpp"
#include "effects_texts.hpp"
#include "figures.hpp"
#include "followed_tokens.hpp"
#include "predicted_places.hpp"
#include "process.hpp"
#include "sweep.hpp"
#include "text_groups.hpp"
#include <mha/naming/stage_names.hpp>
#include <mha/system/named.hpp>
#include <mha/system/one_of.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

namespace mha::app {

namespace {

struct EffectsCommand {
  RunRequest request;
  Selection selection;
  OutputOptions output;
  std::string ablate = "zero", align, ablation_set, grid;
  FollowedTokens followed;
  std::optional<std::size_t> top, precision;
  bool centre = false, experts = false, per_position = false, spread = false, resume = false;
  SweepOptions sweep;
  FigureOptions figure;
  std::shared_ptr<const std::string> choices; ///< the given options that affect results
  Common common;

  int run();

private:
  /// Throws UsageError for options that contradict each other.
  void check() const;
  EffectsRequest effects_request(const Texts& texts) const;
  void draw(const std::vector<Effect>& effects, const std::string& picture,
            const std::string& title) const;
  void write(const TextEffects& text_effects, const std::string& form);
};

/// Parses "layers.1.head_out[0,3] + layers.0.mlp_out" into places that are ablated together.
std::vector<StageEdit> parse_ablation_set(const std::string& text, const std::string& ablate) {
  std::vector<StageEdit> places;
  std::size_t from = 0, depth = 0;
  for (std::size_t i = 0; i <= text.size() && !text.empty(); ++i) {
    if (i < text.size() && text[i] == '[') ++depth;
    if (i < text.size() && text[i] == ']' && depth > 0) --depth;
    if (i < text.size() && (text[i] != '+' || depth > 0)) continue;
    std::string place = text.substr(from, i - from);
    place.erase(0, place.find_first_not_of(' '));
    if (place.empty()) fail("--together '{}': a place is empty; PLACE + PLACE expected", text);
    places.push_back(StageEdit::of(parse_place(place, place, stage_of_place_named), PatchOp::set,
                                   ablate == "resample" ? EditValue::of_run("from the next text")
                                   : ablate == "mean"   ? EditValue::of_mean()
                                                        : EditValue::zero()));
    from = i + 1;
  }
  return places;
}

/// Draws the measure of --grid, or the first one that a head has.
void EffectsCommand::draw(const std::vector<Effect>& effects, const std::string& picture,
                          const std::string& title) const {
  for (const EffectColumn& measure : effect_columns) {
    if (!grid.empty() && grid != measure.name) continue;
    std::vector<render::GridHead> cells;
    bool has_values = false;
    for (const Effect& effect : effects) {
      if (effect.part != Component::head) continue;
      cells.push_back({std::to_string(*effect.layer), *effect.head, effect.*measure.number});
      has_values = has_values || (effect.*measure.number).has_value();
    }
    if (!has_values && grid.empty()) continue;
    if (!has_values) fail("--grid {}: no head has this measure here", grid);
    write_grid({output.path, picture, figure, common.color}, title,
               {render::grid_of(std::string(measure.name), cells)});
    return;
  }
  fail("no head has an effect to draw");
}

/// Throws Error if --grid is not a measure of effects.
void require_effect_measure(const std::string& grid) {
  const std::vector<std::string_view> names = names_of_rows(effect_columns);
  if (!grid.empty() && !is_one_of(grid, names))
    throw UsageError(fmt::format("--grid: '{}' is not an effect{}; expected one of {}", grid,
                                 did_you_mean(grid, names), fmt::join(names, ", ")));
}

void EffectsCommand::check() const {
  require_effect_measure(grid);
  if (top == std::size_t{0}) throw UsageError("--top is 0: at least 1 expected");
  if (sweep.asked() &&
      (ablate != "zero" || !ablation_set.empty() || centre || experts || per_position || top))
    throw UsageError("--ablate, --together, --centre, --experts, --per-position and --top have no "
                     "effect on a sweep");
  if (experts && ablate != "zero")
    throw UsageError(
        fmt::format("--experts: an expert is left out for the tokens that chose it, so --ablate {} "
                    "has nothing to put there; leave one of them out",
                    ablate));
  const std::string picture = picture_format(output, !grid.empty());
  if (sweep.asked() && !grid.empty())
    throw UsageError(
        "--grid does not apply to a sweep, which is drawn with -f text, .png, .svg or .pdf");
  if (!picture.empty() && experts)
    throw UsageError("--experts: a picture shows heads; write a table, or leave it out");
  if (!picture.empty() && (per_position || top))
    throw UsageError("a picture shows every head: --top and --per-position apply to tables");
  if (spread && (per_position || !picture.empty() || top))
    throw UsageError(
        "--spread applies to a table with the means of every part; leave out --per-position and "
        "--top, and do not draw a picture");
  if (sweep.asked() && spread)
    throw UsageError("--spread: a sweep of several pairs always shows it beside the mean");
  if (sweep.asked() && resume)
    throw UsageError("--resume applies to effects over many texts, not to a sweep");
  if (resume && per_position && (top || render::is_for_eyes(form_of(output))))
    throw UsageError("--resume with --per-position writes rows text by text: give -o FILE.csv or "
                     ".json, without --top");
  if (!align.empty() && ablate != "resample")
    throw UsageError("--align chooses the positions in the next text and needs --ablate resample");
  if (!request.has_text())
    throw UsageError("effects needs a text: --text \"…\", --text-file FILE or --ids N,N…");
  if (!request.layer.empty()) throw UsageError("effects lists every layer: --layer has no effect");
}

EffectsRequest EffectsCommand::effects_request(const Texts& texts) const {
  EffectsRequest effects;
  effects.ablation = ablate == "mean"       ? Ablation::mean
                     : ablate == "resample" ? Ablation::resample
                                            : Ablation::zero;
  effects.align_end = align == "end";
  std::tie(effects.answer, effects.versus) = followed.ids(texts);
  effects.set = parse_ablation_set(ablation_set, ablate);
  effects.centre = centre, effects.experts = experts, effects.threads = common.threads;
  return effects;
}

int EffectsCommand::run() {
  check();
  figure.check(picture_or_form(output, !grid.empty()), request, common);
  keep_freed_memory();
  request.stages = {"logits"};
  OpenedModel model = open_model(request, common);
  const Texts& texts = *model.texts();
  texts.require_token_numbers("effects");
  report_notes(texts.notes(), common);
  const std::string picture = picture_format(output, !grid.empty());
  if (sweep.asked()) {
    SweepRequest sweep_request;
    std::tie(sweep_request.answer, sweep_request.versus) = followed.ids(texts);
    sweep_request.places = [this](const Texts& measured) {
      return predicted_places(measured, selection.query);
    };
    run_sweep(sweep, model, std::move(sweep_request), {output, picture, figure, precision}, common);
    return 0;
  }
  const std::string form = picture_or_form(output, !grid.empty());
  if (form == "npy")
    throw UsageError("only a sweep (--sweep) can be written as an array; write effects as a "
                     "table, CSV, JSON or a picture");
  ResumeFile resume_file(resume, output.path);
  const bool streams = per_position && !top && !render::is_for_eyes(form);
  EffectRows rows(streams ? output.path : "", form, precision, experts);
  const bool each_line = request.text.each_line;
  if (each_line) note_skipped_lines(selection.query, texts, common);
  const EffectsRequest requested = effects_request(texts);
  TextEffects text_effects({requested, selection.query,
                            each_line ? MissingTokens::skip : MissingTokens::error, per_position,
                            patch_across_texts(request).empty()},
                           model, common);
  std::string settings = fmt::format("effects\n{}{} {}", *choices, form, top.has_value());
  // The tokens in a file may change although the options do not.
  if (!followed.answer.path.empty())
    settings += fmt::format("\n{}", fmt::join(requested.answer.ids(), ","));
  if (!followed.versus.path.empty())
    settings += fmt::format("\n{}", fmt::join(requested.versus.ids(), ","));
  text_effects.compute(streams ? &rows : nullptr, resume_file, settings);
  if (streams) {
    const Stopwatch watch(common.write_s);
    rows.finish();
  } else if (!picture.empty()) {
    draw(text_effects.results(), picture, title_of(model));
  } else {
    write(text_effects, form);
  }
  resume_file.remove();
  text_effects.add_to_timings();
  return 0;
}

/// Writes all effects, or the --top N largest ones in decreasing order.
void EffectsCommand::write(const TextEffects& text_effects, const std::string& form) {
  std::vector<Effect> effects = text_effects.results();
  if (top) {
    std::erase_if(effects, [](const Effect& effect) {
      return effect.part != Component::head && effect.part != Component::expert &&
             effect.part != Component::set;
    });
    const auto magnitude = [](const Effect& effect) {
      const double number = effect.kl ? *effect.kl : effect.change.value_or(0);
      return std::isnan(number) ? -1 : number; // NaN sorts last
    };
    std::ranges::stable_sort(effects, std::greater<>(), magnitude);
    effects.resize(std::min(effects.size(), *top));
  }
  const Stopwatch watch(common.write_s);
  render::EffectsView view{per_position,
                           spread ? text_effects.deviations() : std::vector<Effect>()};
  view.answer = followed.in_words(view.answer);
  view.experts = experts;
  const render::TextStyle text_style = text_style_of(output, common.color);
  write_text(output.path, effects_table(effects, view, text_style.width)
                              .as(form, text_style, precision, render::indented));
}

void add_effects_examples(Cli& cli) {
  cli.example("effects data/induction-model --text-file data/induction-model/expected/repeat.txt "
              "--query 17-31",
              "find the heads that a model needs to repeat earlier text");
  cli.example("effects data/bard-gpt2 --text 'O Romeo, Romeo! wherefore art thou' --top 5",
              "list the five heads that this prediction needs most");
  cli.example("effects data/bard-gpt2 --text 'What news from' --patch-from 'What says my' "
              "--sweep resid_pre --quiet",
              "find the layers and positions that carry the difference between two texts");
}

} // namespace

Run declare_effects(Cli& cli) {
  const auto effects = std::make_shared<EffectsCommand>();
  effects->choices = cli.choices();
  cli.about("Measures how each head, each layer's attention and each feed-forward affects a "
            "model's prediction: the part is ablated, and everything after it is computed again. "
            "Each row shows the change of the prediction, patched − clean; `direct` is the part's "
            "own contribution to the answer's logit. The prediction is that of the last token, or "
            "the mean over the positions of --query; --query all uses every position.");
  cli.group("Effects");
  cli.choice("--ablate", {"zero", "mean", "resample"}, effects->ablate,
             "what replaces a part: zero (the default), its mean over all positions, or the next "
             "text's values");
  cli.choice("--align", {"end"}, effects->align,
             "align texts of unequal length at their ends; positions before the start of the next "
             "text keep their own values");
  Option set;
  set.name = "--together", set.value_name = "PLACES", set.repeats = true;
  set.help = "also ablate these places together, in a separate row: 'layers.1.head_out[[0,3]] "
             "+ layers.0.mlp_out'";
  set.set = [effects](const std::string& places) {
    if (!effects->ablation_set.empty())
      throw UsageError("--together is given twice, but takes one set; join the places with ' + '");
    effects->ablation_set = places;
  };
  cli.add(std::move(set)).formerly("--set");
  add_followed_tokens(cli, effects->followed,
                      "the token whose logit is measured; default: the most probable one",
                      "a token whose logit is subtracted from the answer's");
  cli.flag("--centre", effects->centre, "subtract the mean logit of the vocabulary");
  cli.flag("--experts", effects->experts,
           "also leave out each expert of a mixture, for the tokens that chose it");
  cli.flag("--per-position", effects->per_position,
           "one row for each part and position instead of the mean over positions");
  cli.flag("--spread", effects->spread,
           "show the standard deviation over the predictions beside each mean")
      .chooses = false; // the deviation is always computed
  // All effects are computed, whichever of them --top shows.
  cli.value("--top", "N", effects->top, "only the N heads and experts with the largest effect")
      .chooses = false;
  cli.flag("--resume", effects->resume,
           "save the progress over many texts in FILE.resume beside --output FILE, and continue "
           "from it")
      .chooses = false;
  add_sweep(cli, effects->sweep);
  add_selection(cli, effects->selection,
                {.batch = false, .head = false, .query = true, .key = false});
  add_grid_option(cli, effects->grid, {"kl", "loss_change", "logit_change", "direct", "change"});
  add_figure(cli, effects->figure, "a table has the numbers");
  add_output(
      cli, effects->output, result_formats({"npy", "text", "png", "svg", "pdf"}),
      "write to a file; .png, .svg and .pdf are pictures, text is a picture in the terminal");
  add_precision(cli, effects->precision,
                [effects] { return picture_or_form(effects->output, !effects->grid.empty()); });
  add_layer(cli, effects->request);
  cli.unused({"--tokens", "--key-tokens"},
             [] { return std::string("has no effect: no token labels are printed"); });
  add_common(cli, effects->common);
  add_effects_examples(cli);
  return [effects] { return effects->run(); };
}

} // namespace mha::app
