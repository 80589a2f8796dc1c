#pragma once
// Stages of another implementation in the layer's own form, for `diff` and `diagnose` to compare
// with.

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
  /// Has the shape layer.shape_of(stage). Float64 if the reference stores float64, else float32,
  /// which holds float16 and bfloat16 exactly. Numbers without a type (JSON lists) get the layer's.
  Tensor value;
  /// The precision of the numbers: the stored type, or a shorter one that holds them all
  /// (precision_of). Integers count as the layer's type.
  DType stored = DType::f32;
  std::string source;     ///< "ref.npz: attn.hook_z", or the binding as typed
  std::string rearranged; ///< "read as BTHD", or "" if the axes are the stage table's
  bool doubtful = false;  ///< the shape would also fit with tokens first
  bool in_part = false;   ///< some elements are not_saved(): nothing is computed from it
  /// The error of numbers that were typed with few decimals: half of the last one.
  double resolution = 0;
  bool multiplied = false; ///< by a factor of its module (multiply): rounded otherwise than in the file
  /// The other orders of axes that fit the shape, with their values, until settle() chooses.
  std::vector<std::pair<std::string, Tensor>> other_axes{};
  std::string origin{}; ///< "ref.npz: attn.hook_z", even for a binding, as in Origin
  /// The mean over the heads, copied to each head: nothing is computed from it.
  bool mean_of_heads = false;
  /// Numbers without an axis of heads, copied to each head until settle() chooses the head.
  bool one_of_heads = false;
  /// Key/value heads that were repeated for the query heads in another order than this layer's.
  bool tiled = false;
};

/// A tensor of the reference whose name means several stages that fit its shape ("attn_weights").
struct AmbiguousStage {
  std::string word;
  std::vector<ReferenceStage> readings; ///< at least two, in the order of the computation
};

/// A tensor with a stage's name, or nearly one, that is not compared.
struct NotCompared {
  std::string name; ///< the name in the reference
  /// "this layer has no q_rope"; for a misshapen tensor "is (2, 2): k is (3, 4) …".
  std::string reason;
  /// The stage if the tensor has another shape, which is a difference.
  std::optional<Stage> misshapen = std::nullopt;
  Shape shape = {}, expected = {}; ///< of a misshapen one: its shape, and the one in this layer

  /// "q_rope (this layer has no q_rope)", "k is (2, 2): k is (3, 4) in this layer".
  std::string text() const;
};

struct Reference {
  std::vector<ReferenceStage> stages;    ///< in the order of the computation, none twice
  std::vector<AmbiguousStage> ambiguous; ///< until settle() has chosen
  std::vector<std::string> skipped;      ///< tensors that are not stages of this layer, and why
  /// Tensors that should have been compared: stages by any of their names, or nearly, and layers
  /// that the model does not have; in a whole model also tensors with a step's shape.
  std::vector<NotCompared> not_compared;
  StageSet lacking;                ///< stages of the reference that this layer does not compute
  std::vector<std::string> notes;  ///< rearranged tensors, and choices among readings
  std::vector<std::string> doubts; ///< the notes that are warnings: one of several readings

  const ReferenceStage* find(Stage stage) const;
  /// Whether a stage has another shape than in this layer.
  bool has_misshapen() const;
  /// A hint if the stages are misshapen because the reference has another number of heads: "the
  /// reference has 2 heads, this layer 1: give --num-heads 2"; else "".
  std::string about_heads() const;
};

/// Reads the stages in SOURCES (files, folders, NAME=FILE[:TENSOR][@AXES], raw bytes). A tensor is
/// found by its stage's name, an alias or another implementation's name (result_stages), after any
/// prefix. A layer number in it (`layers.N.`, or llama.cpp's suffix `-N`) must be `layer_id`, which
/// also replaces `{layer}`. Axes may be the stage table's, with or without a batch of one; tokens
/// first; heads packed, or joined with the batch; transposed. If several fit, settle() decides. A
/// binding wins over a file, and a stage's own name over another name in the same file. A tensor
/// that fits no stage is skipped, with the reason. Throws Error for a binding that does not fit,
/// for two tensors of one stage, and if there is no stage of the layer. In a whole model (`model`),
/// `layers.N.` belongs to layer N only, names without a layer to the model's ends, and
/// hidden_states to both; a layer may have no stage.
Reference read_reference(const Layer& layer, const ReferenceFiles& sources,
                         const std::string& layer_id, const WholeModelOfLayer* model = nullptr);
/// The same for files that are opened for this call only.
Reference read_reference(const Layer& layer, const std::vector<std::string>& sources,
                         const std::string& layer_id, const WholeModelOfLayer* model = nullptr);

} // namespace mha
