#pragma once
// The projections of a site: which columns its heads are, and the output projection. Private to
// onnx_layers.cpp.

#include <mha/formats/onnx_layers.hpp>

namespace mha::io {

/// Queries, keys or values of a site, followed back to their projection.
struct OnnxOperand {
  OnnxColumns columns;
  std::optional<OnnxNorm> norm; ///< between the projection and the rotary embedding,
  int normed = -1;              ///< and the value that it makes
  std::vector<double> norm_weight, norm_bias;
  std::optional<OnnxRope> rope;
  std::int64_t constants = 0; ///< rows after the input's that are constants
  std::vector<int> roundings; ///< steps between that round
};

using OnnxSiteElements = std::function<OnnxForm(std::int64_t, std::int64_t, std::int64_t)>;

/// Where the operand of a site is looked for.
struct OnnxOperandPlace {
  const OnnxSiteElements& elements;
  std::int64_t groups, length, width;
};

/// The operand; nothing where an element of it is not what its column, its position and its row of
/// the projection say, and then `why` has the step that makes that element, or -1. `heads`: which l
/// are the heads of the first text; found here where it is empty.
std::optional<OnnxOperand> onnx_operand(const OnnxFlow& flow, const OnnxProjections& projections,
                                        const OnnxOperandPlace& place,
                                        std::vector<std::int64_t>& heads, std::vector<int>& why);

/// Whether an operand's elements of every text, head, token and place are as the operand says: a
/// step of `why` makes one that is not.
bool onnx_operand_holds(const OnnxFlow& flow, const OnnxProjections& projections,
                        const OnnxOperandPlace& place, OnnxOperand& operand,
                        const std::vector<std::int64_t>& heads, std::vector<int>& why);

/// An element of the projection that an operand's element is made of.
struct OnnxColumnElement {
  std::int64_t row = 0, column = 0;
  double factor = 1;
  std::int64_t normed_at = -1; ///< its flat index in the normalised value, where there is one
};
/// What a term of an operand's element is; nothing where it is no element of the projection.
std::optional<OnnxColumnElement>
onnx_column_element(const OnnxFlow& flow, const OnnxOperand& operand, const OnnxForm::Term& term);

/// Columns of a matrix, in any order; where they lie side by side nothing is copied yet.
Tensor onnx_columns_of(const Tensor& matrix, const std::vector<std::size_t>& columns);
/// Rows of a matrix in another order.
Tensor onnx_rows_of(const Tensor& matrix, const std::vector<std::size_t>& rows);

/// The number of an element that is a constant.
std::optional<double> onnx_constant(const OnnxFlow& flow, const OnnxForm& form);
/// The last `count` rows of keys or values, which are constants: each has heads · width numbers,
/// NaN where one is none.
std::vector<std::vector<double>> onnx_constant_rows(const OnnxFlow& flow,
                                                    const OnnxSiteElements& elements,
                                                    const std::vector<std::int64_t>& heads,
                                                    std::int64_t length, std::int64_t width,
                                                    std::int64_t count);

struct OnnxOutput {
  const OnnxProjection* projection;
  std::vector<std::size_t> rows; ///< of its weight, in the layer's order of heads
  int bias = -1;
  std::vector<int> roundings; ///< steps before it that round
};

/// The projection that head_out enters as it is, for every token; nothing where there is none, and
/// `others` are the steps that it enters instead.
std::optional<OnnxOutput> onnx_output(const OnnxFlow& flow, const OnnxProjections& projections,
                                      const OnnxAttentionSite& site,
                                      const std::vector<std::int64_t>& heads,
                                      std::vector<int>& others);

} // namespace mha::io
