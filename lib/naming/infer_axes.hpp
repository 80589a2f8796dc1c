#pragma once
// A stage in another implementation's layout, brought into the layer's own form.

#include <mha/layer/layer.hpp>

#include <string>
#include <vector>

namespace mha {

struct InferredAxes {
  Tensor value;     ///< of the shape layer.shape_of(stage)
  std::string axes; ///< "BTHD" where they are not the table's, "(BH)TD" where the first are one
  bool repeated = false; ///< key/value heads came once per query head
  bool doubtful = false; ///< the shape would fit tokens first, too
  bool tiled = false;    ///< of repeated ones: query head h has key/value head h mod H_kv there
};

/// Finds the axes of a tensor by its shape: those of the table (with or without the axis of one
/// batch item or of one head, row values with or without a last axis of one), else tokens first,
/// heads packed, or transposed, where exactly one of these fits. `where` begins messages. Throws
/// Error for a shape that fits nothing, or several of these.
InferredAxes infer_axes(const Layer& layer, Stage stage, const Tensor& tensor,
                        const std::string& where);

/// The same, with the axes that the user named (letters of bindings; an L axis is entered at
/// `layer_number`).
InferredAxes infer_axes(const Layer& layer, Stage stage, const Tensor& tensor,
                        const std::string& axes, std::size_t layer_number,
                        const std::string& where);

/// Every way in which the shape fits, that of the table first, then by likelihood; a map's mere
/// transposition only where nothing else fits. Throws Error where none does.
std::vector<InferredAxes> possible_axes(const Layer& layer, Stage stage, const Tensor& tensor,
                                        const std::string& where);

/// The layer's own shape of a stage that users see with an axis of a token's chosen experts, where
/// `shape` is that; any other shape is returned unchanged.
Shape side_by_side(const Layer& layer, Stage stage, Shape shape);

/// Whether the shape fits the stage in some order.
bool fits(const Layer& layer, Stage stage, const Shape& shape);

} // namespace mha
