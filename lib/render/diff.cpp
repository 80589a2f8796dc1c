#include <mha/render/diff.hpp>

#include <mha/render/diff_parts.hpp>
#include <mha/render/numbers.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <cmath>
#include <functional>

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

/// The tolerances that decide what differs.
std::string about_tolerance(const Diff& diff, bool heads) {
  const bool one_for_all = std::ranges::all_of(
      diff.stages, [&](const StageDiff& row) { return row.tolerance == diff.stages[0].tolerance; });
  const auto rounded = std::find_if(diff.stages.begin(), diff.stages.end(),
                                    [](const StageDiff& row) { return row.rounding > 0; });
  return fmt::format(
      "differ: elements with |ours − reference| > {}{}{}",
      one_for_all ? tolerance_text(diff.stages[0].tolerance)
                  : typed(message("the tolerance of their stage (<format> json lists them)")),
      rounded == diff.stages.end()
          ? ""
          : fmt::format(", and beyond what rounding to {} grows to along the chain",
                        mha::name_of(rounded->precision)),
      heads ? " · head: the worst one" : "");
}

std::size_t count_of(const Diff& diff, const std::function<bool(const StageDiff&)>& matches) {
  return static_cast<std::size_t>(std::count_if(diff.stages.begin(), diff.stages.end(), matches));
}

/// " (after rounding to bfloat16)", where bits of stages are the same only then.
std::string after_rounding(const Diff& diff, const Layer& layer) {
  const DType* type = nullptr;
  DType coarser = DType::f32;
  for (const StageDiff& row : diff.stages) {
    if (row.status != DiffStatus::equal || row.difference.max_abs == 0) continue;
    const DType own = coarser_of(layer.dtype, row.reference->stored);
    coarser = type ? coarser_of(coarser, own) : own;
    type = &coarser;
  }
  return type ? fmt::format(" (after rounding to {})", mha::name_of(*type)) : "";
}

/// The sentence where nothing, or nothing but the input, was compared.
std::string nothing_after_inputs(const Diff& diff, const Outcome& outcome) {
  if (outcome.compared.empty() && diff.stages.empty()) return "Nothing was compared.";
  if (outcome.compared.empty())
    return "Nothing was compared: what the reference has are the tensors of the same file that "
           "this layer is given.";
  return fmt::format("Nothing after the inputs was compared: {} {} where the computation begins.",
                     joined(stage_names(outcome.compared)),
                     outcome.compared.size() == 1 ? "is" : "are");
}

std::string agreement(const Layer& layer, const Diff& diff, const Outcome& outcome) {
  if (outcome.compared.empty() || outcome.only_inputs) return nothing_after_inputs(diff, outcome);
  const std::size_t n = outcome.compared.size(), equal = count_of(diff, [](const StageDiff&row) {
                                                   return row.status == DiffStatus::equal;
                                                 });
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
    text += " Where some elements are outside, the step itself is sound: computed from the "
            "reference's own stages before it, it agrees.";
  if (count_of(diff, [](const StageDiff& row) { return row.pass_rounding.has_value(); }) > 0)
    text += " Where the verdict is rounding, elements are outside by no more than a pass in this "
            "precision is from one in float64.";
  return text;
}

/// The effect on the verdict of what was not compared.
std::string about_missing(const Outcome& outcome, const Reference& reference) {
  if (const std::string heads = reference.about_heads(); !heads.empty())
    return " T" + heads.substr(1) + ".";
  std::vector<std::string> misshapen, others;
  for (const NotCompared& one : outcome.not_compared)
    (one.misshapen ? misshapen : others).push_back(visible(one.name));
  std::string text;
  if (!misshapen.empty())
    text += fmt::format(" {} {} of another shape in the reference: that is a difference.",
                        joined(misshapen), misshapen.size() == 1 ? "is" : "are");
  if (!others.empty())
    text +=
        fmt::format(" {} {} not compared{}.", joined(others), others.size() == 1 ? "was" : "were",
                    outcome.verdict == Verdict::incomplete ? ": that is not agreement" : "");
  return text;
}

/// Whether the inputs of the first step that differs agree.
std::string about_inputs(const Layer& layer, const Diff& diff, const StageDiff& row,
                         const Reference& reference) {
  std::vector<Stage> between; // steps that only the reference has
  for (const Stage stage : reference.lacking)
    if (comes_before(stage, row.stage)) between.push_back(stage);
  std::string text;
  if (!row.from.empty())
    text = fmt::format(" What it is computed from ({}) agrees, so it is this step: {}{}.",
                       joined(stage_names(row.from)), info_of(row.stage).value,
                       row.between.empty()
                           ? row.stage == Stage::rollout && !layer.rollout_before.empty()
                                 ? "; or that of the layer before"
                                 : ""
                           : fmt::format("; or a step between, which the reference does not show: "
                                         "{}",
                                         joined(stage_names(row.between))));
  else if (row.stage == Stage::x && layer.settings.input_norm != InputNorm::none)
    text = " It is norm(X), the input after the layer's norm: is X the same on both sides, and the "
           "norm's kind, weight and epsilon?";
  else if (row.stage == Stage::x)
    text = " It is the input: a comparison needs the same one on both sides.";
  else if (!comes_before(Stage::v, row.stage) && !reference.find(Stage::x))
    text = " The reference has no x: is its input the same?";
  else if (diff.stages.size() > 1)
    text = " The reference has none of the stages that it is computed from.";
  else
    text = " The reference has no other stage: save more of them to see where it begins.";
  if (!between.empty())
    text = fmt::format(" The reference also has {}, which this layer has not: is a setting or a "
                       "tensor missing here?",
                       joined(stage_names(between)));
  // One of the same shape that agrees has settled how they are read.
  const bool settled =
      std::any_of(diff.stages.begin(), diff.stages.end(), [&](const StageDiff& one) {
        return comes_before(one.stage, row.stage) && one.difference.within &&
               info_of(one.stage).letters == info_of(row.stage).letters;
      });
  if (row.reference->doubtful && !settled)
    text += typed(message(" Its shape also fits tokens first; if that is meant, give <against> "
                          "{}=FILE@AXES.",
                          mha::name_of(row.stage)));
  return text;
}

/// The heads and rows of a difference, and its size in units of the last place.
std::string where_and_by_how_much(const Layer& layer, const StageDiff& row) {
  const Difference& found = row.difference;
  const std::string places = regions_text(layer, row.stage, found);
  return fmt::format(" It differs in {} of {} numbers{}{}. {}", found.mismatched, found.count,
                     places.empty() ? "" : ": ", places,
                     ulp_sentence(found, coarser_of(layer.dtype, row.reference->stored)));
}

/// The stage with the largest distance in units of the last place, where all agree.
std::string farthest(const Layer& layer, const Diff& diff) {
  const StageDiff* far = nullptr;
  for (const StageDiff& row : diff.stages)
    if (row.status != DiffStatus::same && row.difference.ulp.largest > 0 &&
        (!far || row.difference.ulp.largest > far->difference.ulp.largest))
      far = &row;
  if (!far) return "";
  return fmt::format(
      " Farthest is {}: {}", mha::name_of(far->stage),
      ulp_sentence(far->difference, coarser_of(layer.dtype, far->reference->stored)));
}

/// What is known about the first difference, in words.
std::string first_step(const Layer& layer, const Diff& diff, const Reference& reference,
                       const Outcome& outcome) {
  const std::string missing = about_missing(outcome, reference);
  if (!diff.first) return agreement(layer, diff, outcome) + farthest(layer, diff) + missing;
  const auto row = std::ranges::find(diff.stages, *diff.first, &StageDiff::stage);
  const Difference& found = row->difference;
  std::string text =
      fmt::format("{} is the first step that differs: {} here, {} in the reference, at {}.",
                  mha::name_of(row->stage), rounded(found.ours, 6), rounded(found.theirs, 6),
                  place_text(coordinates_of(layer, row->stage, found.at)));
  text += where_and_by_how_much(layer, *row);
  if (reference.has_misshapen()) // a wrong shape explains more than the inputs do
    return text + missing;
  text += about_inputs(layer, diff, *row, reference) + missing;
  std::vector<std::string> own, sound, unknown;
  for (const StageDiff& one : diff.stages) {
    if (one.status != DiffStatus::inherited) continue;
    const std::string name(mha::name_of(one.stage));
    if (!one.own)
      unknown.push_back(name);
    else if (!*one.own)
      sound.push_back(name);
    else
      own.push_back(one.from.empty() ? name
                                     : fmt::format("{} (computed from the reference's {})", name,
                                                   joined(stage_names(one.from))));
  }
  if (!own.empty())
    text += fmt::format(" {} also differ{} by {}.", joined(own), own.size() == 1 ? "s" : "",
                        own.size() == 1 ? "itself" : "themselves");
  if (!sound.empty())
    text += own.empty() && unknown.empty()
                ? " The steps after it are sound: they follow from it."
                : fmt::format(" {} {} sound.", joined(sound), sound.size() == 1 ? "is" : "are");
  if (!unknown.empty())
    text += fmt::format(" Whether {} {} by {} cannot be decided without the layer's tensors.",
                        joined(unknown), unknown.size() == 1 ? "differs" : "differ",
                        unknown.size() == 1 ? "itself" : "themselves");
  return text;
}

/// The stage whose distance from float64 is reported: the first that differs, or the farthest.
const StageDiff* stage_from_exact(const Diff& diff) {
  const StageDiff* exact_row = nullptr;
  for (const StageDiff& row : diff.stages) {
    if (!row.exact) continue;
    if (row.stage == diff.first) return &row;
    if (!exact_row || row.exact->ratio > exact_row->exact->ratio) exact_row = &row;
  }
  return exact_row;
}

/// The kinds of columns that a table has.
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
  paragraph(first_step(layer, diff, reference, outcome) +
                (has.exact_row
                     ? " " + exact_sentence(mha::name_of(has.exact_row->stage),
                                            *has.exact_row->exact, has.exact_row->precision)
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
    std::vector<std::string> left;
    for (const NotCompared& one : outcome.not_compared) left.push_back(one.text());
    list("not compared", left);
  }
  list("skipped, not a stage", reference.skipped);
  return out + (next.empty() ? "" : "\n" + next);
}

} // namespace mha::render
