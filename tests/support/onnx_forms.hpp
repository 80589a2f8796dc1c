#pragma once
// One attention layer as three exporters write it, every size another number.

#include "support/onnx_graph.hpp"

namespace onnx {

struct Form {
  std::string name;
  Graph graph;
  Value X;             ///< (1, T, d_model)
  std::string output;  ///< of the graph
  std::string product; ///< of W_o, before its bias
  std::string concat;  ///< what enters W_o
};

/// nn.MultiheadAttention: tokens first, one weight for queries, keys and values, heads and texts in
/// one axis.
Form multihead_form();
/// BERT: three projections, four axes, a mask of the text's own.
Form bert_form();
/// scaled_dot_product_attention taken apart, with Einsum, shared key/value heads and a causal
/// buffer.
Form einsum_form();
std::vector<Form> forms();

/// An input of a node that is made of a projection and leads on to W_o.
struct Edge {
  std::size_t node, input;
};
std::vector<Edge> edges(const Form& form);

/// The form with nodes put into an edge; `make` adds them to a graph, before the node, and gives
/// the name of what takes the edge's place.
template <class Any, class Make> Any inserted(const Any& form, const Edge& edge, Make make) {
  Any changed = form;
  Graph& graph = changed.graph;
  std::vector<Node> after(graph.nodes.begin() + static_cast<std::ptrdiff_t>(edge.node),
                          graph.nodes.end());
  graph.nodes.resize(edge.node);
  graph.path = "put/";
  const std::string instead = make(graph, after.front().inputs[edge.input]);
  after.front().inputs[edge.input] = instead;
  graph.nodes.insert(graph.nodes.end(), after.begin(), after.end());
  return changed;
}

/// Numbers that are the same everywhere, between −1 and 1.
Value random_value(const Dims& shape, std::uint64_t seed, double size = 1);

} // namespace onnx
