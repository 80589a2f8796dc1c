#include <mha/render/diff.hpp>

#include <mha/naming/formula.hpp>
#include <mha/render/diff_parts.hpp>
#include <mha/render/numbers.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

namespace mha::render {

namespace {

std::string verdict_text(const StageDiff& row) {
  switch (row.status) {
  case DiffStatus::equal:
    return "equal";
  case DiffStatus::close:
    return row.difference.within                   ? "close"
           : row.pass_rounding && row.from.empty() ? "rounding"
                                                   : "close*";
  case DiffStatus::first:
    return "first";
  case DiffStatus::inherited:
    return row.own == true ? "differs" : row.own ? "follows" : "follows?";
  case DiffStatus::same:
    return "same tensor";
  }
  return "";
}

std::string error_text(double error) {
  return std::isnan(error) ? "NaN" : fmt::format("{:.2g}", error);
}

std::string share_text(const Difference& difference) {
  if (difference.mismatched == 0) return "–";
  const double share =
      100 * static_cast<double>(difference.mismatched) / static_cast<double>(difference.count);
  return share < 0.1                   ? "<0.1 %"
         : share > 99.9 && share < 100 ? ">99.9 %"
                                       : fmt::format("{:.3g} %", share);
}

std::string cosine_text(double cosine) {
  if (cosine > 0.9999 && cosine < 1) return ">0.9999";
  return fmt::format("{:.4g}", cosine);
}

std::string tolerance_text(const Tolerance& tolerance) {
  return fmt::format("{:g} + {:g} · |reference|", tolerance.absolute, tolerance.relative);
}

/// What counts as a difference: the tolerances, and the legend of the column `head`.
std::string about_tolerance(const Diff& diff, bool heads) {
  const bool same_for_all = std::ranges::all_of(
      diff.stages, [&](const StageDiff& row) { return row.tolerance == diff.stages[0].tolerance; });
  const auto with_rounding = std::find_if(diff.stages.begin(), diff.stages.end(),
                                          [](const StageDiff& row) { return row.rounding > 0; });
  return fmt::format(
      "differ: elements with |ours − reference| > {}{}{}",
      same_for_all ? tolerance_text(diff.stages[0].tolerance)
                   : typed(message("the tolerance of their stage (<format> json lists them)")),
      with_rounding == diff.stages.end()
          ? ""
          : fmt::format(", and beyond what rounding to {} adds up to along the chain",
                        mha::name_of(with_rounding->precision)),
      heads ? " · head: the worst one" : "");
}

std::size_t count_of(const Diff& diff, const std::function<bool(const StageDiff&)>& matches) {
  return static_cast<std::size_t>(std::count_if(diff.stages.begin(), diff.stages.end(), matches));
}

/// " (after rounding to bfloat16)" if the bits of some stages are equal only after that rounding.
std::string after_rounding(const Diff& diff, const Layer& layer) {
  std::optional<DType> coarsest;
  for (const StageDiff& row : diff.stages) {
    if (row.status != DiffStatus::equal || row.difference.max_abs == 0) continue;
    const DType type = coarser_of(layer.dtype, row.reference->stored);
    coarsest = coarsest ? coarser_of(*coarsest, type) : type;
  }
  return coarsest ? fmt::format(" (after rounding to {})", mha::name_of(*coarsest)) : "";
}

/// The sentence if nothing was compared, or only inputs.
std::string nothing_compared(const Diff& diff, const Outcome& outcome) {
  if (outcome.compared.empty() && diff.stages.empty()) return "Nothing was compared.";
  if (outcome.compared.empty())
    return "Nothing was compared: the reference has only tensors that this layer reads from the "
           "same file.";
  return fmt::format("Only inputs were compared: the computation begins with {}.",
                     joined(stage_names(outcome.compared)));
}

std::string agreement(const Layer& layer, const Diff& diff, const Outcome& outcome) {
  if (outcome.compared.empty() || outcome.only_inputs) return nothing_compared(diff, outcome);
  const std::size_t n = outcome.compared.size();
  const std::size_t equal =
      count_of(diff, [](const StageDiff& row) { return row.status == DiffStatus::equal; });
  const std::string rounding = after_rounding(diff, layer);
  if (equal == n)
    return n == 1 ? fmt::format("{} matches bit for bit{}.", mha::name_of(outcome.compared[0]),
                                rounding)
           : outcome.not_compared.empty()
               ? fmt::format("All stages match bit for bit{}.", rounding)
               : fmt::format("The {} stages that were compared match bit for bit{}.", n, rounding);
  std::string text =
      equal == 0 ? fmt::format("Every stage{} agrees within the tolerance.",
                               outcome.not_compared.empty() ? "" : " that was compared")
                 : fmt::format("{} of {} stages {} bit for bit{}, the rest agrees within the "
                               "tolerance.",
                               equal, n, equal == 1 ? "matches" : "match", rounding);
  if (count_of(diff, [](const StageDiff& row) {
        return row.status == DiffStatus::close && !row.difference.within && !row.pass_rounding;
      }) > 0)
    text +=
        " Steps marked close* have elements outside it, but are sound in themselves: they agree "
        "when computed from the reference's own earlier stages.";
  if (count_of(diff, [](const StageDiff& row) { return row.pass_rounding.has_value(); }) > 0)
    text +=
        " Where the verdict is rounding, the elements outside it are off by no more than a pass "
        "in this precision differs from one in float64.";
  return text;
}

/// What was not compared, and what that means for the verdict.
std::string about_missing(const Outcome& outcome, const Reference& reference) {
  if (const std::string heads = reference.about_heads(); !heads.empty())
    return " T" + heads.substr(1) + "."; // "the reference has …" begins a sentence here
  std::vector<std::string> misshapen, others;
  for (const NotCompared& tensor : outcome.not_compared)
    (tensor.misshapen ? misshapen : others).push_back(visible(tensor.name));
  std::string text;
  if (!misshapen.empty())
    text += fmt::format(" {} {} another shape in the reference, which counts as a difference.",
                        joined(misshapen), misshapen.size() == 1 ? "has" : "have");
  if (!others.empty())
    text +=
        fmt::format(" {} {} not compared{}.", joined(others), others.size() == 1 ? "was" : "were",
                    outcome.verdict == Verdict::incomplete ? ", so this is not agreement" : "");
  return text;
}

/// Where the first difference may come from: the step itself, or its inputs.
std::string about_cause(const Layer& layer, const Diff& diff, const StageDiff& row,
                        const Reference& reference) {
  std::vector<Stage> extra_steps; // which only the reference has, before this one
  for (const Stage stage : reference.lacking)
    if (comes_before(stage, row.stage)) extra_steps.push_back(stage);
  std::string text;
  if (!row.from.empty())
    text = fmt::format(
        " Its inputs agree ({}), so this step itself differs: {}{}.", joined(stage_names(row.from)),
        general_formula(row.stage, layer.settings.columns),
        row.between.empty() ? row.stage == Stage::rollout && !layer.rollout_before.empty()
                                  ? "; or the rollout of the layer before differs"
                                  : ""
                            : fmt::format("; or a step in between that the reference lacks: {}",
                                          joined(stage_names(row.between))));
  else if (row.stage == Stage::x && layer.settings.input_norm != InputNorm::none)
    text = " It is norm(X), the input after the layer's norm: check that X, and the norm's kind, "
           "weight and epsilon, are the same on both sides.";
  else if (row.stage == Stage::x)
    text = " It is the input, which must be the same on both sides.";
  else if (!comes_before(Stage::v, row.stage) && !reference.find(Stage::x))
    text = " The reference has no x: check that its input is the same.";
  else if (diff.stages.size() > 1)
    text = " The reference has none of the stages that this step is computed from.";
  else
    text =
        " The reference has no other stage: save more of them to see where the difference begins.";
  if (!extra_steps.empty())
    text = fmt::format(
        " The reference also has {}, which this layer does not have: check for a missing "
        "setting or tensor.",
        joined(stage_names(extra_steps)));
  // An earlier stage with the same axes that agrees shows that their order was read correctly.
  const bool order_is_known =
      std::any_of(diff.stages.begin(), diff.stages.end(), [&](const StageDiff& earlier) {
        return comes_before(earlier.stage, row.stage) && earlier.difference.within &&
               info_of(earlier.stage).letters == info_of(row.stage).letters;
      });
  if (row.reference->doubtful && !order_is_known)
    text += typed(message(" Its shape also fits tokens first; if that is meant, give <against> "
                          "{}=FILE@AXES.",
                          mha::name_of(row.stage)));
  return text;
}

/// Which heads and rows differ, and by how many units in the last place.
std::string where_and_by_how_much(const Layer& layer, const StageDiff& row) {
  const Difference& found = row.difference;
  const std::string places = regions_text(layer, row.stage, found);
  return fmt::format(" It differs in {} of {} numbers{}{}. {}", found.mismatched, found.count,
                     places.empty() ? "" : ": ", places,
                     ulp_sentence(found, coarser_of(layer.dtype, row.reference->stored)));
}

/// If all stages agree: the one with the largest distance in units of the last place.
std::string largest_distance(const Layer& layer, const Diff& diff) {
  const StageDiff* farthest = nullptr;
  for (const StageDiff& row : diff.stages)
    if (row.status != DiffStatus::same && row.difference.ulp.largest > 0 &&
        (!farthest || row.difference.ulp.largest > farthest->difference.ulp.largest))
      farthest = &row;
  if (!farthest) return "";
  return fmt::format(
      " The largest distance is in {}: {}", mha::name_of(farthest->stage),
      ulp_sentence(farthest->difference, coarser_of(layer.dtype, farthest->reference->stored)));
}

/// A sentence on a difference before the softmax without an effect, if the weights and all that is
/// compared after them agree.
std::string about_no_effect(const Diff& diff) {
  if (!comes_before(*diff.first, Stage::weights)) return "";
  std::vector<std::string> after;
  for (const StageDiff& row : diff.stages) {
    if (comes_before(row.stage, Stage::weights) || row.status == DiffStatus::same) continue;
    if (row.status == DiffStatus::inherited || !row.difference.within) return "";
    after.emplace_back(mha::name_of(row.stage));
  }
  if (after.empty()) return "";
  return fmt::format(
      " {} agree{} all the same: what differs in {} has no effect there, as a factor "
      "that is taken back, another order or a number added to each row; diagnose "
      "names it.",
      joined(after), after.size() == 1 ? "s" : "", mha::name_of(*diff.first));
}

/// The paragraph below the table: the first step that differs, its cause and the later steps; or
/// that all agree.
std::string verdict_paragraph(const Layer& layer, const Diff& diff, const Reference& reference,
                              const Outcome& outcome) {
  const std::string missing = about_missing(outcome, reference);
  if (!diff.first) return agreement(layer, diff, outcome) + largest_distance(layer, diff) + missing;
  const auto row = std::ranges::find(diff.stages, *diff.first, &StageDiff::stage);
  const Difference& found = row->difference;
  std::string text =
      fmt::format("{} is the first step that differs: {} here, {} in the reference, at {}.",
                  mha::name_of(row->stage), rounded(found.ours, 6), rounded(found.theirs, 6),
                  place_text(coordinates_of(layer, row->stage, found.at)));
  text += where_and_by_how_much(layer, *row);
  if (reference.has_misshapen()) // the wrong shape is the cause
    return text + missing;
  text += about_cause(layer, diff, *row, reference) + about_no_effect(diff) + missing;
  std::vector<std::string> wrong, sound, unknown;
  for (const StageDiff& later : diff.stages) {
    if (later.status != DiffStatus::inherited) continue;
    const std::string name(mha::name_of(later.stage));
    if (!later.own)
      unknown.push_back(name);
    else if (!*later.own)
      sound.push_back(name);
    else
      wrong.push_back(later.from.empty() ? name
                                         : fmt::format("{} (computed from the reference's {})",
                                                       name, joined(stage_names(later.from))));
  }
  if (!wrong.empty())
    text += fmt::format(" {} also differ{} by {}.", joined(wrong), wrong.size() == 1 ? "s" : "",
                        wrong.size() == 1 ? "itself" : "themselves");
  if (!sound.empty())
    text += wrong.empty() && unknown.empty()
                ? " The steps after it are sound: their differences follow from it."
                : fmt::format(" {} {} sound.", joined(sound), sound.size() == 1 ? "is" : "are");
  if (!unknown.empty())
    text += fmt::format(" It cannot be decided without the layer's tensors whether {} {} by {}.",
                        joined(unknown), unknown.size() == 1 ? "differs" : "differ",
                        unknown.size() == 1 ? "itself" : "themselves");
  return text;
}

/// The stage whose distance from float64 is reported: the first that differs, or the one that is
/// farthest from float64.
const StageDiff* stage_from_exact(const Diff& diff) {
  const StageDiff* exact_row = nullptr;
  for (const StageDiff& row : diff.stages) {
    if (!row.exact) continue;
    if (row.stage == diff.first) return &row;
    if (!exact_row || row.exact->ratio > exact_row->exact->ratio) exact_row = &row;
  }
  return exact_row;
}

/// Which optional columns a table has.
struct DiffColumns {
  bool heads = false, numbers = false;
  const StageDiff* exact_row = nullptr; ///< the stage whose distance from float64 is reported
};

DiffColumns diff_columns(const Diff& diff) {
  DiffColumns columns{.exact_row = stage_from_exact(diff)};
  for (const StageDiff& row : diff.stages) {
    const bool same = row.status == DiffStatus::equal || row.status == DiffStatus::same;
    columns.numbers = columns.numbers || !same;
    columns.heads = columns.heads || (!same && row.difference.worst_head.has_value());
  }
  return columns;
}

std::string stages_text(const Layer& layer, const Diff& diff, const DiffColumns& has,
                        const TextStyle& text_style) {
  const auto [heads, numbers, exact_row] = has;
  std::vector<Table::Column> columns{{.names = true}, {.title = "stage", .names = true}, {""}};
  if (exact_row) std::ranges::copy(exact_columns(), std::back_inserter(columns));
  if (numbers) columns.insert(columns.end(), {{"max abs", true}, {"ulp", true}});
  if (numbers && !exact_row)
    columns.insert(columns.end(), {{"max rel", true}, {"differ", true}, {"cosine", true}});
  if (heads) columns.push_back({"head", true});
  if (numbers) columns.push_back({"where", false, true});
  Table grid(std::move(columns));
  for (const StageDiff& row : diff.stages) {
    const Difference& d = row.difference;
    const bool first = row.status == DiffStatus::first;
    const bool same = row.status == DiffStatus::equal || row.status == DiffStatus::same;
    std::vector<std::string> cells{first ? "→" : "", std::string(mha::name_of(row.stage)),
                                   verdict_text(row)};
    if (exact_row) std::ranges::copy(exact_cells(row.exact), std::back_inserter(cells));
    if (same && numbers) cells.insert(cells.end(), (exact_row ? 3 : 6) + (heads ? 1 : 0), "");
    if (!same) {
      cells.insert(cells.end(), {error_text(d.max_abs), ulp_text(d.ulp.largest)});
      if (!exact_row)
        cells.insert(cells.end(), {error_text(d.max_rel), share_text(d), cosine_text(d.cosine)});
      if (heads) cells.push_back(d.worst_head ? std::to_string(*d.worst_head) : "");
      cells.push_back(short_place(layer, row.stage, d.at));
    }
    for (std::string& cell : cells) {
      if (first) cell = text_style.bold(cell);
      if (same) cell = text_style.dim(cell);
    }
    grid.add(std::vector<Cell>(cells.begin(), cells.end()));
  }
  return grid.text(text_style);
}

} // namespace

std::string diff_table(const Layer& layer, const Diff& diff, const Reference& reference,
                       const Outcome& outcome, const std::string& next,
                       const TextStyle& text_style) {
  const DiffColumns has = diff_columns(diff);
  std::string out = diff.stages.empty() ? "" : stages_text(layer, diff, has, text_style) + "\n";
  const auto paragraph = [&](const std::string& text, bool dim) {
    for (const std::string& line : wrapped(text, text_style.width))
      out += (dim ? text_style.dim(line) : line) + "\n";
  };
  paragraph(verdict_paragraph(layer, diff, reference, outcome) +
                (has.exact_row
                     ? " " + exact_sentence(mha::name_of(has.exact_row->stage),
                                            *has.exact_row->exact)
                     : ""),
            false);
  if (has.numbers) paragraph(about_tolerance(diff, has.heads), true);
  const auto list = [&](std::string_view title, const std::vector<std::string>& names) {
    if (names.empty()) return;
    std::vector<std::string> shown;
    for (const std::string& name : names) shown.push_back(visible(name));
    for (const std::string& line : wrapped_list(title, shown, text_style.width))
      out += text_style.dim(line) + "\n";
  };
  if (reference.about_heads().empty()) {
    std::vector<std::string> tensors;
    for (const NotCompared& tensor : outcome.not_compared) tensors.push_back(tensor.text());
    list("not compared", tensors);
  }
  list("skipped, not a stage", reference.skipped);
  return out + (next.empty() ? "" : "\n" + next);
}

} // namespace mha::render
