#pragma once
// Modules of models, and the nodes that exporters make of them.

#include "support/onnx_forms.hpp"
#include "support/onnx_models.hpp"

#include <cmath>

namespace onnx {

constexpr std::int64_t most_positions = 32; ///< of tables

/// What differs between the models.
struct Sizes {
  std::int64_t H = 2, kv = 2, d = 4, D = 12, wide = 20, vocabulary = 17;
};

/// Modules and the nodes that exporters make of them.
struct Builder {
  ModelForm form;
  Sizes s;
  Graph& g = form.graph;
  std::uint64_t seed = 1;

  Builder(const std::string& name, Sizes sizes) : s(sizes) {
    form.name = name, form.vocabulary = s.vocabulary;
    g.inputs.push_back({"input_ids", {"batch", "sequence"}, i64});
  }
  // The reference is to the builder's own form, which is moved out last.
  Builder(const Builder&) = delete;

  /// Nodes that follow are of this module: "/model/layers.0/mlp/Mul_7" of "model.layers.0.mlp".
  void in(const std::string& module) {
    g.path = module.empty() ? "" : module + "/";
    for (std::size_t i = 0; i + 1 < g.path.size(); ++i)
      if (g.path[i] == '.' && (g.path[i + 1] < '0' || g.path[i + 1] > '9')) g.path[i] = '/';
  }
  std::string param(const std::string& name, const Dims& shape, double size = 1, double plus = 0) {
    Value value = random_value(shape, ++seed, size);
    for (double& one : value.data) one = static_cast<double>(static_cast<float>(one + plus));
    g.constants[name] = std::move(value);
    return name;
  }
  std::string linear(const std::string& module, const std::string& x, std::int64_t from,
                     std::int64_t to, bool bias) {
    in(module);
    const std::string weight = "onnx::MatMul_" + std::to_string(1000 + seed);
    const std::string y = g.add("MatMul", {x, param(weight, {from, to}, 0.5)});
    return bias ? g.add("Add", {param(module + ".bias", {to}, 0.5), y}) : y;
  }
  std::string length(const std::string& x) {
    return g.add("Gather", {g.add("Shape", {x}), g.integers({1})}, {{"axis", std::int64_t{0}}});
  }
  /// GPT-2's Conv1D: a Gemm of rows.
  std::string conv1d(const std::string& module, const std::string& x, std::int64_t from,
                     std::int64_t to) {
    in(module);
    const std::string rows = g.add("Reshape", {x, g.integers({-1, from})});
    const std::string y = g.add("Gemm", {rows, param(module + ".weight", {from, to}, 0.5),
                                         param(module + ".bias", {to}, 0.5)});
    const std::string batch =
        g.add("Slice", {g.add("Shape", {x}), g.integers({0}), g.integers({2}), g.integers({0})});
    return g.add("Reshape",
                 {y, g.add("Concat", {batch, g.integers({to})}, {{"axis", std::int64_t{0}}})});
  }
  std::string layer_norm(const std::string& module, const std::string& x, double eps) {
    in(module);
    return g.add("LayerNormalization",
                 {x, param(module + ".weight", {s.D}, 0.3, 1), param(module + ".bias", {s.D}, 0.3)},
                 {{"axis", std::int64_t{-1}}, {"epsilon", static_cast<float>(eps)}});
  }
  std::string spelt_layer_norm(const std::string& module, const std::string& x, double eps) {
    in(module);
    const std::string centred = g.add("Sub", {x, g.add("ReduceMean", {x, g.integers({-1})})});
    const std::string square = g.add("Pow", {centred, g.number(2)});
    const std::string mean = g.add("ReduceMean", {square, g.integers({-1})});
    const std::string root = g.add("Sqrt", {g.add("Add", {mean, g.number(eps)})});
    const std::string one = g.add("Div", {centred, root});
    const std::string weighed = g.add("Mul", {one, param(module + ".weight", {s.D}, 0.3, 1)});
    return g.add("Add", {weighed, param(module + ".bias", {s.D}, 0.3)});
  }
  std::string rms_norm(const std::string& module, const std::string& x, double eps,
                       std::int64_t width, bool one_plus = false) {
    in(module);
    const std::string square = g.add("Pow", {x, g.number(2)});
    const std::string mean = g.add("ReduceMean", {square, g.integers({-1})});
    const std::string root = g.add("Sqrt", {g.add("Add", {mean, g.number(eps)})});
    const std::string one = g.add("Mul", {x, g.add("Div", {g.number(1), root})});
    std::string weight = param(module + ".weight", {width}, 0.3, one_plus ? 0 : 1);
    if (one_plus) weight = g.add("Add", {weight, g.number(1)});
    return g.add("Mul", {weight, one});
  }
  std::string rms_operator(const std::string& module, const std::string& x, double eps,
                           std::int64_t width) {
    in(module);
    return g.add("RMSNormalization", {x, param(module + ".weight", {width}, 0.3, 1)},
                 {{"axis", std::int64_t{-1}}, {"epsilon", static_cast<float>(eps)}});
  }
  std::string gelu(const std::string& module, const std::string& x) {
    in(module);
    const std::string erf = g.add("Erf", {g.add("Div", {x, g.number(std::sqrt(2.0))})});
    return g.add("Mul", {g.add("Mul", {x, g.add("Add", {erf, g.number(1)})}), g.number(0.5)});
  }
  std::string gelu_tanh(const std::string& module, const std::string& x) {
    in(module);
    const std::string cube = g.add("Pow", {x, g.number(3)});
    const std::string inner = g.add("Add", {x, g.add("Mul", {cube, g.number(0.044715)})});
    const std::string tanh = g.add("Tanh", {g.add("Mul", {inner, g.number(std::sqrt(2 / M_PI))})});
    return g.add("Mul", {g.add("Mul", {x, g.number(0.5)}), g.add("Add", {tanh, g.number(1)})});
  }
  std::string silu(const std::string& module, const std::string& x) {
    in(module);
    return g.add("Mul", {x, g.add("Sigmoid", {x})});
  }
  std::string gather(const std::string& module, const Dims& shape, const std::string& rows) {
    in(module);
    return g.add("Gather", {param(module + ".weight", shape), rows});
  }
  std::string positions() {
    in("");
    Value list{{1, most_positions}, {}, i64};
    for (std::int64_t i = 0; i < most_positions; ++i) list.data.push_back(static_cast<double>(i));
    g.constants["positions"] = std::move(list);
    return g.add("Slice", {"positions", g.integers({0}), length("input_ids"), g.integers({1})});
  }

  /// (B, T, H · d) as (B, H, T, d).
  std::string heads(const std::string& x, std::int64_t count) {
    const std::string cut = g.add("Reshape", {x, g.integers({0, 0, count, s.d})});
    return g.add("Transpose", {cut}, {{"perm", Dims{0, 2, 1, 3}}});
  }
  /// Rotated by tables of the first `dims` places of a head.
  std::string rotated(const std::string& x, std::int64_t dims) {
    const auto part = [&](const std::string& of, std::int64_t first, std::int64_t end) {
      return g.add("Slice", {of, g.integers({first}), g.integers({end}), g.integers({3})});
    };
    const auto table = [&](bool cosine) {
      Value value{{1, 1, most_positions, dims}, {}};
      for (std::int64_t t = 0; t < most_positions; ++t)
        for (std::int64_t i = 0; i < dims; ++i) {
          const double angle = static_cast<double>(t) *
                               std::pow(10000.0, -2.0 * static_cast<double>(i % (dims / 2)) /
                                                     static_cast<double>(dims));
          value.data.push_back(
              static_cast<double>(static_cast<float>(cosine ? std::cos(angle) : std::sin(angle))));
        }
      return g.add("Slice", {g.constant(std::move(value)), g.integers({0}), length("input_ids"),
                             g.integers({2})});
    };
    const std::string own = dims == s.d ? x : part(x, 0, dims);
    const std::string turned =
        g.add("Concat", {g.add("Neg", {part(own, dims / 2, dims)}), part(own, 0, dims / 2)},
              {{"axis", std::int64_t{-1}}});
    const std::string sum =
        g.add("Add", {g.add("Mul", {own, table(true)}), g.add("Mul", {turned, table(false)})});
    if (dims == s.d) return sum;
    return g.add("Concat", {sum, part(x, dims, s.d)}, {{"axis", std::int64_t{-1}}});
  }
  std::string repeated(const std::string& x) {
    if (s.H == s.kv) return x;
    const std::string five = g.add("Unsqueeze", {x, g.integers({2})});
    const std::string more = g.add("Expand", {five, g.integers({1, 1, s.H / s.kv, 1, 1})});
    const std::string shape =
        g.add("Concat", {g.integers({0, s.H, -1, s.d})}, {{"axis", std::int64_t{0}}});
    return g.add("Reshape", {more, shape});
  }
  std::string attention(const std::string& module, const std::string& q, const std::string& k,
                        const std::string& v, double scale, bool causal, double cap = 0) {
    in(module);
    const std::string turned = g.add("Transpose", {repeated(k)}, {{"perm", Dims{0, 1, 3, 2}}});
    std::string scores = g.add("Mul", {g.add("MatMul", {q, turned}), g.number(scale)});
    if (cap > 0)
      scores =
          g.add("Mul", {g.add("Tanh", {g.add("Div", {scores, g.number(cap)})}), g.number(cap)});
    if (causal) {
      Value buffer{{1, 1, most_positions, most_positions}, {}, boolean};
      for (std::int64_t i = 0; i < most_positions * most_positions; ++i)
        buffer.data.push_back(i % most_positions <= i / most_positions);
      const std::string end = length("input_ids");
      const std::string rows =
          g.add("Slice", {g.constant(std::move(buffer)), g.integers({0}), end, g.integers({2})});
      const std::string seen = g.add("Slice", {rows, g.integers({0}), end, g.integers({3})});
      scores = g.add("Where", {seen, scores, g.number(-3e38)});
    } else {
      const std::string shown =
          g.add("Cast", {g.add("Unsqueeze", {"attention_mask", g.integers({1, 2})})},
                {{"to", std::int64_t{1}}});
      const std::string hidden =
          g.add("Mul", {g.add("Sub", {g.number(1), shown}), g.number(-10000)});
      scores = g.add("Add", {scores, hidden});
    }
    const std::string weights = g.add("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
    const std::string context =
        g.add("Transpose", {g.add("MatMul", {weights, repeated(v)})}, {{"perm", Dims{0, 2, 1, 3}}});
    return g.add("Reshape", {context, g.integers({0, 0, s.H * s.d})});
  }
  double scale() const { return 1 / std::sqrt(static_cast<double>(s.d)); }
  std::string sum(const std::string& module, const std::string& a, const std::string& b) {
    in(module);
    return g.add("Add", {a, b});
  }
  ModelForm done(const std::string& logits, const std::string& config) {
    g.outputs.push_back(logits);
    form.config = config;
    return std::move(form);
  }
};

} // namespace onnx
