#pragma once
// Results of `diff`: a table for eyes with the first difference marked, and JSON.

#include <mha/compare/verdict.hpp>
#include <mha/render/diff_places.hpp>
#include <mha/render/table.hpp>

namespace mha::render {

/// The table, what the other rows mean, and what was not compared. `next` is the sentence that says
/// what to look at, or "".
std::string diff_table(const Layer& layer, const Diff& diff, const Reference& reference,
                       const Outcome& outcome, const std::string& next,
                       const TextStyle& text_style);

/// A layer's number, and its object by diff_json.
struct LayerDiff {
  std::string layer; ///< "" where the layer has no number
  std::string json;
};
/// One object; of several layers one keyed by layers.N, with their verdict together.
std::string diff_json(const Layer& layer, const Diff& diff, const Reference& reference,
                      const Outcome& outcome);
std::string diff_json(const std::vector<LayerDiff>& layers, Verdict verdict);

/// A line of CSV, Markdown or ndjson: a stage, or a tensor of the reference that was not compared.
struct StageLine {
  std::string layer, stage, status;
  std::string reason; ///< why it was not compared
  std::string where;  ///< regions_text
  StageDiff row;      ///< without a reference: not compared
};
std::vector<StageLine> stage_lines(const std::string& id, const Layer& layer, const Diff& diff,
                                   const Outcome& outcome);
Table stage_lines_table(const std::vector<StageLine>& lines);

} // namespace mha::render
