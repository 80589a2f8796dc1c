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
  std::string source;     ///< "ref.npz: attn.hook_z"
  std::string rearranged; ///< "read as BTHD", or "" where its axes were those of the table
  bool doubtful = false;  ///< its shape would fit tokens first, too
  bool in_part = false;   ///< some of its elements are not_saved(): nothing is computed from it
  /// The values in other axes that its shape fits, and what those are: until settle() has chosen.
  std::vector<std::pair<std::string, Tensor>> other_axes{};
};

/// A tensor of the reference whose name means several stages that fit its shape ("attn_weights").
struct AmbiguousStage {
  std::string word;
  std::vector<ReferenceStage> readings; ///< at least two, in the order of the computation
};

struct Reference {
  std::vector<ReferenceStage> stages;    ///< in the order of the computation, none twice
  std::vector<AmbiguousStage> ambiguous; ///< until settle() has chosen
  std::vector<std::string> passed_over;  ///< tensors that are no stage of this layer, and why
  /// Those of them that were meant, and why they were not read: a stage by its own name in another
  /// shape, and a name that nearly is a stage's, or a layer's that the model does not have.
  std::vector<std::string> misshapen, misspelt;
  /// Of a whole model: those that are steps by their names or shapes, and so were to be compared.
  std::vector<std::string> unread;
  StageSet lacking; ///< stages that the reference has and this layer's computation has not
  std::vector<std::string> notes; ///< what was rearranged, or taken of several readings
  std::vector<std::string>
      doubts; ///< those of the notes that are warnings: one of several readings

  const ReferenceStage* find(Stage stage) const;
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
