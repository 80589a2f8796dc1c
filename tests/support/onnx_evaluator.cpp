// ONNX's operators in double, from their definitions: those that tests put into graphs.

#include "support/onnx_graph.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace onnx {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

std::int64_t elements_of(const Dims& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}
Dims places_of(const Dims& shape, std::int64_t flat) {
  Dims places(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) places[i] = flat % shape[i], flat /= shape[i];
  return places;
}
/// The flat index of the last places, where an axis of length 1 repeats.
std::size_t flat_of(const Dims& shape, const Dims& places) {
  std::int64_t flat = 0;
  const std::size_t before = places.size() - shape.size();
  for (std::size_t i = 0; i < shape.size(); ++i)
    flat = flat * shape[i] + (shape[i] == 1 ? 0 : places[before + i]);
  return static_cast<std::size_t>(flat);
}
std::optional<Dims> broadcast(const Dims& a, const Dims& b) {
  Dims out(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1,
                       y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) return std::nullopt;
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  return out;
}
std::int64_t axis_of(std::int64_t axis, const Dims& shape) {
  return axis < 0 ? axis + static_cast<std::int64_t>(shape.size()) : axis;
}

template <class F> Value mapped(const Value& x, F f) {
  Value y = x;
  for (double& one : y.data) one = f(one);
  return y;
}
template <class F> std::optional<Value> joined(const Value& a, const Value& b, F f) {
  const auto shape = broadcast(a.shape, b.shape);
  if (!shape) return std::nullopt;
  Value y{*shape, {}, a.type};
  for (std::int64_t i = 0; i < elements_of(*shape); ++i) {
    const Dims at = places_of(*shape, i);
    y.data.push_back(f(a.data[flat_of(a.shape, at)], b.data[flat_of(b.shape, at)]));
  }
  return y;
}
/// A value whose element at each place is another's of `from`.
template <class From> Value moved(const Value& x, const Dims& shape, From from) {
  Value y{shape, {}, x.type};
  for (std::int64_t i = 0; i < elements_of(shape); ++i)
    y.data.push_back(x.data[flat_of(x.shape, from(places_of(shape, i)))]);
  return y;
}

/// Calls `f` with each row along an axis, copied out and put back.
template <class F> Value by_row(const Value& x, std::int64_t axis, F f) {
  Value y = x;
  const auto at = static_cast<std::size_t>(axis);
  std::int64_t inner = 1;
  for (std::size_t i = at + 1; i < x.shape.size(); ++i) inner *= x.shape[i];
  const std::int64_t length = x.shape[at], count = elements_of(x.shape);
  for (std::int64_t i = 0; i < count; ++i) {
    if (i / inner % length != 0) continue;
    std::vector<double> row;
    for (std::int64_t j = 0; j < length; ++j)
      row.push_back(x.data[static_cast<std::size_t>(i + j * inner)]);
    f(row);
    for (std::int64_t j = 0; j < length; ++j)
      y.data[static_cast<std::size_t>(i + j * inner)] = row[static_cast<std::size_t>(j)];
  }
  return y;
}

void softmax(std::vector<double>& row) {
  const double most = *std::ranges::max_element(row);
  double sum = 0;
  for (double& one : row) sum += one = std::exp(one - most);
  for (double& one : row) one /= sum;
}

/// Softmax, LogSoftmax and Hardmax: before opset 13 along all axes from one on.
Value normalised(const Node& node, const Value& x, std::int64_t opset) {
  const bool together = opset < 13;
  const std::int64_t axis = axis_of(node.integer("axis", together ? 1 : -1), x.shape);
  Value flat = x;
  if (together)
    flat.shape = {elements_of({x.shape.begin(), x.shape.begin() + axis}),
                  elements_of({x.shape.begin() + axis, x.shape.end()})};
  Value y = by_row(flat, together ? 1 : axis, [&](std::vector<double>& row) {
    if (node.op == "Hardmax") {
      const auto first = std::ranges::max_element(row);
      const auto at = first - row.begin();
      std::ranges::fill(row, 0);
      row[static_cast<std::size_t>(at)] = 1;
      return;
    }
    softmax(row);
    if (node.op == "LogSoftmax")
      for (double& one : row) one = std::log(one);
  });
  y.shape = x.shape;
  return y;
}

/// Σ over the letters that the output lacks.
std::optional<Value> einsum(const std::string& equation, const Value& a, const Value& b) {
  const std::size_t comma = equation.find(','), arrow = equation.find("->");
  const std::string in_a = equation.substr(0, comma),
                    in_b = equation.substr(comma + 1, arrow - comma - 1),
                    out = equation.substr(arrow + 2);
  if (in_a.size() != a.shape.size() || in_b.size() != b.shape.size()) return std::nullopt;
  std::map<char, std::int64_t> lengths;
  for (std::size_t i = 0; i < in_a.size(); ++i) lengths[in_a[i]] = a.shape[i];
  for (std::size_t i = 0; i < in_b.size(); ++i) {
    if (lengths.contains(in_b[i]) && lengths[in_b[i]] != b.shape[i]) return std::nullopt;
    lengths[in_b[i]] = b.shape[i];
  }
  std::string letters = out;
  for (const auto& [letter, length] : lengths)
    if (out.find(letter) == out.npos) letters += letter;
  Dims all, shape;
  for (const char letter : letters) all.push_back(lengths[letter]);
  for (const char letter : out) shape.push_back(lengths[letter]);
  Value y{shape, std::vector<double>(static_cast<std::size_t>(elements_of(shape)))};
  for (std::int64_t i = 0; i < elements_of(all); ++i) {
    const Dims at = places_of(all, i);
    const auto pick = [&](const std::string& axes) {
      Dims places;
      for (const char letter : axes) places.push_back(at[letters.find(letter)]);
      return places;
    };
    y.data[flat_of(shape, pick(out))] +=
        a.data[flat_of(a.shape, pick(in_a))] * b.data[flat_of(b.shape, pick(in_b))];
  }
  return y;
}

std::optional<Value> matrix_product(const Value& a, const Value& b) {
  if (a.shape.size() < 2 || b.shape.size() < 2) return std::nullopt;
  const std::int64_t I = a.shape.end()[-2], K = a.shape.back(), J = b.shape.back();
  if (b.shape.end()[-2] != K) return std::nullopt;
  auto shape =
      broadcast({a.shape.begin(), a.shape.end() - 2}, {b.shape.begin(), b.shape.end() - 2});
  if (!shape) return std::nullopt;
  shape->push_back(I), shape->push_back(J);
  Value y{*shape, {}, a.type};
  for (std::int64_t i = 0; i < elements_of(*shape); ++i) {
    Dims in_a = places_of(*shape, i), in_b = in_a;
    double sum = 0;
    for (std::int64_t k = 0; k < K; ++k) {
      in_a.back() = in_b.end()[-2] = k;
      sum += a.data[flat_of(a.shape, in_a)] * b.data[flat_of(b.shape, in_b)];
    }
    y.data.push_back(sum);
  }
  return y;
}

using Unary = double (*)(double x, const Node& node);
double erf_of(double x) {
  return std::erf(x);
}
double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
const std::map<std::string, Unary> unary{
    {"Abs", [](double x, const Node&) { return std::abs(x); }},
    {"Acos", [](double x, const Node&) { return std::acos(x); }},
    {"Acosh", [](double x, const Node&) { return std::acosh(x); }},
    {"Asin", [](double x, const Node&) { return std::asin(x); }},
    {"Asinh", [](double x, const Node&) { return std::asinh(x); }},
    {"Atan", [](double x, const Node&) { return std::atan(x); }},
    {"Atanh", [](double x, const Node&) { return std::atanh(x); }},
    {"Ceil", [](double x, const Node&) { return std::ceil(x); }},
    {"Celu", [](double x, const Node&) { return std::max(x, 0.0) + std::min(0.0, std::expm1(x)); }},
    {"Cos", [](double x, const Node&) { return std::cos(x); }},
    {"Cosh", [](double x, const Node&) { return std::cosh(x); }},
    {"Elu", [](double x, const Node&) { return x < 0 ? std::expm1(x) : x; }},
    {"Erf", [](double x, const Node&) { return erf_of(x); }},
    {"Exp", [](double x, const Node&) { return std::exp(x); }},
    {"Floor", [](double x, const Node&) { return std::floor(x); }},
    {"Gelu", [](double x, const Node&) { return x / 2 * (1 + erf_of(x / std::sqrt(2.0))); }},
    {"HardSigmoid", [](double x, const Node&) { return std::clamp(0.2 * x + 0.5, 0.0, 1.0); }},
    {"HardSwish", [](double x, const Node&) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); }},
    {"Identity", [](double x, const Node&) { return x; }},
    {"LeakyRelu",
     [](double x, const Node& node) { return x < 0 ? node.number("alpha", 0.01) * x : x; }},
    {"Log", [](double x, const Node&) { return std::log(x); }},
    {"Mish", [](double x, const Node&) { return x * std::tanh(std::log1p(std::exp(x))); }},
    {"Neg", [](double x, const Node&) { return -x; }},
    {"Reciprocal", [](double x, const Node&) { return 1 / x; }},
    {"Relu", [](double x, const Node&) { return std::max(x, 0.0); }},
    {"Round", [](double x, const Node&) { return std::nearbyint(x); }},
    {"Selu",
     [](double x, const Node&) {
       return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * std::expm1(x));
     }},
    {"Shrink", [](double x, const Node&) { return x < -0.5 || x > 0.5 ? x : 0; }},
    {"Sigmoid", [](double x, const Node&) { return sigmoid(x); }},
    {"Sign", [](double x, const Node&) { return static_cast<double>((x > 0) - (x < 0)); }},
    {"Sin", [](double x, const Node&) { return std::sin(x); }},
    {"Sinh", [](double x, const Node&) { return std::sinh(x); }},
    {"Softplus", [](double x, const Node&) { return std::log1p(std::exp(x)); }},
    {"Softsign", [](double x, const Node&) { return x / (1 + std::abs(x)); }},
    {"Sqrt", [](double x, const Node&) { return std::sqrt(x); }},
    {"Swish", [](double x, const Node&) { return x * sigmoid(x); }},
    {"Tan", [](double x, const Node&) { return std::tan(x); }},
    {"Tanh", [](double x, const Node&) { return std::tanh(x); }},
    {"ThresholdedRelu", [](double x, const Node&) { return x > 1 ? x : 0; }},
};

using Binary = double (*)(double a, double b);
const std::map<std::string, Binary> binary{
    {"Add", [](double a, double b) { return a + b; }},
    {"Sum", [](double a, double b) { return a + b; }},
    {"Sub", [](double a, double b) { return a - b; }},
    {"Mul", [](double a, double b) { return a * b; }},
    {"Div", [](double a, double b) { return a / b; }},
    {"Pow", [](double a, double b) { return std::pow(a, b); }},
    {"Max", [](double a, double b) { return std::max(a, b); }},
    {"Min", [](double a, double b) { return std::min(a, b); }},
    {"Mean", [](double a, double b) { return (a + b) / 2; }},
    {"Mod", [](double a, double b) { return std::fmod(a, b); }},
    {"PRelu", [](double a, double b) { return a < 0 ? a * b : a; }},
    {"LessOrEqual", [](double a, double b) { return static_cast<double>(a <= b); }},
    {"Greater", [](double a, double b) { return static_cast<double>(a > b); }},
};

std::optional<Value> slice(const std::vector<const Value*>& in) {
  const Value& x = *in[0];
  Dims start(x.shape.size(), 0), step(x.shape.size(), 1), shape = x.shape;
  for (std::size_t i = 0; i < in[1]->count(); ++i) {
    const auto axis = static_cast<std::size_t>(
        axis_of(in.size() > 3 && in[3] ? static_cast<std::int64_t>(in[3]->data[i])
                                       : static_cast<std::int64_t>(i),
                x.shape));
    const std::int64_t length = x.shape[axis];
    step[axis] = in.size() > 4 && in[4] ? static_cast<std::int64_t>(in[4]->data[i]) : 1;
    const auto place = [&](double at) {
      const auto whole = static_cast<std::int64_t>(std::clamp(at, -1e15, 1e15));
      return whole < 0 ? whole + length : whole;
    };
    const bool forward = step[axis] > 0;
    start[axis] = std::clamp<std::int64_t>(place(in[1]->data[i]), 0, forward ? length : length - 1);
    const std::int64_t end =
        std::clamp<std::int64_t>(place(in[2]->data[i]), forward ? 0 : -1, length);
    const std::int64_t span = forward ? end - start[axis] : start[axis] - end;
    shape[axis] = span <= 0 ? 0 : (span - 1) / std::abs(step[axis]) + 1;
  }
  return moved(x, shape, [&](Dims at) {
    for (std::size_t i = 0; i < at.size(); ++i) at[i] = start[i] + at[i] * step[i];
    return at;
  });
}

std::optional<Value> reshape(const Value& x, const Value& target) {
  Value y = x;
  y.shape.clear();
  std::int64_t known = 1, open = -1;
  for (std::size_t i = 0; i < target.count(); ++i) {
    auto length = static_cast<std::int64_t>(target.data[i]);
    if (length == 0 && i >= x.shape.size()) return std::nullopt;
    if (length == 0) length = x.shape[i];
    if (length < 0) open = static_cast<std::int64_t>(i);
    known *= length < 0 ? 1 : length;
    y.shape.push_back(length);
  }
  if (known == 0) return std::nullopt;
  if (open >= 0) y.shape[static_cast<std::size_t>(open)] = elements_of(x.shape) / known;
  if (elements_of(y.shape) != elements_of(x.shape)) return std::nullopt;
  return y;
}

std::optional<Value> gather(const Node& node, const Value& x, const Value& rows) {
  const std::int64_t axis = axis_of(node.integer("axis", 0), x.shape);
  if (axis < 0 || axis >= static_cast<std::int64_t>(x.shape.size())) return std::nullopt;
  const auto length = static_cast<double>(x.shape[static_cast<std::size_t>(axis)]);
  for (const double row : rows.data)
    if (row < -length || row >= length) return std::nullopt;
  Dims shape(x.shape.begin(), x.shape.begin() + axis);
  shape.insert(shape.end(), rows.shape.begin(), rows.shape.end());
  shape.insert(shape.end(), x.shape.begin() + axis + 1, x.shape.end());
  return moved(x, shape, [&](const Dims& at) {
    const auto first = at.begin() + axis;
    const auto count = static_cast<std::ptrdiff_t>(rows.shape.size());
    Dims from(at.begin(), first);
    const double row = rows.data[flat_of(rows.shape, {first, first + count})];
    from.push_back(static_cast<std::int64_t>(row < 0 ? row + length : row));
    from.insert(from.end(), first + count, at.end());
    return from;
  });
}

std::optional<Value> concat(const Node& node, const std::vector<const Value*>& in) {
  const auto axis = static_cast<std::size_t>(axis_of(node.integer("axis", 0), in[0]->shape));
  Value y = *in[0];
  for (std::size_t i = 1; i < in.size(); ++i) {
    if (in[i]->shape.size() != y.shape.size() || axis >= y.shape.size()) return std::nullopt;
    Dims shape = y.shape;
    shape[axis] += in[i]->shape[axis];
    Value next{shape, {}, y.type};
    for (std::int64_t flat = 0; flat < elements_of(shape); ++flat) {
      Dims at = places_of(shape, flat);
      const Value& from = at[axis] < y.shape[axis] ? y : *in[i];
      if (at[axis] >= y.shape[axis]) at[axis] -= y.shape[axis];
      next.data.push_back(from.data[flat_of(from.shape, at)]);
    }
    y = std::move(next);
  }
  return y;
}

void normalise(std::vector<double>& row, bool centred, double epsilon) {
  double mean = 0, square = 0;
  for (const double one : row) mean += centred ? one / static_cast<double>(row.size()) : 0;
  for (const double one : row)
    square += (one - mean) * (one - mean) / static_cast<double>(row.size());
  for (double& one : row) one = (one - mean) / std::sqrt(square + epsilon);
}

std::optional<Value> normalising(const Node& node, const std::vector<const Value*>& in) {
  const Value& x = *in[0];
  const auto last = static_cast<std::int64_t>(x.shape.size()) - 1;
  if (node.op == "LayerNormalization" || node.op == "RMSNormalization") {
    const Value y = by_row(x, last, [&](std::vector<double>& row) {
      normalise(row, node.op == "LayerNormalization", node.number("epsilon", 1e-5));
    });
    const auto scaled = joined(y, *in[1], binary.at("Mul"));
    return in.size() < 3 || !scaled ? scaled : joined(*scaled, *in[2], binary.at("Add"));
  }
  if (node.op == "ReduceMean") { // along the last axis, or the one that is given
    const std::int64_t axis =
        axis_of(in.size() > 1 ? static_cast<std::int64_t>(in[1]->data[0]) : -1, x.shape);
    Value y = by_row(x, axis, [](std::vector<double>& row) {
      row[0] = std::accumulate(row.begin(), row.end(), 0.0) / static_cast<double>(row.size());
    });
    Dims one = x.shape;
    one[static_cast<std::size_t>(axis)] = 1;
    return moved(y, one, [](const Dims& at) { return at; });
  }
  if (node.op == "LpNormalization")
    return by_row(x, axis_of(node.integer("axis", -1), x.shape), [&](std::vector<double>& row) {
      double square = 0;
      for (const double one : row) square += one * one;
      for (double& one : row) one /= std::sqrt(square);
    });
  return std::nullopt;
}

/// Operators that move elements, or choose among them.
std::optional<Value> moving(const Node& node, const std::vector<const Value*>& in) {
  const Value& x = *in[0];
  const std::string& op = node.op;
  if (op == "Transpose") {
    Dims order = node.integers("perm");
    if (order.empty())
      for (std::size_t i = x.shape.size(); i-- > 0;) order.push_back(static_cast<std::int64_t>(i));
    if (order.size() != x.shape.size()) return std::nullopt;
    Dims shape;
    for (const std::int64_t axis : order) shape.push_back(x.shape[static_cast<std::size_t>(axis)]);
    return moved(x, shape, [&](const Dims& at) {
      Dims from(at.size());
      for (std::size_t i = 0; i < at.size(); ++i) from[static_cast<std::size_t>(order[i])] = at[i];
      return from;
    });
  }
  if (x.count() == 0) return std::nullopt;
  if (op == "Reshape") return reshape(x, *in[1]);
  if (op == "Slice") return slice(in);
  if (op == "Gather") return gather(node, x, *in[1]);
  if (op == "Concat") return concat(node, in);
  if (op == "Expand") {
    const auto shape = broadcast(x.shape, Dims(in[1]->data.begin(), in[1]->data.end()));
    if (!shape) return std::nullopt;
    return moved(x, *shape, [](const Dims& at) { return at; });
  }
  if (op == "Tile") {
    Dims shape = x.shape;
    for (std::size_t i = 0; i < shape.size(); ++i)
      shape[i] *= static_cast<std::int64_t>(in[1]->data[i]);
    return moved(x, shape, [&](Dims at) {
      for (std::size_t i = 0; i < at.size(); ++i) at[i] %= x.shape[i];
      return at;
    });
  }
  if (op == "Unsqueeze" || op == "Squeeze") {
    Value y = x;
    for (const double one : in[1]->data) {
      const auto rank = static_cast<std::int64_t>(y.shape.size()) + (op == "Unsqueeze");
      const auto place = static_cast<std::int64_t>(one < 0 ? one + static_cast<double>(rank) : one);
      if (place < 0 || place >= rank) return std::nullopt;
      const auto at = y.shape.begin() + place;
      if (op == "Squeeze" && *at != 1) return std::nullopt;
      if (op == "Unsqueeze")
        y.shape.insert(at, 1);
      else
        y.shape.erase(at);
    }
    return y;
  }
  if (op == "Where") {
    auto shape = broadcast(in[0]->shape, in[1]->shape);
    if (shape) shape = broadcast(*shape, in[2]->shape);
    if (!shape) return std::nullopt;
    Value y{*shape, {}, in[1]->type};
    for (std::int64_t i = 0; i < elements_of(*shape); ++i) {
      const Dims at = places_of(*shape, i);
      const Value& from = *in[in[0]->data[flat_of(in[0]->shape, at)] != 0 ? 1 : 2];
      y.data.push_back(from.data[flat_of(from.shape, at)]);
    }
    return y;
  }
  if (op == "Trilu") {
    const double k = in.size() > 1 && in[1] ? in[1]->data[0] : 0;
    Value y = x;
    for (std::size_t i = 0; i < y.data.size(); ++i) {
      const Dims at = places_of(y.shape, static_cast<std::int64_t>(i));
      const auto ahead = static_cast<double>(at.back() - at.end()[-2]);
      if (node.integer("upper", 1) != 0 ? ahead < k : ahead > k) y.data[i] = 0;
    }
    return y;
  }
  return std::nullopt;
}

std::optional<Value> gemm(const Node& node, const std::vector<const Value*>& in) {
  const auto turned = [](const Value& x) {
    return moved(x, {x.shape[1], x.shape[0]}, [](const Dims& at) { return Dims{at[1], at[0]}; });
  };
  if (in[0]->shape.size() != 2 || in[1]->shape.size() != 2) return std::nullopt;
  auto y = matrix_product(node.integer("transA", 0) != 0 ? turned(*in[0]) : *in[0],
                          node.integer("transB", 0) != 0 ? turned(*in[1]) : *in[1]);
  if (!y || in.size() < 3 || !in[2]) return y;
  return joined(*y, *in[2], binary.at("Add"));
}

std::optional<Value> bounded(const Node& node, const std::vector<const Value*>& in) {
  const double least = in.size() > 1 && in[1] ? in[1]->data[0] : node.number("min", -infinite),
               most = in.size() > 2 && in[2] ? in[2]->data[0] : node.number("max", infinite);
  return mapped(*in[0], [&](double x) { return std::min(std::max(x, least), most); });
}

Value running_sum(const Node& node, const Value& x, const Value& axis) {
  return by_row(x, axis_of(static_cast<std::int64_t>(axis.data[0]), x.shape),
                [&](std::vector<double>& row) {
                  if (node.integer("reverse", 0) != 0) std::ranges::reverse(row);
                  double sum = 0;
                  for (double& one : row) {
                    const double own = one;
                    one = node.integer("exclusive", 0) != 0 ? sum : sum + own;
                    sum += own;
                  }
                  if (node.integer("reverse", 0) != 0) std::ranges::reverse(row);
                });
}

} // namespace

double rounded_to(double number, Type type) {
  if (type == f64) return number;
  if (type == f32) return static_cast<double>(static_cast<float>(number));
  if (type == i64 || type == i32) return std::trunc(number);
  if (type == boolean) return number != 0;
  const int kept = type == f16 ? 11 : 8; // bits of the fraction
  int exponent = 0;
  const double fraction = std::frexp(number, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, kept)), exponent - kept);
}

std::optional<Value> compute(const Node& node, const std::vector<const Value*>& in,
                             std::int64_t opset) {
  const std::string& op = node.op;
  if (!node.domain.empty() || in.empty() || !in[0]) return std::nullopt;
  if (const auto found = unary.find(op); found != unary.end())
    return mapped(*in[0], [&](double x) { return found->second(x, node); });
  if (const auto found = binary.find(op); found != binary.end()) {
    if (in.size() != 2) return std::nullopt;
    return joined(*in[0], *in[1], found->second);
  }
  if (op == "MatMul") return matrix_product(*in[0], *in[1]);
  if (op == "Gemm") return gemm(node, in);
  if (op == "Einsum")
    return einsum(std::get<std::string>(node.attributes.at("equation")), *in[0], *in[1]);
  if (op == "Softmax" || op == "LogSoftmax" || op == "Hardmax")
    return normalised(node, *in[0], opset);
  if (op == "Clip") return bounded(node, in);
  if (op == "CumSum") return running_sum(node, *in[0], *in[1]);
  if (op == "Dropout") {
    if (in.size() > 2 && in[2] && in[2]->data[0] != 0) return std::nullopt; // random
    return *in[0];
  }
  if (op == "Cast") {
    const auto type = static_cast<Type>(node.integer("to", 1));
    Value y = mapped(*in[0], [&](double x) { return rounded_to(x, type); });
    y.type = type;
    return y;
  }
  if (op == "Shape") {
    const Dims& shape = in[0]->shape;
    return Value{{static_cast<std::int64_t>(shape.size())}, {shape.begin(), shape.end()}, i64};
  }
  if (auto found = normalising(node, in)) return found;
  return moving(node, in);
}

std::map<std::string, Value> evaluate(const Graph& graph, std::map<std::string, Value> given) {
  given.insert(graph.constants.begin(), graph.constants.end());
  for (const Node& node : graph.nodes) {
    std::vector<const Value*> in;
    bool known = true;
    for (const std::string& name : node.inputs) {
      const auto found = given.find(name);
      known &= name.empty() || found != given.end();
      in.push_back(found == given.end() ? nullptr : &found->second);
    }
    if (!known) continue;
    if (auto made = compute(node, in, graph.opset)) given[node.outputs[0]] = std::move(*made);
  }
  return given;
}

} // namespace onnx
