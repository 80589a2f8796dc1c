#include <mha/render/effects.hpp>

#include <mha/render/record.hpp>
#include <mha/render/text_table.hpp>
#include <mha/system/named.hpp>

#include <algorithm>
#include <array>
#include <cmath>

namespace mha::render {

namespace {

/// The columns of which some line has a number.
std::vector<EffectColumn> present_columns(const std::vector<Effect>& effects) {
  std::vector<EffectColumn> list;
  for (const EffectColumn& column : effect_columns)
    if (std::ranges::any_of(effects,
                            [&](const Effect& one) { return (one.*column.number).has_value(); }))
      list.push_back(column);
  return list;
}

std::string index_text(const std::optional<std::size_t>& index) {
  return index ? fmt::format("{}", *index) : "";
}

/// An effect, and its standard deviation where that stands beside it.
struct EffectLine {
  Effect mean;
  std::optional<Effect> deviation = {};
};

std::vector<EffectLine> effect_lines(const std::vector<Effect>& effects, const EffectsView& view) {
  std::vector<EffectLine> lines(effects.size());
  for (std::size_t i = 0; i < effects.size(); ++i) {
    lines[i].mean = effects[i];
    if (!view.deviations.empty()) lines[i].deviation = view.deviations[i];
  }
  return lines;
}

/// What CSV and JSON say of it.
auto effect_record(const EffectsView& view) {
  return [&](Record& record, const EffectLine& line) {
    const Effect& one = line.mean;
    record.words("part", name_of(one.part)).count("layer", one.layer).count("head", one.head);
    if (view.per_position) record.count("batch", one.batch).count("position", one.position);
    for (const EffectColumn& column : effect_columns) {
      record.number(column.name, one.*column.number);
      if (line.deviation)
        record.number(fmt::format("{}_sd", column.name), (*line.deviation).*column.number);
    }
  };
}

/// For eyes: four decimals, so that columns can be compared; less than that is a power of ten.
std::string for_eyes(const std::optional<double>& number) {
  if (!number) return "–";
  if (*number != 0 && std::abs(*number) < 0.00005) return fmt::format("{:.0e}", *number);
  return fmt::format("{:.4f}", *number);
}

/// How much of the largest value of the first column, as a bar.
std::string effect_bar(double share) {
  std::string text;
  for (int i = 0; i < static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * 12)); ++i)
    text += "█";
  return text;
}

/// What the columns are in, and whose logit is followed.
std::string units_text(const std::vector<EffectColumn>& shown, const std::string& answer,
                       const TextStyle& text_style) {
  const auto has = [&](std::string_view name) { return find_named(shown, name) != nullptr; };
  std::string text;
  if (has("kl")) text = fmt::format("kl{} in nats", has("loss_change") ? " and loss_change" : "");
  if (has("logit_change"))
    text += fmt::format("{}logit_change{}: of the logit of {}", text.empty() ? "" : "; ",
                        has("direct") ? " and direct" : "", answer);
  return text.empty() ? "" : "\n" + in_lines(text, text_style.width) + "\n";
}

} // namespace

std::string effects_table(const std::vector<Effect>& effects, const EffectsView& view,
                          const TextStyle& text_style) {
  const std::vector<EffectColumn> shown = present_columns(effects);
  std::vector<TextTable::Column> titles;
  if (view.per_position)
    titles = {{"text", true}, {text_style.width < 64 ? "at" : "position", true}};
  titles.insert(titles.end(), {{"layer", true}, {"part"}, {"head", true}});
  for (TextTable::Column& title : titles) title.names = true;
  const bool spreads = !view.deviations.empty();
  for (const EffectColumn& column : shown) {
    titles.push_back({std::string(column.name), true});
    if (spreads) titles.push_back({.title = "±", .right = true, .follows = true});
  }
  if (!shown.empty()) titles.push_back({.title = "", .spare = true});
  double largest = 0;
  const auto first = [&](const Effect& one) {
    return shown.empty() ? 0 : std::abs((one.*shown[0].number).value_or(0));
  };
  for (const Effect& one : effects)
    if (one.part == Component::head) largest = std::max(largest, first(one));
  TextTable grid(std::move(titles));
  for (std::size_t i = 0; i < effects.size(); ++i) {
    const Effect& one = effects[i];
    std::vector<std::string> cells;
    if (view.per_position) cells = {fmt::format("{}", one.batch), fmt::format("{}", one.position)};
    cells.insert(cells.end(),
                 {index_text(one.layer), std::string(name_of(one.part)), index_text(one.head)});
    for (const EffectColumn& column : shown) {
      cells.push_back(for_eyes(one.*column.number));
      if (spreads) cells.push_back(for_eyes(view.deviations[i].*column.number));
    }
    if (!shown.empty())
      cells.push_back(one.part == Component::head && largest > 0 ? effect_bar(first(one) / largest)
                                                                 : "");
    grid.add(std::move(cells));
  }
  return grid.text(text_style) + units_text(shown, view.answer, text_style);
}

std::string effects_csv(const std::vector<Effect>& effects, const EffectsView& view,
                        std::string_view form, bool titles) {
  return lines_of_rows(effect_lines(effects, view), form, view.precision, effect_record(view),
                       titles);
}

std::string effects_objects(const std::vector<Effect>& effects, const EffectsView& view) {
  std::string list;
  for (const EffectLine& line : effect_lines(effects, view)) {
    JsonText json(view.precision);
    put_row(json, line, effect_record(view));
    list += (list.empty() ? "  " : ",\n  ") + json.take();
  }
  return list;
}

std::string effects_text(const std::vector<Effect>& effects, const EffectsView& view,
                         std::string_view form) {
  return text_of_rows(effect_lines(effects, view), form, view.precision, effect_record(view),
                      indented);
}

} // namespace mha::render
