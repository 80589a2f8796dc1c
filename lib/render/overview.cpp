#include <mha/render/overview.hpp>

#include <mha/render/record.hpp>
#include <mha/render/table.hpp>

#include <algorithm>

namespace mha::render {

namespace {

/// What CSV and JSON say of a stage; of no finite numbers there is no smallest, largest and mean.
void put_summary(Record& record, const OverviewRow& row) {
  const Summary& s = row.summary;
  const auto number = [&](double value) {
    return s.finite == 0 ? std::nullopt : std::optional(value);
  };
  record.shape("shape", row.shape).words("dtype", mha::name_of(row.dtype));
  record.number("min", number(s.min)).number("max", number(s.max)).number("mean", number(s.mean()));
  record.count("nan", s.nan).count("infinite", s.infinite);
}

/// The same behind the layer and the name of the stage.
void put_stage_summary(Record& record, const OverviewRow& row) {
  record.layer("layer", row.layer).words("stage", name_of(row.stage));
  put_summary(record, row);
}

} // namespace

std::string overview_table(const std::vector<OverviewRow>& rows, const Options& options) {
  const auto some = [&](std::size_t Summary::*count) {
    return std::any_of(rows.begin(), rows.end(),
                       [&](const OverviewRow& row) { return row.summary.*count > 0; });
  };
  const bool nan = some(&Summary::nan), infinite = some(&Summary::infinite);
  std::vector<Table::Column> columns{
      {"stage"},     {"shape"},     {.title = "value", .shrinks = true, .dim = true, .spare = true},
      {"min", true}, {"max", true}, {"mean", true}};
  if (nan) columns.push_back({"NaN", true});
  if (infinite) columns.push_back({"±inf", true});
  Table grid(std::move(columns));
  const std::size_t digits = options.precision.value_or(default_digits);
  for (const OverviewRow& row : rows) {
    const StageInfo& info = info_of(row.stage);
    const Summary& s = row.summary;
    const auto number = [&](double value) {
      return s.finite == 0 ? std::string("–") : rounded(value, digits);
    };
    std::vector<std::string> cells{std::string(info.name), shape_text(row.shape), row.formula,
                                   number(s.min),          number(s.max),         number(s.mean())};
    if (nan) cells.push_back(s.nan > 0 ? fmt::format("{}", s.nan) : "");
    if (infinite) cells.push_back(s.infinite > 0 ? fmt::format("{}", s.infinite) : "");
    grid.add(std::move(cells));
  }
  return grid.text(options.text_style);
}

std::string overview_text(const std::vector<OverviewRow>& rows, const Options& options,
                          std::string_view form) {
  if (form != "json") return text_of_rows(rows, form, options.precision, put_stage_summary);
  JsonText json(options.precision);
  json.object(
      [&] {
        for (const OverviewRow& row : rows) {
          const std::string_view stage = name_of(row.stage);
          json.key(options.several_layers && !row.layer.empty()
                       ? fmt::format("layers.{}.{}", row.layer, stage)
                       : std::string(stage));
          put_row(json, row, put_summary);
        }
      },
      on_lines);
  json.end_line();
  return json.take();
}

} // namespace mha::render
