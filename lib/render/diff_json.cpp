#include <mha/render/diff.hpp>

#include <mha/render/diff_parts.hpp>
#include <mha/render/json_text.hpp>

#include <fmt/format.h>

namespace mha::render {

namespace {

void put_verdict(JsonText& json, Verdict verdict) {
  json.member("verdict", mha::name_of(verdict)).member("equal", verdict == Verdict::equal);
}

void put_ranges(JsonText& json, std::string_view name, const IndexRanges& ranges) {
  json.key(name).list(ranges, [&](const IndexRange& one) {
    json.list(std::vector{one.first, one.last});
  });
}

/// The regions where a stage differs, with the axes that it has.
void put_regions(JsonText& json, const Layer& layer, const StageDiff& row) {
  const Regions& regions = row.difference.regions;
  json.key("regions").open_list();
  if (!row.difference.within)
    for (const Region& one : regions.list)
      json.object([&] {
        if (layer.dims.batched) put_ranges(json, "batch", one.items);
        if (has_heads(layer, row.stage)) put_ranges(json, "heads", one.heads);
        put_ranges(json, "rows", one.rows);
      });
  json.close();
  json.member("regions_exact", regions.exact);
}

void put_stage_diff(JsonText& json, const Layer& layer, const StageDiff& row) {
  const Difference& d = row.difference;
  json.object([&] {
    json.member("stage", mha::name_of(row.stage))
        .member("status", mha::name_of(row.status))
        .member("max_abs", d.max_abs)
        .member("max_rel", d.max_rel)
        .member("max_ulp", d.ulp.largest);
    json.key("beyond_ulp").list(d.ulp.beyond);
    json.key("at").list(d.at);
    json.member("mismatched", d.mismatched)
        .member("cosine", d.cosine)
        .member("count", d.count)
        .member("ours", d.ours)
        .member("reference", d.theirs);
    json.key("worst_head").value_or_null(d.worst_head);
    put_regions(json, layer, row);
    json.key("own").value_or_null(row.own);
    if (row.pass_rounding) json.member("pass_rounding", *row.pass_rounding);
    if (row.exact)
      json.key("exact").object([&] {
        json.member("ours", row.exact->ours)
            .member("reference", row.exact->theirs)
            .member("ratio", row.exact->ratio);
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

} // namespace

std::string diff_json(const Layer& layer, const Diff& diff, const Reference& reference,
                      const Outcome& outcome) {
  JsonText json;
  json.object([&] {
    put_verdict(json, outcome.verdict);
    json.key("first").words_or_null(diff.first ? mha::name_of(*diff.first) : "");
    json.key("stages").list(diff.stages,
                            [&](const StageDiff& row) { put_stage_diff(json, layer, row); },
                            {"\n    ", "\n    ", "\n  "});
    json.begin_next_after("\n  ");
    json.key("compared").list(stage_names(outcome.compared));
    json.key("not_compared").list(outcome.not_compared, [&](const NotCompared& one) {
      json.object([&] { json.member("name", one.name).member("reason", one.reason); });
    });
    json.key("passed_over").list(reference.skipped);
    json.key("notes").list(reference.notes);
  });
  return json.take();
}

std::string diff_json(const std::vector<LayerDiff>& layers, Verdict verdict) {
  if (layers.size() == 1) return layers[0].json + "\n";
  JsonText json;
  json.object(
      [&] {
        put_verdict(json, verdict);
        for (const LayerDiff& one : layers)
          json.key(one.layer.empty() ? "model" : "layers." + one.layer).raw(one.json);
      },
      on_lines);
  return json.take() + "\n";
}

Table stage_lines_table(const std::vector<StageLine>& lines) {
  using Line = StageLine;
  const auto words = [](std::string title, std::string Line::*of) {
    return ColumnOf<Line>{{.title = std::move(title), .shrinks = true, .wraps = true},
                          [of](const Line& line) { return Cell::words(line.*of); }};
  };
  // Of what was not compared there are no numbers.
  const auto number = [](std::string title, auto of) {
    return ColumnOf<Line>{{.title = std::move(title), .right = true}, [of](const Line& line) {
                            return Cell::number(line.row.reference
                                                    ? std::optional<double>(of(line.row))
                                                    : std::nullopt);
                          }};
  };
  const auto count = [](std::string title, auto of) {
    return ColumnOf<Line>{{.title = std::move(title), .right = true}, [of](const Line& line) {
                            return Cell::count(line.row.reference
                                                   ? std::optional<std::size_t>(of(line.row))
                                                   : std::nullopt);
                          }};
  };
  ColumnsOf<Line> columns{
      {{.title = "layer", .names = true}, [](const Line& line) { return Cell::layer(line.layer); }},
      words("stage", &Line::stage),
      words("status", &Line::status),
      words("reason", &Line::reason)};
  columns[1].names = true;
  columns.push_back(number("max_abs", [](const StageDiff& row) { return row.difference.max_abs; }));
  columns.push_back(number("max_rel", [](const StageDiff& row) { return row.difference.max_rel; }));
  columns.push_back(
      number("max_ulp", [](const StageDiff& row) { return row.difference.ulp.largest; }));
  for (std::size_t i = 0; i < UlpCounts::limits.size(); ++i)
    columns.push_back(count(fmt::format("beyond_{}_ulp", UlpCounts::limits[i]),
                            [i](const StageDiff& row) { return row.difference.ulp.beyond[i]; }));
  columns.push_back(
      count("mismatched", [](const StageDiff& row) { return row.difference.mismatched; }));
  columns.push_back(count("count", [](const StageDiff& row) { return row.difference.count; }));
  columns.push_back(number("cosine", [](const StageDiff& row) { return row.difference.cosine; }));
  columns.push_back({{.title = "worst_head", .right = true},
                     [](const Line& line) { return Cell::count(line.row.difference.worst_head); }});
  columns.push_back(words("where", &Line::where));
  columns.push_back(number("atol", [](const StageDiff& row) { return row.tolerance.absolute; }));
  columns.push_back(number("rtol", [](const StageDiff& row) { return row.tolerance.relative; }));
  return table_of(lines, columns);
}

std::vector<StageLine> stage_lines(const std::string& id, const Layer& layer, const Diff& diff,
                                   const Outcome& outcome) {
  std::vector<StageLine> lines;
  for (const StageDiff& row : diff.stages)
    lines.push_back({id, std::string(mha::name_of(row.stage)),
                     std::string(mha::name_of(row.status)), "",
                     regions_text(layer, row.stage, row.difference), row});
  for (const NotCompared& one : outcome.not_compared)
    lines.push_back({id, one.name, "not compared", one.reason, "", {}});
  return lines;
}

} // namespace mha::render
