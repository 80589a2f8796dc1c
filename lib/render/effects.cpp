#include <mha/render/effects.hpp>

#include <mha/render/record.hpp>
#include <mha/render/table.hpp>
#include <mha/system/named.hpp>

#include <algorithm>
#include <array>
#include <cmath>

namespace mha::render {

namespace {

/// The columns in which at least one effect has a value.
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

/// An effect, and its standard deviation over texts if the view has deviations.
struct EffectLine {
  Effect effect;
  std::optional<Effect> deviation = {};
};

std::vector<EffectLine> effect_lines(const std::vector<Effect>& effects, const EffectsView& view) {
  std::vector<EffectLine> lines(effects.size());
  for (std::size_t i = 0; i < effects.size(); ++i) {
    lines[i].effect = effects[i];
    if (!view.deviations.empty()) lines[i].deviation = view.deviations[i];
  }
  return lines;
}

/// Returns the function that writes one effect, and its standard deviation if there is one, into a
/// CSV or JSON record.
auto effect_record_writer(const EffectsView& view) {
  return [&](Record& record, const EffectLine& line) {
    const Effect& one = line.effect;
    record.words("part", name_of(one.part)).count("layer", one.layer).count("head", one.head);
    if (view.per_position) record.count("batch", one.batch).count("position", one.position);
    for (const EffectColumn& column : effect_columns) {
      record.number(column.name, one.*column.number);
      if (line.deviation)
        record.number(fmt::format("{}_sd", column.name), (*line.deviation).*column.number);
    }
  };
}

/// A number as the table shows it: four decimals, a power of ten below 0.00005, a dash if there is
/// none.
std::string table_number(const std::optional<double>& number) {
  if (!number) return "–";
  if (*number != 0 && std::abs(*number) < 0.00005) return fmt::format("{:.0e}", *number);
  return fmt::format("{:.4f}", *number);
}

/// A bar of up to 12 blocks; `share` is a head's first-column value divided by the largest one.
std::string effect_bar(double share) {
  std::string text;
  for (int i = 0; i < static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * 12)); ++i)
    text += "█";
  return text;
}

/// The line under the table: the unit of kl and loss_change, and the token whose logit
/// logit_change and direct measure.
std::string units_text(const std::vector<EffectColumn>& columns, const std::string& answer,
                       const TextStyle& text_style) {
  const auto has = [&](std::string_view name) { return find_named(columns, name) != nullptr; };
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
  const std::vector<EffectColumn> columns = present_columns(effects);
  std::vector<Table::Column> table_columns;
  if (view.per_position)
    table_columns = {{"text", true}, {text_style.width < 64 ? "at" : "position", true}};
  table_columns.insert(table_columns.end(), {{"layer", true}, {"part"}, {"head", true}});
  for (Table::Column& title : table_columns) title.names = true;
  const bool spreads = !view.deviations.empty();
  for (const EffectColumn& column : columns) {
    table_columns.push_back({std::string(column.name), true});
    if (spreads) table_columns.push_back({.title = "±", .right = true, .follows = true});
  }
  if (!columns.empty()) table_columns.push_back({.title = "", .spare = true});
  double largest_head_value = 0;
  const auto bar_value = [&](const Effect& one) {
    return columns.empty() ? 0 : std::abs((one.*columns[0].number).value_or(0));
  };
  for (const Effect& one : effects)
    if (one.part == Component::head)
      largest_head_value = std::max(largest_head_value, bar_value(one));
  Table table(std::move(table_columns));
  for (std::size_t i = 0; i < effects.size(); ++i) {
    const Effect& one = effects[i];
    std::vector<std::string> cells;
    if (view.per_position) cells = {fmt::format("{}", one.batch), fmt::format("{}", one.position)};
    cells.insert(cells.end(),
                 {index_text(one.layer), std::string(name_of(one.part)), index_text(one.head)});
    for (const EffectColumn& column : columns) {
      cells.push_back(table_number(one.*column.number));
      if (spreads) cells.push_back(table_number(view.deviations[i].*column.number));
    }
    if (!columns.empty())
      cells.push_back(one.part == Component::head && largest_head_value > 0
                          ? effect_bar(bar_value(one) / largest_head_value)
                          : "");
    table.add(std::move(cells));
  }
  return table.text(text_style) + units_text(columns, view.answer, text_style);
}

std::string effects_csv(const std::vector<Effect>& effects, const EffectsView& view,
                        std::string_view form, bool titles) {
  return lines_of_rows(effect_lines(effects, view), form, view.precision,
                       effect_record_writer(view), titles);
}

std::string effects_json_items(const std::vector<Effect>& effects, const EffectsView& view) {
  std::string list;
  for (const EffectLine& line : effect_lines(effects, view)) {
    JsonText json(view.precision);
    put_row(json, line, effect_record_writer(view));
    list += (list.empty() ? "  " : ",\n  ") + json.take();
  }
  return list;
}

std::string effects_text(const std::vector<Effect>& effects, const EffectsView& view,
                         std::string_view form) {
  return text_of_rows(effect_lines(effects, view), form, view.precision, effect_record_writer(view),
                      indented);
}

} // namespace mha::render
