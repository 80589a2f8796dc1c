#pragma once
// Results of `diff`: of layers and of whole models, as tables with the first difference marked and
// as JSON, and of two checkpoints' weights.

#include <mha/compare/coverage.hpp>
#include <mha/compare/diff.hpp>
#include <mha/compare/verdict.hpp>
#include <mha/compare/weights.hpp>
#include <mha/render/diff_parts.hpp>
#include <mha/render/table.hpp>
#include <mha/render/text.hpp>

#include <string>

namespace mha::render {

/// The table, what the other rows mean, and what was not compared. `next` is the sentence that
/// recommends what to look at, or "".
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

/// The result of a layer's comparison.
struct LayerLine {
  std::string layer; ///< its number; "" for the model's ends
  std::size_t stages = 0;
  /// "equal", "close", "rounding", "differs", "follows"; "follows?" where the reference does not
  /// show whether the layer is wrong by itself.
  std::string verdict;
  bool by_itself = false; ///< after a layer that differs: also wrong by itself
  /// The last stage of the stream that was compared, or the last one at all.
  Stage stage = Stage::x;
  double max_abs = 0, rms = 0;    ///< of its difference; of the reference's numbers
  std::optional<FromExact> exact; ///< how far it is from float64, where that was asked for
  DType precision = DType::f32;   ///< the reference's
};
LayerLine line_of(const std::string& layer, const Diff& diff);

/// The table of the layers that the reference has, so that growing rounding is seen beside what is
/// wrong. Below it: the first layer that differs and the later ones that do by themselves, or how
/// far rounding has grown. `asked_for`: the number of layers asked for; `coverage`: what of the
/// reference was compared.
std::string layers_table(const std::vector<LayerLine>& lines, std::size_t asked_for,
                         const Coverage& coverage, const TextStyle& text_style);

/// One of `result_forms`: one line per tensor; as json one object.
std::string weights_text(const WeightsDiff& diff, std::string_view form,
                         const TextStyle& text_style);

} // namespace mha::render
