#include <mha/render/overview.hpp>

#include <mha/render/json_text.hpp>
#include <mha/render/text_table.hpp>

#include <algorithm>

namespace mha::render {

namespace {

std::string sizes_text(const Shape& shape, std::string_view separator) {
  std::string text;
  for (std::size_t size : shape) text += fmt::format("{}{}", text.empty() ? "" : separator, size);
  return text;
}

/// Smallest, largest and mean; of no finite numbers there are none.
std::array<std::string, 3> measure_texts(const Summary& summary, const NumberWriter& numbers,
                                         std::string_view none) {
  if (summary.finite == 0) return {std::string(none), std::string(none), std::string(none)};
  std::array<std::string, 3> text;
  numbers.append(text[0], summary.min);
  numbers.append(text[1], summary.max);
  numbers.append(text[2], summary.mean());
  return text;
}

} // namespace

std::string overview_table(const std::vector<OverviewRow>& rows, const Options& options) {
  const auto some = [&](std::size_t Summary::*count) {
    return std::any_of(rows.begin(), rows.end(),
                       [&](const OverviewRow& row) { return row.summary.*count > 0; });
  };
  const bool nan = some(&Summary::nan), infinite = some(&Summary::infinite);
  std::vector<TextTable::Column> columns{
      {"stage"},     {"shape"},     {.title = "value", .shrinks = true, .dim = true, .spare = true},
      {"min", true}, {"max", true}, {"mean", true}};
  if (nan) columns.push_back({"NaN", true});
  if (infinite) columns.push_back({"±inf", true});
  TextTable grid(std::move(columns));
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
  return grid.text(options.look);
}

std::string overview_csv(const std::vector<OverviewRow>& rows, const Options& options,
                         char separator) {
  std::string out = "layer,stage,shape,dtype,min,max,mean,nan,infinite\n";
  std::replace(out.begin(), out.end(), ',', separator);
  const NumberWriter numbers(Dialect::csv, options.precision);
  for (const OverviewRow& row : rows) {
    const std::array<std::string, 3> m = measure_texts(row.summary, numbers, "");
    out += fmt::format("{1}{0}{2}{0}{3}{0}{4}{0}{5}{0}{6}{0}{7}{0}{8}{0}{9}\n", separator,
                       separated_field(row.layer, separator), name_of(row.stage),
                       sizes_text(row.shape, "x"), mha::name_of(row.dtype), m[0], m[1], m[2],
                       row.summary.nan, row.summary.infinite);
  }
  return out;
}

std::string overview_json(const std::vector<OverviewRow>& rows, const Options& options,
                          bool lines) {
  JsonText json(options.precision);
  const auto number = [&](const Summary& summary, double value) {
    summary.finite == 0 ? json.null() : json.value(value);
  };
  const auto put = [&](const OverviewRow& row) {
    const std::string_view stage = name_of(row.stage);
    if (!lines)
      json.key(options.several_layers && !row.layer.empty()
                   ? fmt::format("layers.{}.{}", row.layer, stage)
                   : std::string(stage));
    json.object([&] {
      if (lines) json.key("layer").layer(row.layer);
      if (lines) json.member("stage", stage);
      json.key("shape").list(row.shape);
      json.member("dtype", mha::name_of(row.dtype));
      json.key("min"), number(row.summary, row.summary.min);
      json.key("max"), number(row.summary, row.summary.max);
      json.key("mean"), number(row.summary, row.summary.mean());
      json.member("nan", row.summary.nan).member("infinite", row.summary.infinite);
    });
    if (lines) json.end_line();
  };
  if (!lines) json.open_object(on_lines);
  for (const OverviewRow& row : rows) put(row);
  if (!lines) json.close(), json.end_line();
  return json.take();
}

} // namespace mha::render
