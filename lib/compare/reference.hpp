#pragma once
// Stages that another implementation computed, read in the layer's own form: what `diff` and
// `diagnose` compare with.

#include <mha/compare/hidden_states.hpp>
#include <mha/compare/reference_files.hpp>
#include <mha/layer/layer.hpp>

#include <string>
#include <utility>
#include <vector>

namespace mha {

/// One stage of the reference.
struct ReferenceStage {
  Stage stage = Stage::x;
  /// Of the shape layer.shape_of(stage): f64 where the reference stores f64, else f32, which holds
  /// f16 and bf16 exactly. Numbers without a type (JSON lists) are in the layer's.
  Tensor value;
  /// The precision of its numbers: as the reference stores them, or the shorter type that all of
  /// them are of (precision_of); integers count as the layer's type.
  DType stored = DType::f32;
  std::string source;     ///< "ref.npz: attn.hook_z", or the binding as it was typed
  std::string rearranged; ///< "read as BTHD", or "" where its axes were those of the table
  bool doubtful = false;  ///< its shape would fit tokens first, too
  bool in_part = false;   ///< some of its elements are not_saved(): nothing is computed from it
  /// Half of the last digit of numbers that were typed with few: each may be off by so much.
  double resolution = 0;
  /// The values in other axes that its shape fits, and what those are: until settle() has chosen.
  std::vector<std::pair<std::string, Tensor>> other_axes{};
  std::string origin{}; ///< "ref.npz: attn.hook_z" of a binding, too, as Origin has it
  /// The mean over the heads, which stands in the place of each: nothing is computed from it.
  bool mean_of_heads = false;
  /// Numbers without an axis of heads are in the place of each: until settle() has chosen whose
  /// they are.
  bool one_of_heads = false;
  /// Key/value heads that came once per query head, in another order than this layer's queries
  /// share them in.
  bool tiled = false;
};

/// A tensor of the reference whose name means several stages that fit its shape ("attn_weights").
struct AmbiguousStage {
  std::string word;
  std::vector<ReferenceStage> readings; ///< at least two, in the order of the computation
};

/// A tensor that has a stage's name, or nearly, and is not compared.
struct NotCompared {
  std::string name;   ///< as the reference has it
  std::string reason; ///< "this layer has no q_rope"; of misshapen ones "is (2, 2): k is (3, 4) …"
  /// The stage, which is of another shape there: that is a difference.
  std::optional<Stage> misshapen = std::nullopt;
  Shape shape = {}, expected = {}; ///< of misshapen ones: there, and in this layer

  /// "q_rope (this layer has no q_rope)", "k is (2, 2): k is (3, 4) in this layer".
  std::string text() const;
};

struct Reference {
  std::vector<ReferenceStage> stages;    ///< in the order of the computation, none twice
  std::vector<AmbiguousStage> ambiguous; ///< until settle() has chosen
  std::vector<std::string> passed_over;  ///< tensors that are no stage of this layer, and why
  /// Tensors that were to be compared: stages by any of their names, or nearly, and layers that the
  /// model does not have; of a whole model those that are steps by their shape, too.
  std::vector<NotCompared> not_compared;
  StageSet lacking; ///< stages that the reference has and this layer's computation has not
  std::vector<std::string> notes; ///< what was rearranged, or taken of several readings
  std::vector<std::string>
      doubts; ///< those of the notes that are warnings: one of several readings

  const ReferenceStage* find(Stage stage) const;
  /// Whether a stage is there in another shape than this layer's.
  bool has_misshapen() const;
  /// Why a reference of another number of heads has hardly a stage of this layer's shapes: "the
  /// reference has 2 heads, this layer 1: give --num-heads 2"; "" where that is not why.
  std::string about_heads() const;
};

/// Reads the stages that SOURCES (files, folders, NAME=FILE[:TENSOR][@AXES], raw bytes) hold. A
/// tensor is found by its stage's name, any alias or a name that other code has for it
/// (result_stages), behind any prefix; `layers.N.` (llama.cpp: `-N` behind it) must be `layer_id`,
/// and `{layer}` stands for it. Axes may be the table's, with or without a batch of one; tokens
/// first; heads packed, or one axis with the batch; transposed. What fits in several ways is left
/// to settle(). A binding wins over a file, a stage's own name over another in the same file.
/// A tensor of a file that fits no stage is passed over, and why. Throws Error for a binding that
/// does not fit, for two tensors of one stage, and where no stage of the layer is there at all.
/// In a whole model (`model`), `layers.N.` is taken for layer N alone, what has no layer for the
/// model's ends, and hidden_states for both; nothing need be there for a layer.
Reference read_reference(const Layer& layer, const ReferenceFiles& sources,
                         const std::string& layer_id, const WholeModelOfLayer* model = nullptr);
/// The same, of files that are opened for it alone.
Reference read_reference(const Layer& layer, const std::vector<std::string>& sources,
                         const std::string& layer_id, const WholeModelOfLayer* model = nullptr);

} // namespace mha
