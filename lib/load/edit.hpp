#pragma once
// Edits of stages as they are written, PLACE OP VALUE: 'layers.3.head_out[0,-1] *= 0.5'
// (docs/models.md).

#include <mha/layer/stage_place.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace mha {

/// Another run that a value is taken from: "from 'love'", "from ids 5,7", "from @FILE", or one that
/// a program names.
struct ValueSource {
  std::string text;
  std::optional<AxisPositions>
      tokens; ///< in its texts ("from 'love'[-1]"); none: those of the place
};

/// What an edit gives its place.
struct EditValue {
  enum class Kind : std::uint8_t { number, mean, file, tensor, run };
  std::string text; ///< as written
  Kind kind = Kind::number;
  double number = 0;
  std::string file; ///< FILE[:TENSOR][@AXES]
  Tensor tensor;
  ValueSource run;
  std::optional<ValueSource> less; ///< the run whose values are taken off those of `run`
  double factor = 1;               ///< by which all of it is multiplied

  /// A number, 0, a tensor, what a run has, its mean.
  static EditValue of_number(double number);
  static EditValue zero();
  static EditValue of_tensor(Tensor tensor);
  static EditValue of_run(std::string run);
  static EditValue of_mean();
  /// Whether it is made of what other runs hold.
  bool is_of_runs() const { return kind == Kind::mean || kind == Kind::run; }
};

/// A place, and what is done there.
struct Edit {
  StagePlace place;
  PatchOp op = PatchOp::set;
  EditValue value;
  std::string text; ///< all of it, as messages have it

  /// Of a place and a value, with the text that is written for them.
  static Edit of(StagePlace place, PatchOp op, EditValue value);
};

/// Throws Error that says what is expected where.
Edit parse_edit(const std::string& text);

/// The values of a stage in another run, batch axis first, and how many tokens each of its texts
/// has; no lengths: as many as this run's.
struct UnpatchedValues {
  Tensor values;
  std::vector<std::size_t> lengths;
  Layer tokens; ///< where its places are: sizes, lengths and labels; without sizes: this run's

  UnpatchedValues(Tensor of_stage, std::vector<std::size_t> of_texts = {},
                  Layer tokens_of_texts = {})
      : values(std::move(of_stage)),
        lengths(std::move(of_texts)),
        tokens(std::move(tokens_of_texts)) {}
};

/// What the places of a layer's stages are found by, without its weights and its input.
Layer tokens_alone(const Layer& layer);

/// Those of an unpatched run: of this run's texts for `mean`, else of the texts that `run` names.
using UnpatchedStage = std::function<UnpatchedValues(Stage stage, const std::string& run)>;

/// The edit as a patch of a layer: positions on its axes, its value in the layer's precision.
/// `number`: of the layer, for files with an axis of layers. Throws Error where a place or a value
/// does not fit.
StagePatch patch_of(const Edit& edit, const Layer& layer, std::size_t number,
                    const UnpatchedStage& unpatched);

} // namespace mha
