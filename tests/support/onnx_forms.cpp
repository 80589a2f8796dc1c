#include "support/onnx_forms.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

namespace onnx {

namespace {

constexpr std::int64_t T = 5;

Form begun(const std::string& name, std::int64_t width) {
  Form form;
  form.name = name;
  form.graph.inputs.push_back({"x", {"batch", "sequence", width}});
  form.X = random_value({1, T, width}, 1);
  return form;
}

} // namespace

Value random_value(const Dims& shape, std::uint64_t seed, double size) {
  std::mt19937_64 bits(seed);
  Value value{shape, {}};
  std::int64_t count = 1;
  for (const std::int64_t length : shape) count *= length;
  for (std::int64_t i = 0; i < count; ++i) {
    const double number = static_cast<double>(bits() >> 11) / 4503599627370496.0 - 1;
    value.data.push_back(static_cast<double>(static_cast<float>(number * size)));
  }
  return value;
}

Form multihead_form() {
  constexpr std::int64_t H = 2, d = 3, D = H * d;
  Form form = begun("multihead", D);
  Graph& g = form.graph;
  const std::string x = g.add("Transpose", {"x"}, {{"perm", Dims{1, 0, 2}}});
  const std::string y = g.add("Add", {g.add("MatMul", {x, g.constant(random_value({D, 3 * D}, 2))}),
                                      g.constant(random_value({3 * D}, 3))});
  const std::string cut = g.add("Reshape", {y, g.integers({0, 0, 3, D})});
  const std::string turned = g.add("Transpose", {g.add("Unsqueeze", {cut, g.integers({0})})},
                                   {{"perm", Dims{3, 1, 2, 0, 4}}});
  const std::string three = g.add("Squeeze", {turned, g.integers({3})});
  std::vector<std::string> parts;
  for (std::int64_t i = 0; i < 3; ++i) {
    const std::string part =
        g.add("Gather", {three, g.constant({{}, {static_cast<double>(i)}, i64})},
              {{"axis", std::int64_t{0}}});
    // (T, B, D) as (T, B · H, d): texts are not known, tokens are.
    const std::string tokens =
        g.add("Gather", {g.add("Shape", {"x"}), g.integers({1})}, {{"axis", std::int64_t{0}}});
    const std::string shape =
        g.add("Concat", {tokens, g.integers({-1, d})}, {{"axis", std::int64_t{0}}});
    parts.push_back(
        g.add("Transpose", {g.add("Reshape", {part, shape})}, {{"perm", Dims{1, 0, 2}}}));
  }
  const std::string q = g.add("Div", {parts[0], g.number(std::sqrt(static_cast<float>(d)))});
  const std::string scores =
      g.add("MatMul", {q, g.add("Transpose", {parts[1]}, {{"perm", Dims{0, 2, 1}}})});
  const std::string weights = g.add("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
  const std::string heads = g.add("MatMul", {weights, parts[2]});
  const std::string turned_back = g.add("Transpose", {heads}, {{"perm", Dims{1, 0, 2}}});
  form.concat = g.add("Reshape", {turned_back, g.integers({-1, D})});
  form.product = g.add(
      "Gemm", {form.concat, g.constant(random_value({D, D}, 4)), g.constant(random_value({D}, 5))},
      {{"transB", std::int64_t{1}}});
  form.output = form.product;
  return form;
}

Form bert_form() {
  constexpr std::int64_t H = 2, d = 3, D = 8;
  Form form = begun("bert", D);
  Graph& g = form.graph;
  g.inputs.push_back({"attention_mask", {"batch", "sequence"}, i64});
  const auto heads = [&](std::uint64_t seed) {
    const std::string y = g.add("MatMul", {"x", g.constant(random_value({D, H * d}, seed))});
    const std::string biased = g.add("Add", {y, g.constant(random_value({H * d}, seed + 1))});
    const std::string cut = g.add("Reshape", {biased, g.integers({0, 0, H, d})});
    return g.add("Transpose", {cut}, {{"perm", Dims{0, 2, 1, 3}}});
  };
  const std::string q = heads(12), k = heads(14), v = heads(16);
  const std::string scores =
      g.add("MatMul", {q, g.add("Transpose", {k}, {{"perm", Dims{0, 1, 3, 2}}})});
  const std::string scaled = g.add("Div", {scores, g.number(std::sqrt(static_cast<float>(d)))});
  const std::string shown =
      g.add("Cast", {g.add("Unsqueeze", {"attention_mask", g.integers({1, 2})})},
            {{"to", std::int64_t{1}}});
  const std::string hidden = g.add("Mul", {g.add("Sub", {g.number(1), shown}), g.number(-10000)});
  const std::string masked = g.add("Add", {scaled, hidden});
  const std::string weights = g.add("Softmax", {masked}, {{"axis", std::int64_t{-1}}});
  const std::string context =
      g.add("Transpose", {g.add("MatMul", {weights, v})}, {{"perm", Dims{0, 2, 1, 3}}});
  form.concat = g.add("Reshape", {context, g.integers({0, 0, H * d})});
  form.product = g.add("MatMul", {form.concat, g.constant(random_value({H * d, D}, 18))});
  form.output = g.add("Add", {form.product, g.constant(random_value({D}, 19))});
  return form;
}

Form einsum_form() {
  constexpr std::int64_t H = 4, shared = 2, d = 3, d_v = 6, D = 8, most = 32;
  Form form = begun("einsum", D);
  Graph& g = form.graph;
  const auto heads = [&](std::uint64_t seed, std::int64_t count, std::int64_t width) {
    const std::string y =
        g.add("MatMul", {"x", g.constant(random_value({D, count * width}, seed))});
    return g.add("Reshape", {y, g.integers({0, 0, count, width})});
  };
  const auto repeated = [&](const std::string& x, std::int64_t width) {
    const std::string five = g.add("Unsqueeze", {x, g.integers({3})});
    const std::string more = g.add("Expand", {five, g.integers({1, 1, 1, H / shared, 1})});
    return g.add("Reshape", {more, g.integers({0, 0, H, width})});
  };
  const std::string q = heads(21, H, d);
  const std::string k = repeated(heads(22, shared, d), d),
                    v = repeated(heads(23, shared, d_v), d_v);
  const std::string scores =
      g.add("Einsum", {q, k}, {{"equation", std::string("bthd,bshd->bhts")}});
  const std::string scaled = g.add("Mul", {scores, g.number(0.5)});
  Value buffer{{1, 1, most, most}, {}, boolean};
  for (std::int64_t i = 0; i < most * most; ++i) buffer.data.push_back(i % most <= i / most);
  const std::string end =
      g.add("Gather", {g.add("Shape", {"x"}), g.integers({1})}, {{"axis", std::int64_t{0}}});
  const std::string rows = g.add("Slice", {g.constant(std::move(buffer)), g.integers({0}), end,
                                           g.integers({2}), g.integers({1})});
  const std::string visible =
      g.add("Slice", {rows, g.integers({0}), end, g.integers({3}), g.integers({1})});
  const std::string masked = g.add("Where", {visible, scaled, g.number(-3e38)});
  const std::string weights = g.add("Softmax", {masked}, {{"axis", std::int64_t{-1}}});
  const std::string context =
      g.add("Einsum", {weights, v}, {{"equation", std::string("bhts,bshd->bthd")}});
  form.concat = g.add("Reshape", {context, g.integers({0, 0, H * d_v})});
  form.product = g.add("MatMul", {form.concat, g.constant(random_value({H * d_v, D}, 24))});
  form.output = g.add("Add", {g.constant(random_value({D}, 25)), form.product});
  return form;
}

std::vector<Form> forms() {
  return {multihead_form(), bert_form(), einsum_form()};
}

std::vector<Edge> edges(const Form& form) {
  std::set<std::string> made; // of a projection
  std::vector<Edge> found;
  const std::vector<Node>& nodes = form.graph.nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    bool follows = node.op == "MatMul" && node.inputs[1].starts_with("constant_");
    if (node.op != "Shape")
      for (std::size_t k = 0; k < node.inputs.size(); ++k)
        if (made.contains(node.inputs[k])) found.push_back({i, k}), follows = true;
    if (node.outputs[0] == form.product) break;
    if (follows) made.insert(node.outputs[0]);
  }
  return found;
}

} // namespace onnx
