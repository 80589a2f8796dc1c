#pragma once
// The shapes in which tensors and stages are given, and how they are stored in a layer.

#include <mha/layer/layer.hpp>
#include <mha/layer/names.hpp>

#include <functional>
#include <vector>

namespace mha {

/// One shape that may be given, and the one that a layer keeps.
struct Form {
  Shape given, stored;
  std::vector<std::size_t> order = {}; ///< of the given axes before they are stored; none: as given
};
/// A tensor of the form's given shape, as the layer keeps it.
Tensor stored(const Tensor& tensor, const Form& form);

/// The size of a letter, where another one than the layer's holds; else 0.
using LetterSize = std::function<std::size_t(Dim)>;
/// The forms of a tensor in a layer of these sizes, with its batch axis where there is one; `own`
/// has the lengths that are the tensor's own. A form of which a length is not known is left out.
std::vector<Form> forms_of(const TensorInfo& info, const Dims& dims, const LetterSize& own);
/// A tensor that comes in one of its forms, or with as many numbers in other axes (d_k, 1), as the
/// layer keeps it. `source` begins messages. Throws Error for another number of them.
Tensor stored(const TensorInfo& info, const Tensor& tensor, const Dims& dims,
              const std::string& source);

/// The form in which a stage is given: that of the stage table, or with its heads side by side, as
/// Q, K and V. Stages with heads and tokens are packed, B, T, H · d.
Form form_of(Stage stage, const Dims& dims, bool packed = false);
/// A stage's value, in any axes of the form's order, as the layer keeps it.
Tensor stored(Stage stage, const Tensor& value, const Dims& dims);

} // namespace mha
