#include <mha/render/studies.hpp>

#include <mha/render/numbers.hpp>
#include <mha/render/rounding.hpp>
#include <mha/system/named.hpp>

#include <algorithm>
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

/// The sentence below the table: the unit of kl and loss_change, and the token whose logit
/// logit_change and direct measure.
std::string units_text(const std::vector<EffectColumn>& columns, const std::string& answer) {
  const auto has = [&](std::string_view name) { return find_named(columns, name) != nullptr; };
  std::string text;
  if (has("kl")) text = fmt::format("kl{} in nats", has("loss_change") ? " and loss_change" : "");
  if (has("logit_change"))
    text += fmt::format("{}logit_change{}: of the logit of {}", text.empty() ? "" : "; ",
                        has("direct") ? " and direct" : "", answer);
  return text;
}

/// Adds the columns that name a line's part: for programs part, layer, head and expert first, in tables the
/// place.
void add_names(ColumnsOf<EffectLine>& columns, const EffectsView& view, std::size_t width) {
  using Line = EffectLine;
  using In = Table::In;
  const auto part = [](const Line& line) { return Cell(name_of(line.effect.part)); };
  const auto index = [](std::optional<std::size_t> Effect::*of) {
    return [of](const Line& line) { return Cell::count(line.effect.*of); };
  };
  const auto count = [](std::size_t Effect::*of) {
    return [of](const Line& line) { return Cell::count(line.effect.*of); };
  };
  const auto eyes = [](std::string title, bool right = true) {
    return Table::Column{.title = std::move(title), .right = right, .names = true, .in = In::eyes};
  };
  columns = {{field_column("part"), part},
             {field_column("layer"), index(&Effect::layer)},
             {field_column("head"), index(&Effect::head)}};
  if (view.experts) columns.push_back({field_column("expert"), index(&Effect::expert)});
  if (view.per_position)
    columns.insert(columns.end(),
                   {{field_column("batch"), count(&Effect::batch)},
                    {field_column("position"), count(&Effect::position)},
                    {eyes("text"), count(&Effect::batch)},
                    {eyes(width < 64 ? "at" : "position"), count(&Effect::position)}});
  columns.insert(columns.end(), {{eyes("layer"), index(&Effect::layer)},
                                 {eyes("part", false), part},
                                 {eyes("head"), index(&Effect::head)}});
  if (view.experts) columns.push_back({eyes("expert"), index(&Effect::expert)});
}

bool has_bar(const Effect& effect) {
  return effect.part == Component::head || effect.part == Component::expert;
}

/// A bar for each head and each expert, as long as its first number among those of all heads and experts.
ColumnOf<EffectLine> bars(const std::vector<Effect>& effects, const EffectColumn& first) {
  const auto size = [first](const Effect& one) {
    return std::abs((one.*first.number).value_or(0));
  };
  double largest = 0;
  for (const Effect& one : effects)
    if (has_bar(one)) largest = std::max(largest, size(one));
  return {{.title = "", .spare = true, .in = Table::In::eyes}, [=](const EffectLine& line) {
            const bool some = has_bar(line.effect) && largest > 0;
            return some ? Cell(bar(size(line.effect) / largest, 12, false)) : Cell();
          }};
}

} // namespace

Table effects_table(const std::vector<Effect>& effects, const EffectsView& view,
                    std::size_t width) {
  ColumnsOf<EffectLine> columns;
  add_names(columns, view, width);
  const std::vector<EffectColumn> present = present_columns(effects);
  const auto four_decimals = [](double number) { return fixed_or_power(number, 4); };
  for (const EffectColumn& column : effect_columns) {
    const bool shown = find_named(present, column.name) != nullptr;
    columns.push_back(
        {{.title = std::string(column.name),
          .right = true,
          .in = shown ? Table::In::all : Table::In::fields,
          .eyes = four_decimals},
         [of = column.number](const EffectLine& line) { return Cell::number(line.effect.*of); }});
    if (!view.deviations.empty())
      columns.push_back({{.title = "±",
                          .right = true,
                          .follows = true,
                          .in = shown ? Table::In::all : Table::In::fields,
                          .field = fmt::format("{}_sd", column.name),
                          .eyes = four_decimals},
                         [of = column.number](const EffectLine& line) {
                           return Cell::number((*line.deviation).*of);
                         }});
  }
  if (!present.empty()) columns.push_back(bars(effects, present[0]));
  Table table = table_of(effect_lines(effects, view), columns);
  if (const std::string units = units_text(present, view.answer); !units.empty()) table.note(units);
  return table;
}

} // namespace mha::render
