#include <mha/render/overview.hpp>

#include <mha/render/numbers.hpp>
#include <mha/render/table.hpp>

#include <algorithm>

namespace mha::render {

namespace {

std::string name_text(std::string_view title, const LayerWords& words) {
  return visible(title) + (words.layer.empty() ? "" : " " + visible(words.layer));
}

} // namespace

std::string headline(std::string_view title, const LayerWords& words, const TextStyle& text_style) {
  const std::string name = name_text(title, words);
  return text_style.bold(name) +
         text_style.dim(fitted_facts(visible(words.facts), display_width(name), text_style.width)) +
         "\n";
}

std::string headline_text(std::string_view title, const LayerWords& words) {
  return name_text(title, words) + visible(words.facts);
}

namespace {

Table overview_table(const std::vector<OverviewRow>& rows, std::size_t digits) {
  using In = Table::In;
  const auto some = [&](std::size_t Summary::*count) {
    return std::any_of(rows.begin(), rows.end(),
                       [&](const OverviewRow& row) { return row.summary.*count > 0; });
  };
  // Without finite numbers there is no smallest, largest or mean.
  const auto number = [digits](std::string title, auto of) {
    return ColumnOf<OverviewRow>{
        {.title = std::move(title),
         .right = true,
         .eyes = [digits](double value) { return rounded(value, digits); }},
        [of](const OverviewRow& row) {
          return Cell::number(row.summary.finite == 0 ? std::nullopt
                                                      : std::optional<double>(of(row.summary)));
        }};
  };
  const auto count = [&](std::string title, std::string field, std::size_t Summary::*of) {
    return ColumnOf<OverviewRow>{{.title = std::move(title),
                                  .right = true,
                                  .in = some(of) ? In::all : In::fields,
                                  .field = std::move(field)},
                                 [of](const OverviewRow& row) {
                                   const Cell cell = Cell::count(row.summary.*of);
                                   return row.summary.*of > 0 ? cell : cell.shown_as("");
                                 }};
  };
  return table_of(
      rows,
      ColumnsOf<OverviewRow>{
          {field_column("layer"), [](const OverviewRow& row) { return Cell::layer(row.layer); }},
          {{.title = "stage"}, [](const OverviewRow& row) { return Cell(name_of(row.stage)); }},
          {{.title = "shape"}, [](const OverviewRow& row) { return Cell::shape(row.shape); }},
          {field_column("dtype"),
           [](const OverviewRow& row) { return Cell(mha::name_of(row.dtype)); }},
          {{.title = "value", .shrinks = true, .dim = true, .spare = true, .in = In::eyes},
           [](const OverviewRow& row) { return Cell(row.formula); }},
          number("min", [](const Summary& s) { return s.min; }),
          number("max", [](const Summary& s) { return s.max; }),
          number("mean", [](const Summary& s) { return s.mean(); }),
          count("NaN", "nan", &Summary::nan),
          count("±inf", "infinite", &Summary::infinite)});
}

} // namespace

std::string overview_text(const std::vector<OverviewRow>& rows, const Options& options,
                          std::string_view form) {
  const Table table = overview_table(rows, options.precision.value_or(default_digits));
  if (form != "json") return table.as(form, options.text_style, options.precision);
  JsonText json(options.precision);
  json.object(
      [&] {
        for (std::size_t i = 0; i < rows.size(); ++i) {
          const std::string_view stage = name_of(rows[i].stage);
          json.key(options.several_layers && !rows[i].layer.empty()
                       ? fmt::format("layers.{}.{}", rows[i].layer, stage)
                       : std::string(stage));
          json.object([&] { table.put_members(json, i, 2); }); // after layer and stage
        }
      },
      on_lines);
  json.end_line();
  return json.take();
}

} // namespace mha::render
