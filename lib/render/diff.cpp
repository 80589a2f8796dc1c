#include <mha/render/diff.hpp>

#include <mha/render/diff_exact.hpp>
#include <mha/render/json_text.hpp>
#include <mha/render/label.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <cmath>
#include <functional>

namespace mha::render {

namespace {

std::vector<std::string> stage_names(const std::vector<Stage>& stages) {
  std::vector<std::string> names;
  for (Stage stage : stages) names.emplace_back(mha::name_of(stage));
  return names;
}

/// " 'cat'" for position i of some labels, or "".
std::string label_text(const std::vector<std::string>& labels, std::size_t i) {
  return i < labels.size() ? fmt::format(" '{}'", shortened(readable(labels[i]), 16)) : "";
}

/// One index of an element, and what it counts.
struct Coordinate {
  std::string_view word;
  std::size_t index;
  std::string label; ///< " 'cat'", or ""
};

std::vector<Coordinate> coordinates(const Layer& layer, Stage stage,
                                    const std::vector<std::size_t>& at) {
  std::vector<Dim> letters = info_of(stage).letters;
  if (layer.settings.columns && info_of(stage).kind != Kind::row)
    std::swap(letters.end()[-1], letters.end()[-2]);
  std::vector<Coordinate> list;
  if (layer.dims.batched) list.push_back({"batch", at[0], ""});
  for (Dim letter : letters) {
    const std::size_t i = at[list.size()];
    switch (axis_of(letter)) {
    case Axis::kv_head:
      list.push_back({layer.dims.H == layer.dims.H_kv ? "head" : "key/value head", i, ""});
      break;
    case Axis::query:
      list.push_back({"query", i, label_text(layer.tokens_of(layer.dims.batched ? at[0] : 0), i)});
      break;
    case Axis::key: // labels count every key, k and v the current ones
      list.push_back({"key", i,
                      label_text(layer.key_tokens_of(layer.dims.batched ? at[0] : 0),
                                 letter == Dim::S ? layer.dims.past + i : i)});
      break;
    case Axis::head:
      list.push_back({"head", i, ""});
      break;
    default:
      list.push_back({"dimension", i, ""});
      break;
    }
  }
  return list;
}

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

/// What counts as a difference.
std::string about_tolerance(const Diff& diff, bool one_for_all, bool heads) {
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

/// "h2 q17 't9' k4": a place as short as a table needs it.
std::string short_place(const Layer& layer, Stage stage, const std::vector<std::size_t>& at) {
  return joined_texts(coordinates(layer, stage, at), " ", [](const Coordinate& place) {
    return fmt::format("{}{}{}", place.word.starts_with("key/") ? "kv" : place.word.substr(0, 1),
                       place.index, place.label);
  });
}

std::size_t count_of(const Diff& diff, const std::function<bool(const StageDiff&)>& matches) {
  return static_cast<std::size_t>(std::count_if(diff.stages.begin(), diff.stages.end(), matches));
}

std::string agreement(const Diff& diff) {
  const std::size_t n = diff.stages.size(), equal = count_of(diff, [](const StageDiff&row) {
                                              return row.status == DiffStatus::equal;
                                            });
  if (equal == n) return n == 1 ? "It has the same bits." : "Every stage has the same bits.";
  std::string text =
      equal == 0 ? std::string("Every stage agrees within the tolerance.")
                 : fmt::format("{} of {} stages {} the same bits, the rest agrees within the "
                               "tolerance.",
                               equal, n, equal == 1 ? "has" : "have");
  if (count_of(diff, [](const StageDiff& row) {
        return row.status == DiffStatus::close && !row.difference.within && !row.pass_rounding;
      }) > 0)
    text += " Where some elements are outside, the step itself is sound: computed from the "
            "reference's own stages before it, it agrees.";
  if (count_of(diff, [](const StageDiff& row) { return row.pass_rounding.has_value(); }) > 0)
    text +=
        " Where rounding is said, elements are outside by no more than a pass in this precision "
        "is from one in float64.";
  return text;
}

/// What the reference says about the inputs of the first step that differs.
std::string about_inputs(const Layer& layer, const Diff& diff, const StageDiff& row,
                         const Reference& reference) {
  std::vector<Stage> between; // steps that only the reference has
  for (const Stage stage : reference.lacking)
    if (stage < row.stage) between.push_back(stage);
  std::string text;
  if (!row.from.empty())
    text = fmt::format(" What it is computed from ({}) agrees, so it is this step: {}{}.",
                       joined(stage_names(row.from)), info_of(row.stage).value,
                       row.between.empty()
                           ? ""
                           : fmt::format("; or a step between, which the reference does not show: "
                                         "{}",
                                         joined(stage_names(row.between))));
  else if (row.stage == Stage::x && layer.settings.input_norm != InputNorm::none)
    text =
        " It is norm(X), the input behind the layer's norm: is X the same on both sides, and the "
        "norm's kind, weight and epsilon?";
  else if (row.stage == Stage::x)
    text = " It is the input: a comparison needs the same one on both sides.";
  else if (row.stage <= Stage::v && !reference.find(Stage::x))
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
        return one.stage < row.stage && one.difference.within &&
               info_of(one.stage).letters == info_of(row.stage).letters;
      });
  if (row.reference->doubtful && !settled)
    text += typed(message(" Its shape fits tokens first, too; if that is meant, say so: <against> "
                          "{}=FILE@AXES.",
                          mha::name_of(row.stage)));
  return text;
}

/// What is known about the first difference, in words.
std::string first_step(const Layer& layer, const Diff& diff, const Reference& reference) {
  if (!diff.first) return agreement(diff);
  const auto row = std::ranges::find(diff.stages, *diff.first, &StageDiff::stage);
  const Difference& found = row->difference;
  std::string text =
      fmt::format("{} is the first step that differs: {} here, {} in the reference, at {}.",
                  mha::name_of(row->stage), rounded(found.ours, 6), rounded(found.theirs, 6),
                  place_text(layer, row->stage, found.at));
  text += about_inputs(layer, diff, *row, reference);
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
    text += fmt::format(" {} differ{} by {}, too.", joined(own), own.size() == 1 ? "s" : "",
                        own.size() == 1 ? "itself" : "themselves");
  if (!sound.empty())
    text += own.empty() && unknown.empty()
                ? " The steps after it are sound: they follow from it."
                : fmt::format(" {} {} sound.", joined(sound), sound.size() == 1 ? "is" : "are");
  if (!unknown.empty())
    text += fmt::format(" Whether {} {} by {} cannot be told without the layer's tensors.",
                        joined(unknown), unknown.size() == 1 ? "differs" : "differ",
                        unknown.size() == 1 ? "itself" : "themselves");
  return text;
}

void put_stage(JsonText& json, const StageDiff& row) {
  const Difference& d = row.difference;
  json.object([&] {
    json.member("stage", mha::name_of(row.stage))
        .member("status", mha::name_of(row.status))
        .member("max_abs", d.max_abs)
        .member("max_rel", d.max_rel);
    json.key("at").list(d.at);
    json.member("mismatched", d.mismatched)
        .member("cosine", d.cosine)
        .member("count", d.count)
        .member("ours", d.ours)
        .member("reference", d.theirs);
    json.key("worst_head").value_or_null(d.worst_head);
    json.key("own").value_or_null(row.own);
    if (row.pass_rounding) json.member("pass_rounding", *row.pass_rounding);
    if (row.exact)
      json.key("exact").object([&] {
        json.member("ours", row.exact->ours)
            .member("reference", row.exact->theirs)
            .member("ratio", row.exact->ratio());
      });
    json.key("from").list(stage_names(row.from));
    json.member("atol", row.tolerance.absolute)
        .member("rtol", row.tolerance.relative)
        .member("rounding", row.rounding)
        .member("dtype", mha::name_of(row.reference->stored))
        .member("precision", mha::name_of(row.precision))
        .member("source", row.reference->source)
        .member("rearranged", row.reference->rearranged);
  });
}

/// The stage of which it is said how far it is from float64: the first that differs, or the
/// farthest.
const StageDiff* exact_to_tell(const Diff& diff) {
  const StageDiff* told = nullptr;
  for (const StageDiff& row : diff.stages) {
    if (!row.exact) continue;
    if (row.stage == diff.first) return &row;
    if (!told || row.exact->ratio() > told->exact->ratio()) told = &row;
  }
  return told;
}

/// What the rows of a table have.
struct DiffColumns {
  bool heads = false, numbers = false;
  const StageDiff* told = nullptr; ///< the stage whose distance from float64 is said
};

DiffColumns columns_of(const Diff& diff) {
  DiffColumns columns{.told = exact_to_tell(diff)};
  for (const StageDiff& row : diff.stages) {
    const bool same = row.status == DiffStatus::equal;
    columns.numbers = columns.numbers || !same;
    columns.heads = columns.heads || (!same && row.difference.worst_head.has_value());
  }
  return columns;
}

std::string stages_text(const Layer& layer, const Diff& diff, const DiffColumns& has,
                        const TextStyle& text_style) {
  const auto [heads, numbers, told] = has;
  std::vector<TextTable::Column> columns{{.names = true}, {.title = "stage", .names = true}, {""}};
  if (told) std::ranges::copy(exact_columns(), std::back_inserter(columns));
  if (numbers) columns.push_back({"max abs", true});
  if (numbers && !told)
    columns.insert(columns.end(), {{"max rel", true}, {"differ", true}, {"cosine", true}});
  if (heads) columns.push_back({"head", true});
  if (numbers) columns.push_back({"where", false, true});
  TextTable grid(std::move(columns));
  for (const StageDiff& row : diff.stages) {
    const Difference& d = row.difference;
    const bool first = row.status == DiffStatus::first, same = row.status == DiffStatus::equal;
    std::vector<std::string> cells{first ? "→" : "", std::string(mha::name_of(row.stage)),
                                   verdict_text(row)};
    if (told) std::ranges::copy(exact_cells(row.exact), std::back_inserter(cells));
    if (same && numbers) cells.insert(cells.end(), (told ? 2 : 5) + (heads ? 1 : 0), "");
    if (!same) {
      cells.push_back(error_text(d.max_abs));
      if (!told)
        cells.insert(cells.end(), {error_text(d.max_rel), share_text(d), cosine_text(d.cosine)});
      if (heads) cells.push_back(d.worst_head ? std::to_string(*d.worst_head) : "");
      cells.push_back(short_place(layer, row.stage, d.at));
    }
    for (std::string& cell : cells) {
      if (first) cell = text_style.bold(cell);
      if (same) cell = text_style.dim(cell);
    }
    grid.add(std::move(cells));
  }
  return grid.text(text_style);
}

} // namespace

std::string place_text(const Layer& layer, Stage stage, const std::vector<std::size_t>& at) {
  return joined_texts(coordinates(layer, stage, at), " ", [](const Coordinate& place) {
    return fmt::format("{} {}{}", place.word, place.index, place.label);
  });
}

std::string diff_table(const Layer& layer, const Diff& diff, const Reference& reference,
                       const std::string& next, const TextStyle& text_style) {
  const DiffColumns has = columns_of(diff);
  std::string out = diff.stages.empty() ? "" : stages_text(layer, diff, has, text_style) + "\n";
  const auto paragraph = [&](const std::string& text, bool dim) {
    for (const std::string& line : wrapped(text, text_style.width))
      out += (dim ? text_style.dim(line) : line) + "\n";
  };
  if (!diff.stages.empty()) {
    paragraph(first_step(layer, diff, reference) +
                  (has.told ? " " + exact_sentence(mha::name_of(has.told->stage), *has.told->exact,
                                                   has.told->precision)
                            : ""),
              false);
    const Tolerance& tolerance = diff.stages[0].tolerance;
    const bool one = std::all_of(diff.stages.begin(), diff.stages.end(), [&](const StageDiff& row) {
      return row.tolerance.absolute == tolerance.absolute &&
             row.tolerance.relative == tolerance.relative;
    });
    if (has.numbers) paragraph(about_tolerance(diff, one, has.heads), true);
  }
  const auto list = [&](std::string_view title, const std::vector<std::string>& names) {
    if (names.empty()) return;
    std::vector<std::string> shown;
    for (const std::string& name : names) shown.push_back(visible(name));
    for (const std::string& line : wrapped_list(title, shown, text_style.width))
      out += text_style.dim(line) + "\n";
  };
  list("not compared, as nothing says how they were computed here", diff.not_compared);
  list("passed over, no stage of this layer", reference.passed_over);
  return out + (next.empty() ? "" : "\n" + next);
}

std::string diff_json(const Diff& diff, const Reference& reference) {
  JsonText json;
  json.object([&] {
    json.member("equal", diff.equal());
    json.key("first").words_or_null(diff.first ? mha::name_of(*diff.first) : "");
    json.key("stages").list(diff.stages, [&](const StageDiff& row) { put_stage(json, row); },
                            {"\n    ", "\n    ", "\n  "});
    json.begin_next_after("\n  ");
    json.key("not_compared").list(diff.not_compared);
    json.key("passed_over").list(reference.passed_over);
    json.key("notes").list(reference.notes);
  });
  return json.take();
}

std::string diff_json(const std::vector<LayerDiff>& layers) {
  if (layers.size() == 1) return layers[0].json + "\n";
  JsonText json;
  json.object(
      [&] {
        for (const LayerDiff& one : layers)
          json.key(one.layer.empty() ? "model" : "layers." + one.layer).as_it_is(one.json);
      },
      on_lines);
  return json.take() + "\n";
}

} // namespace mha::render
