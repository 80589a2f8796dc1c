#pragma once
// The attention layers of a graph: found behind each Softmax between two products, and where an
// operator is one.

#include <mha/formats/onnx_projection.hpp>
#include <mha/system/message.hpp>

#include <array>
#include <functional>
#include <variant>

namespace mha::io {

/// Where attention stands in a graph: which elements are its queries, keys, values and outputs. l
/// counts the heads, of all batch items where the graph has them in one axis; t, s and d are
/// positions of the short input, and places in a head.
struct OnnxAttentionSite {
  int step = -1; ///< the Softmax, or the operator
  std::int64_t groups = 1, T = 1, S = 1, d_k = 1, d_v = 1;
  std::function<OnnxForm(std::int64_t l, std::int64_t t, std::int64_t d)> q, k, v;
  int q_value = -1, k_value = -1, v_value = -1; ///< of which those are elements,
  int scores_value = -1;                        ///< and what the Softmax is of
  /// Elements of head_out: the value, and its flat index.
  int head_out = -1;
  /// Of a flat index of head_out: l, t, d.
  std::function<std::array<std::int64_t, 3>(std::int64_t flat)> head_out_place;
  /// What is added to the scaled scores of l, t and s; nothing where it is not known before the
  /// model runs.
  std::function<std::optional<double>(std::int64_t l, std::int64_t t, std::int64_t s)> added;
  int added_value = -1;       ///< the fixed value that is added, where it is one
  double scale = 1;           ///< of the scores themselves
  bool default_scale = false; ///< 1 / √d_k, and `scale` is not looked at
  double softcap = 0;
  std::int64_t window = -1;       ///< keys before a query's own
  std::int64_t window_right = -1; ///< and after it
  bool causal = false;
  std::vector<double> sinks; ///< a logit of each head, or none
  /// What is added while the model runs, which the user is to give: nothing where all is known.
  std::optional<Message> needs;
  std::vector<int> roundings; ///< steps between its products that round
  std::vector<Message> remarks;
};

/// Attention that is not computed, and why.
struct OnnxRefusal {
  int step = -1; ///< the Softmax, or the operator
  std::string why;
};

/// What was found of one Softmax or operator.
using OnnxFinding = std::variant<OnnxAttentionSite, OnnxRefusal>;

/// A layer as the program names its parts.
struct OnnxLayer {
  std::string path; ///< "encoder.layer.0.attention.self."
  std::string node; ///< as the graph names it, for people
  std::vector<Entry> tensors;
  std::vector<std::pair<std::string, std::string>> settings;
  std::vector<Message> remarks;
  std::optional<Message> needs;    ///< what it cannot be computed without
  std::vector<std::int64_t> heads; ///< which l of its site they are
  /// The values that queries, keys and values are projected from, and the one that its output is;
  /// -1: none is.
  std::array<int, 3> inputs{-1, -1, -1};
  int output = -1;
};

/// The site of a Softmax that stands between two products, or what stands between them that is no
/// part of attention; nothing where no product is before it or after it.
std::optional<OnnxFinding> spelt_out_attention(const OnnxFlow& flow,
                                               const OnnxProjections& projections, int step);
/// That of an operator: Attention, MultiHeadAttention, GroupQueryAttention of com.microsoft, and
/// Attention of opset 23; refused where it has an attribute or an input that is not read.
std::optional<OnnxFinding> attention_operator(const OnnxFlow& flow, int step);

/// Which columns of a projection an operand's heads are.
struct OnnxColumns {
  OnnxProjection projection;
  std::size_t heads = 0, width = 0;
  std::vector<std::size_t> columns; ///< heads · width
  double factor = 1;                ///< of every element
  std::vector<double> added;        ///< to each column, beside the projection's bias; or empty
};

/// A normalisation of queries, keys or a layer's input.
struct OnnxNorm {
  int x = -1; ///< the value that is normalised
  bool rms = false;
  double eps = 1e-5;
  std::size_t width = 0; ///< of what is normalised together
  std::vector<double> weight, bias;
};

/// What a value is the normalised form of: an operator, or its arithmetic spelt out. Its weight
/// and bias where the operator has them.
std::optional<OnnxNorm> onnx_norm(const OnnxFlow& flow, int value);

/// How a head's elements turn with their position.
struct OnnxRope {
  bool neighbours = false;
  std::size_t dims = 0, first = 0;
  std::vector<double> frequencies;
  double amplitude = 1;
};

/// Projections, positions and masks of a site; refused where its queries, keys and values are no
/// linear maps of an input, or where anything between them is not what a layer computes.
std::variant<OnnxLayer, OnnxRefusal> onnx_layer(const std::shared_ptr<const OnnxFlow>& flow,
                                                const OnnxProjections& projections,
                                                const OnnxAttentionSite& site);

/// Settings of a rotary embedding, and the tensor of its factors where no base gives them.
/// `wide`: of a float64 graph.
void add_onnx_rope(const OnnxRope& rope, bool wide, OnnxLayer& layer);
/// Settings or a tensor of what is added to the scores. Whether it is known for every head, query
/// and key, or is to be given. `steps`: those that may add, for the message.
bool add_onnx_mask(const std::shared_ptr<const OnnxFlow>& flow, const OnnxAttentionSite& site,
                   const std::vector<std::int64_t>& heads, const std::string& steps,
                   OnnxLayer& layer);
/// Holds what a layer hides and adds against its graph for a long input, whose site `far` is: a
/// window that is longer than the short one shows only there. Whether they agree.
bool holds_onnx_mask_far(const OnnxAttentionSite& far, OnnxLayer& layer);
/// The site of a Softmax or an operator for another length, as far as its masks need it.
std::optional<OnnxAttentionSite> onnx_site_unproved(const OnnxFlow& flow,
                                                    const OnnxProjections& projections, int step);
/// T5's bias, the rows of a table that are chosen by the distance of query and key: the tensor
/// relative_bias, and the rows of each distance as settings, buckets_before where the key is before
/// the query and buckets_behind, "0,1,2,3,3". Whether what is added is that.
bool add_onnx_relative_bias(const std::shared_ptr<const OnnxFlow>& flow,
                            const OnnxAttentionSite& site, const std::vector<std::int64_t>& heads,
                            OnnxLayer& layer);
/// A tensor of numbers that were found one by one.
Entry onnx_entry(std::string name, const std::vector<double>& numbers, DType dtype);

} // namespace mha::io
