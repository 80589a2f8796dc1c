#pragma once
// A whole model against another implementation: a line a layer, so that what grows from rounding is
// seen beside what is wrong.

#include <mha/compare/coverage.hpp>
#include <mha/compare/diff.hpp>
#include <mha/render/text.hpp>

namespace mha::render {

/// What a layer's comparison comes to.
struct LayerLine {
  std::string layer; ///< its number; "" for the model's ends
  std::size_t stages = 0;
  /// "equal", "close", "rounding", "differs", "follows"; "follows?" where the reference does not
  /// tell whether the layer is wrong by itself.
  std::string verdict;
  bool by_itself = false; ///< behind a layer that differs: wrong by itself, too
  /// The last stage of the stream that was compared, or the last one at all.
  Stage stage = Stage::x;
  double max_abs = 0, rms = 0;    ///< of its difference; of the reference's numbers
  std::optional<FromExact> exact; ///< how far it is from float64, where that was asked for
  DType precision = DType::f32;   ///< the reference's
};
LayerLine line_of(const std::string& layer, const Diff& diff);

/// The table of the layers that the reference has, and below it what it says: the first layer that
/// differs, those behind it that do by themselves, or how far rounding has grown. `asked_for`: how
/// many layers were to be compared; `coverage`: what of the reference was.
std::string layers_table(const std::vector<LayerLine>& lines, std::size_t asked_for,
                         const Coverage& coverage, const TextStyle& text_style);

} // namespace mha::render
