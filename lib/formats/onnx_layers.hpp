#pragma once
// The attention layers of a graph, which are found at each Softmax between two products and at each
// attention operator.

#include <mha/formats/onnx_projection.hpp>
#include <mha/system/message.hpp>

#include <array>
#include <functional>
#include <variant>

namespace mha::io {

/// Attention in a graph: the elements of its queries, keys, values and outputs. l counts the heads
/// (of all batch items, if the graph has them in one axis), t and s are positions of the short
/// input, and d is a place in a head.
struct OnnxAttentionSite {
  int step = -1; ///< the Softmax, or the operator
  std::int64_t groups = 1, T = 1, S = 1, d_k = 1, d_v = 1;
  std::function<OnnxForm(std::int64_t l, std::int64_t t, std::int64_t d)> q, k, v;
  int q_value = -1, k_value = -1, v_value = -1; ///< the values that have those elements
  int scores_value = -1;                        ///< the input of the Softmax
  int head_out = -1;                            ///< the value that has the elements of head_out
  /// l, t and d for a flat index of head_out.
  std::function<std::array<std::int64_t, 3>(std::int64_t flat)> head_out_place;
  /// The number that is added to the scaled score of l, t and s; nothing if it is known only at run
  /// time.
  std::function<std::optional<double>(std::int64_t l, std::int64_t t, std::int64_t s)> added;
  int added_value = -1;       ///< the fixed value that is added, if there is one
  double scale = 1;           ///< of the scores themselves
  bool default_scale = false; ///< the scale is 1 / √d_k, and `scale` is ignored
  double softcap = 0;
  std::int64_t window = -1;       ///< keys before a query's own
  std::int64_t window_right = -1; ///< and after it
  bool causal = false;
  std::vector<double> sinks; ///< a logit of each head, or none
  /// A request to the user for what is added at run time; nothing if everything is known.
  std::optional<Message> needs;
  std::vector<int> roundings; ///< steps between its products that round
  std::vector<Message> remarks;
};

/// Attention that is not read, with the reason.
struct OnnxRefusal {
  int step = -1; ///< the Softmax, or the operator
  std::string why;
};

/// The result for one Softmax or operator.
using OnnxFinding = std::variant<OnnxAttentionSite, OnnxRefusal>;

/// A layer under the program's names for its parts.
struct OnnxLayer {
  std::string path; ///< "encoder.layer.0.attention.self."
  std::string node; ///< the graph's name of it, for messages
  std::vector<Entry> tensors;
  std::vector<std::pair<std::string, std::string>> settings;
  std::vector<Message> remarks;
  std::optional<Message> needs; ///< a request for missing inputs, without which it is not computed
  std::vector<std::int64_t> heads; ///< the l of its heads in the site
  /// The inputs of the projections of queries, keys and values, and the layer's output; -1 if
  /// unknown.
  std::array<int, 3> inputs{-1, -1, -1};
  int output = -1;
};

/// The site of a Softmax between two products, or a refusal if other steps between them are not
/// attention; nothing if there is no product before or after it.
std::optional<OnnxFinding> spelt_out_attention(const OnnxFlow& flow,
                                               const OnnxProjections& projections, int step);
/// The site of an operator: Attention, MultiHeadAttention, GroupQueryAttention of com.microsoft,
/// and Attention of opset 23; refused if it has an attribute or an input that is not read.
std::optional<OnnxFinding> attention_operator(const OnnxFlow& flow, int step);

/// The columns of a projection that are an operand's heads.
struct OnnxColumns {
  OnnxProjection projection;
  std::size_t heads = 0, width = 0;
  std::vector<std::size_t> columns; ///< heads · width
  double factor = 1;                ///< of every element
  std::vector<double> added; ///< added to each column besides the projection's bias; or empty
};

/// A normalisation of queries, keys or a layer's input.
struct OnnxNorm {
  int x = -1; ///< the value that is normalised
  bool rms = false;
  double eps = 1e-5;
  std::size_t width = 0; ///< of the rows that are normalised
  std::vector<double> weight, bias;
};

/// The normalisation that computes a value, as an operator or spelt out; with the weight and bias
/// of the operator.
std::optional<OnnxNorm> onnx_norm(const OnnxFlow& flow, int value);

/// The rotation of a head's elements by position.
struct OnnxRope {
  bool neighbours = false;
  std::size_t dims = 0, first = 0;
  std::vector<double> frequencies;
  double amplitude = 1;
};

/// Reads the projections, positions and masks of a site; refused if its queries, keys and values
/// are not linear maps of an input, or if other steps between them are not those of a layer.
std::variant<OnnxLayer, OnnxRefusal> onnx_layer(const std::shared_ptr<const OnnxFlow>& flow,
                                                const OnnxProjections& projections,
                                                const OnnxAttentionSite& site);

/// Adds the settings of a rotary embedding, and the tensor of its factors if they follow from no
/// base. `wide` is true for a float64 graph.
void add_onnx_rope(const OnnxRope& rope, bool wide, OnnxLayer& layer);
/// Adds settings or a tensor for what is added to the scores, or a request to the user. False if it
/// is known only for some heads, queries and keys. `steps` names the adding steps for the message.
bool add_onnx_mask(const std::shared_ptr<const OnnxFlow>& flow, const OnnxAttentionSite& site,
                   const std::vector<std::int64_t>& heads, const std::string& steps,
                   OnnxLayer& layer);
/// Whether a layer's mask agrees with its graph for a long input, whose site is `far`. Sets a
/// window that is longer than the short input and visible only in the long one.
bool holds_onnx_mask_far(const OnnxAttentionSite& far, OnnxLayer& layer);
/// The site of a Softmax or an operator for another length, without a proof; only for its masks.
std::optional<OnnxAttentionSite> onnx_site_unproved(const OnnxFlow& flow,
                                                    const OnnxProjections& projections, int step);
/// Adds T5's bias, in which the distance of query and key chooses a row of a table: the tensor
/// relative_bias, and the row for each distance, "0,1,2,3,3", as one setting for keys before the
/// query and one for keys after it. False if the scores have another bias.
bool add_onnx_relative_bias(const std::shared_ptr<const OnnxFlow>& flow,
                            const OnnxAttentionSite& site, const std::vector<std::int64_t>& heads,
                            OnnxLayer& layer);
/// A tensor of numbers that were computed one by one.
Entry onnx_entry(std::string name, const std::vector<double>& numbers, DType dtype);

} // namespace mha::io
