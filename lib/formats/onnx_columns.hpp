#pragma once
// The projections of an attention site: the columns of its heads, and the output projection.
// Private to onnx_layers.cpp.

#include <mha/formats/onnx_layers.hpp>

namespace mha::io {

/// Queries, keys or values of a site, traced back to their projection.
struct OnnxOperand {
  OnnxColumns columns;
  std::optional<OnnxNorm> norm; ///< between the projection and the rotary embedding
  int normed = -1;              ///< the output of the norm
  std::vector<double> norm_weight, norm_bias;
  std::optional<OnnxRope> rope;
  std::int64_t constants = 0; ///< rows after the input's that are constants
  std::vector<int> roundings; ///< steps on the way that round
};

using OnnxSiteElements = std::function<OnnxForm(std::int64_t, std::int64_t, std::int64_t)>;

/// The elements of a site's operand, and their lengths.
struct OnnxOperandPlace {
  const OnnxSiteElements& elements;
  std::int64_t groups, length, width;
};

/// The operand; nothing if an element is not the expected one by its column, position and row of
/// the projection, and `why` then has the steps that compute that element. `heads` are the l of the
/// first text's heads; they are found here if the list is empty.
std::optional<OnnxOperand> onnx_operand(const OnnxFlow& flow, const OnnxProjections& projections,
                                        const OnnxOperandPlace& place,
                                        std::vector<std::int64_t>& heads, std::vector<int>& why);

/// Whether the elements of every text, head, token and place are those that the operand describes.
/// If not, `why` has the steps that compute a wrong element.
bool onnx_operand_holds(const OnnxFlow& flow, const OnnxProjections& projections,
                        const OnnxOperandPlace& place, OnnxOperand& operand,
                        const std::vector<std::int64_t>& heads, std::vector<int>& why);

/// The element of the projection in an operand's element.
struct OnnxColumnElement {
  std::int64_t row = 0, column = 0;
  double factor = 1;
  std::int64_t normed_at = -1; ///< its flat index in the normalised value, if there is one
};
/// The element of the projection in a term; nothing if the term is not one.
std::optional<OnnxColumnElement>
onnx_column_element(const OnnxFlow& flow, const OnnxOperand& operand, const OnnxForm::Term& term);

/// Columns of a matrix, in any order; adjacent columns are not copied until they are read.
Tensor onnx_columns_of(const Tensor& matrix, const std::vector<std::size_t>& columns);
/// Rows of a matrix in another order.
Tensor onnx_rows_of(const Tensor& matrix, const std::vector<std::size_t>& rows);

/// The number of a constant element; nothing for any other.
std::optional<double> onnx_constant(const OnnxFlow& flow, const OnnxForm& form);
/// The last `count` rows of keys or values, which are constants, with heads · width numbers each;
/// an element that is not a constant is NaN.
std::vector<std::vector<double>> onnx_constant_rows(const OnnxFlow& flow,
                                                    const OnnxSiteElements& elements,
                                                    const std::vector<std::int64_t>& heads,
                                                    std::int64_t length, std::int64_t width,
                                                    std::int64_t count);

struct OnnxOutput {
  const OnnxProjection* projection;
  std::vector<std::size_t> rows; ///< rows of its weight, in the layer's order of heads
  int bias = -1;
  std::vector<int> roundings; ///< steps before it that round
};

/// The projection whose input is head_out without changes, for every token. If there is none,
/// `others` are the steps that use head_out instead.
std::optional<OnnxOutput> onnx_output(const OnnxFlow& flow, const OnnxProjections& projections,
                                      const OnnxAttentionSite& site,
                                      const std::vector<std::int64_t>& heads,
                                      std::vector<int>& others);

} // namespace mha::io
