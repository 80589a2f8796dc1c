#include <mha/render/diff.hpp>

#include <mha/render/diff_places.hpp>
#include <mha/render/json_text.hpp>
#include <mha/render/record.hpp>

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

/// Where a stage differs. Axes that it does not have are not named.
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

void put_stage(JsonText& json, const Layer& layer, const StageDiff& row) {
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
    json.key("stages").list(diff.stages, [&](const StageDiff& row) { put_stage(json, layer, row); },
                            {"\n    ", "\n    ", "\n  "});
    json.begin_next_after("\n  ");
    json.key("compared").list(stage_names(outcome.compared));
    json.key("not_compared").list(outcome.not_compared, [&](const NotCompared& one) {
      json.object([&] { json.member("name", one.name).member("reason", one.reason); });
    });
    json.key("passed_over").list(reference.passed_over);
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
          json.key(one.layer.empty() ? "model" : "layers." + one.layer).as_it_is(one.json);
      },
      on_lines);
  return json.take() + "\n";
}

std::string diff_csv(const std::vector<StageLine>& lines) {
  return lines_of_rows(lines, "csv", {}, [](Record& record, const StageLine& line) {
    const Difference& d = line.row.difference;
    const bool compared = line.row.reference != nullptr;
    const auto number = [&](double value) {
      return compared ? std::optional<double>(value) : std::nullopt;
    };
    const auto count = [&](std::size_t value) {
      return compared ? std::optional<std::size_t>(value) : std::nullopt;
    };
    record.layer("layer", line.layer).words("stage", line.stage).words("status", line.status);
    record.words("reason", line.reason);
    record.number("max_abs", number(d.max_abs)).number("max_rel", number(d.max_rel));
    record.number("max_ulp", number(d.ulp.largest));
    for (std::size_t i = 0; i < UlpCounts::limits.size(); ++i)
      record.count(fmt::format("beyond_{}_ulp", UlpCounts::limits[i]), count(d.ulp.beyond[i]));
    record.count("mismatched", count(d.mismatched)).count("count", count(d.count));
    record.number("cosine", number(d.cosine)).count("worst_head", d.worst_head);
    record.words("where", line.where);
    record.number("atol", number(line.row.tolerance.absolute));
    record.number("rtol", number(line.row.tolerance.relative));
  });
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
