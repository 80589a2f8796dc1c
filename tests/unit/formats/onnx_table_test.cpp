// Every operator of the standard, put at every edge between the projections, the Softmax and the
// products of three exported forms: the layer that is read computes the graph's numbers, or the
// operator is refused by its node's name.

#include "support/onnx_outcome.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <random>

using namespace mha;

namespace {

using onnx::Dims;
using onnx::Form;
using onnx::Graph;
using onnx::is_close;
using onnx::outcome_of;
using onnx::Value;

/// Puts nodes into a graph after a value of this shape; "" where they do not fit it.
using Make = std::function<std::string(Graph& graph, const std::string& x, const Dims& shape)>;
struct Insertion {
  std::string name;
  Make make;
};

Insertion plain(const std::string& op, std::map<std::string, onnx::Attribute> attributes = {}) {
  return {op,
          [=](Graph& g, const std::string& x, const Dims&) { return g.add(op, {x}, attributes); }};
}
/// With a constant of the value's last axes; `form` 0: one number, 1: one of the last axis, 2: one
/// of the second to last, 3: of both, 4: of all axes but the first.
Insertion with_constant(const std::string& op, int form, double number, bool first = false) {
  const auto make = [=](Graph& g, const std::string& x, const Dims& shape) -> std::string {
    if (static_cast<int>(shape.size()) < (form == 0 ? 0 : form == 4 ? 3 : 2)) return "";
    Dims own;
    if (form == 1) own = {shape.back()};
    if (form == 2) own = {shape.end()[-2], 1};
    if (form == 3) own = {shape.end()[-2], shape.back()};
    if (form == 4) own = Dims(shape.begin() + 1, shape.end());
    Value value{own, {number}};
    if (!own.empty()) {
      value = onnx::random_value(own, 99);
      for (double& one : value.data) one = static_cast<double>(static_cast<float>(one + number));
    }
    const std::string c = g.constant(std::move(value));
    return first ? g.add(op, {c, x}) : g.add(op, {x, c});
  };
  return {op + " " + std::to_string(form) + " " + std::to_string(number) + (first ? " first" : ""),
          make};
}
/// Places along an axis in another order, or some of them again.
Insertion gathered(std::int64_t axis_from_end, Dims (*order)(std::int64_t)) {
  const auto make = [=](Graph& g, const std::string& x, const Dims& shape) -> std::string {
    if (static_cast<std::int64_t>(shape.size()) < axis_from_end) return "";
    const std::int64_t axis = static_cast<std::int64_t>(shape.size()) - axis_from_end;
    return g.add("Gather", {x, g.integers(order(shape[static_cast<std::size_t>(axis)]))},
                 {{"axis", axis}});
  };
  return {"Gather " + std::to_string(axis_from_end), make};
}
Dims turned_round(std::int64_t length) {
  Dims list;
  for (std::int64_t i = length; i-- > 0;) list.push_back(i);
  return list;
}
Dims in_order(std::int64_t length) {
  Dims list = turned_round(length);
  std::ranges::reverse(list);
  return list;
}

/// `perm` swaps two axes, counted from the end, and `back` a second time: what is between them sees
/// them swapped.
Insertion around(const std::string& op, std::int64_t a, std::int64_t b,
                 std::map<std::string, onnx::Attribute> attributes) {
  const auto make = [=](Graph& g, const std::string& x, const Dims& shape) -> std::string {
    const auto rank = static_cast<std::int64_t>(shape.size());
    if (rank < std::max(a, b)) return "";
    Dims order;
    for (std::int64_t i = 0; i < rank; ++i)
      order.push_back(i == rank - a ? rank - b : i == rank - b ? rank - a : i);
    const std::string turned = g.add("Transpose", {x}, {{"perm", order}});
    return op.empty() ? turned
                      : g.add("Transpose", {g.add(op, {turned}, attributes)}, {{"perm", order}});
  };
  return {"around " + op, make};
}
Insertion sliced(std::int64_t axis_from_end, std::int64_t start, std::int64_t end,
                 std::int64_t step) {
  const auto make = [=](Graph& g, const std::string& x, const Dims& shape) -> std::string {
    if (static_cast<std::int64_t>(shape.size()) < axis_from_end) return "";
    return g.add("Slice", {x, g.integers({start}), g.integers({end}),
                           g.integers({static_cast<std::int64_t>(shape.size()) - axis_from_end}),
                           g.integers({step})});
  };
  return {"Slice", make};
}

std::vector<Insertion> unary_insertions() {
  std::vector<Insertion> list;
  for (const char* op : {"Abs",
                         "Acos",
                         "Acosh",
                         "Asin",
                         "Asinh",
                         "Atan",
                         "Atanh",
                         "Bernoulli",
                         "Ceil",
                         "Celu",
                         "Cos",
                         "Cosh",
                         "Elu",
                         "Erf",
                         "Exp",
                         "Floor",
                         "Gelu",
                         "GlobalAveragePool",
                         "HardSigmoid",
                         "HardSwish",
                         "Hardmax",
                         "Identity",
                         "LeakyRelu",
                         "Log",
                         "LogSoftmax",
                         "LpNormalization",
                         "MeanVarianceNormalization",
                         "Mish",
                         "Neg",
                         "RandomNormalLike",
                         "Reciprocal",
                         "Relu",
                         "Round",
                         "Selu",
                         "Shrink",
                         "Sigmoid",
                         "Sign",
                         "Sin",
                         "Sinh",
                         "Softmax",
                         "Softplus",
                         "Softsign",
                         "Sqrt",
                         "Swish",
                         "Tan",
                         "Tanh",
                         "ThresholdedRelu",
                         "Dropout",
                         "Trilu",
                         "EyeLike",
                         "NonSuchOperator"})
    list.push_back(plain(op));
  for (const std::int64_t type : {1, 6, 10, 11, 16}) list.push_back(plain("Cast", {{"to", type}}));
  list.push_back(plain("Softmax", {{"axis", std::int64_t{-2}}}));
  list.push_back(plain("Trilu", {{"upper", std::int64_t{0}}}));
  list.push_back(plain("LRN", {{"size", std::int64_t{3}}}));
  return list;
}

std::vector<Insertion> binary_insertions() {
  std::vector<Insertion> list;
  for (const char* op :
       {"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Sum", "Mean", "Mod", "PRelu"})
    for (const int form : {0, 1, 2, 3, 4}) list.push_back(with_constant(op, form, 1.5));
  for (const char* op : {"Sub", "Div", "Pow"}) list.push_back(with_constant(op, 0, 2, true));
  // Those that change nothing, and bounds beyond every number.
  for (const char* op : {"Mul", "Div", "Pow"}) list.push_back(with_constant(op, 0, 1));
  for (const char* op : {"Add", "Sub"}) list.push_back(with_constant(op, 0, 0));
  list.push_back(with_constant("Max", 0, -3e38));
  list.push_back(with_constant("Min", 0, 5e4));
  for (const double number : {0.5, 5e4})
    list.push_back({"Clip", [=](Graph& g, const std::string& x, const Dims&) {
                      return g.add("Clip", {x, g.number(-number), g.number(number)});
                    }});
  return list;
}

std::vector<Insertion> other_insertions() {
  std::vector<Insertion> list;
  for (const std::int64_t axis : {1, 2, 3}) {
    list.push_back(gathered(axis, turned_round)), list.push_back(gathered(axis, in_order));
    list.push_back(sliced(axis, 0, 9, 1)), list.push_back(sliced(axis, 0, INT64_MAX, 1));
    list.push_back(sliced(axis, -1, INT64_MIN, -1)), list.push_back(sliced(axis, 1, INT64_MAX, 1));
    list.push_back(
        {"CumSum", [=](Graph& g, const std::string& x, const Dims& shape) -> std::string {
           if (static_cast<std::int64_t>(shape.size()) < axis) return "";
           return g.add("CumSum", {x, g.constant({{}, {-static_cast<double>(axis)}, onnx::i64})});
         }});
  }
  for (const auto& [a, b] : {std::pair{1, 2}, {2, 3}, {1, 3}}) {
    list.push_back(around("", a, b, {}));
    for (const char* op : {"Identity", "Softmax", "Relu"}) list.push_back(around(op, a, b, {}));
  }
  for (const bool keeps : {true, false})
    list.push_back({"Where", [=](Graph& g, const std::string& x, const Dims& shape) {
                      Value chosen{{shape.back()}, {}, onnx::boolean};
                      for (std::int64_t i = 0; i < shape.back(); ++i)
                        chosen.data.push_back(keeps || i % 2);
                      return g.add("Where", {g.constant(std::move(chosen)), x, g.number(0.25)});
                    }});
  list.push_back({"Where by its own numbers", [](Graph& g, const std::string& x, const Dims&) {
                    return g.add("Where", {g.add("Greater", {x, g.number(0)}), x, g.number(-1e9)});
                  }});
  list.push_back({"MatMul", [](Graph& g, const std::string& x, const Dims& shape) {
                    return g.add(
                        "MatMul",
                        {x, g.constant(onnx::random_value({shape.back(), shape.back()}, 7))});
                  }});
  for (const char* op : {"LayerNormalization", "RMSNormalization"})
    list.push_back({op, [=](Graph& g, const std::string& x, const Dims& shape) {
                      return g.add(op, {x, g.constant(onnx::random_value({shape.back()}, 8))});
                    }});
  // A norm that is spelt out: of a row, and of what is none.
  for (const std::int64_t axis : {-1, -2})
    for (const double exponent : {2, 3})
      for (const double inverse : {-0.5, -1.0})
        list.push_back({"spelt norm", [=](Graph& g, const std::string& x, const Dims&) {
                          const std::string power = g.add("Pow", {x, g.number(exponent)});
                          const std::string mean = g.add("ReduceMean", {power, g.integers({axis})});
                          const std::string sum = g.add("Add", {mean, g.number(0.25)});
                          return g.add("Mul", {x, g.add("Pow", {sum, g.number(inverse)})});
                        }});
  for (const double over : {1, 2})
    list.push_back({"spelt norm without a mean", [=](Graph& g, const std::string& x, const Dims&) {
                      const std::string sum = g.add("Add", {g.add("Mul", {x, x}), g.number(0.25)});
                      const std::string root = g.add("Sqrt", {sum});
                      return g.add("Mul", {x, g.add("Div", {g.number(over), root})});
                    }});
  list.push_back(
      {"Dropout in training", [](Graph& g, const std::string& x, const Dims&) {
         return g.add("Dropout", {x, g.number(0.5), g.constant({{}, {1}, onnx::boolean})});
       }});
  list.push_back({"QuantizeLinear", [](Graph& g, const std::string& x, const Dims&) {
                    const std::string scale = g.number(0.25);
                    return g.add("DequantizeLinear", {g.add("QuantizeLinear", {x, scale}), scale});
                  }});
  list.push_back({"another domain's Identity", [](Graph& g, const std::string& x, const Dims&) {
                    const std::string out = g.add("Identity", {x});
                    g.nodes.back().domain = "com.example";
                    return out;
                  }});
  list.push_back({"twice", [](Graph& g, const std::string& x, const Dims&) {
                    return g.add("Add", {x, x});
                  }});
  list.push_back({"its square", [](Graph& g, const std::string& x, const Dims&) {
                    return g.add("Mul", {x, x});
                  }});
  return list;
}

/// "" where the layer computes the graph's numbers or reports that it does not, by one of the nodes
/// that were put in.
std::string judged(const Form& form, std::size_t first, std::size_t count, const Value& concat) {
  const onnx::Outcome outcome = outcome_of(form.graph, form.X);
  const auto values = onnx::evaluate(
      form.graph, {{"x", form.X},
                   {"attention_mask",
                    {{1, form.X.shape[1]},
                     std::vector<double>(static_cast<std::size_t>(form.X.shape[1]), 1),
                     onnx::i64}}});
  for (const auto& [stage, names] :
       {std::pair(&outcome.output, std::vector{form.output, form.product}),
        std::pair(&outcome.concat, std::vector{form.concat, form.concat})})
    for (const std::string& name : names)
      if (const auto wanted = values.find(name); *stage && wanted != values.end())
        if (is_close(**stage, wanted->second)) return "";
  // Another projection after W_o's input: the layer ends with the first.
  for (std::size_t i = first; i < first + count; ++i)
    if (const auto own = values.find(form.graph.nodes[i].outputs[0]); own != values.end())
      if (form.graph.nodes[i].op == "MatMul" && outcome.output &&
          is_close(*outcome.output, own->second))
        return "";
  // The graph itself fails where its heads are joined.
  if (outcome.concat && !values.contains(form.concat)) return "";
  // Another projection after the first: X is what enters the last one.
  const auto is_product = [](const onnx::Node& node) { return node.op == "MatMul"; };
  const auto put = form.graph.nodes.begin() + static_cast<std::ptrdiff_t>(first);
  if (std::any_of(put, put + static_cast<std::ptrdiff_t>(count), is_product) &&
      (outcome.said.find("rows, but X has") != std::string::npos ||
       outcome.said.find("are projected from") != std::string::npos))
    return "";
  for (std::size_t i = first; i < first + count; ++i)
    if (outcome.said.find("'" + form.graph.nodes[i].name + "'") != std::string::npos) {
      // Numbers of fewer bits are computed with all, and what follows W_o's input is left out.
      const bool rounds = outcome.said.find("are rounded in the graph") != std::string::npos;
      if (rounds || (!outcome.output && !outcome.concat)) return "";
      if (outcome.concat && is_close(*outcome.concat, concat)) return "";
      return "computed, other numbers: " + outcome.said;
    }
  return (outcome.output || outcome.concat ? "computed, other numbers: " : "no name: ") +
         outcome.said;
}

/// The shape that an edge has.
Dims shape_at(const Form& form, const onnx::Edge& edge,
              const std::map<std::string, Value>& values) {
  return values.at(form.graph.nodes[edge.node].inputs[edge.input]).shape;
}

struct Forms {
  std::vector<Form> forms = onnx::forms();
  std::vector<std::vector<onnx::Edge>> edges;
  std::vector<std::map<std::string, Value>> values;

  Forms() {
    for (const Form& form : forms) {
      edges.push_back(onnx::edges(form));
      const std::vector<double> ones(static_cast<std::size_t>(form.X.shape[1]), 1);
      values.push_back(onnx::evaluate(
          form.graph,
          {{"x", form.X}, {"attention_mask", {{1, form.X.shape[1]}, ones, onnx::i64}}}));
    }
  }

  std::string place(std::size_t form, std::size_t edge) const {
    const onnx::Edge& at = edges[form][edge];
    return forms[form].name + ", before " + forms[form].graph.nodes[at.node].name + " input " +
           std::to_string(at.input);
  }

  /// "" where a cell of the table holds.
  std::string of(std::size_t form, std::size_t edge,
                 const std::vector<const Insertion*>& insertions) const {
    const onnx::Edge& at = edges[form][edge];
    bool fits = true;
    std::size_t count = 0;
    const Form changed = onnx::inserted(forms[form], at, [&](Graph& g, const std::string& x) {
      std::string y = x;
      const std::size_t before = g.nodes.size();
      for (const Insertion* one : insertions) {
        const std::string next =
            fits ? one->make(g, y, shape_at(forms[form], at, values[form])) : "";
        fits &= !next.empty();
        if (fits) y = next;
      }
      count = g.nodes.size() - before;
      return y;
    });
    return fits ? judged(changed, at.node, count, values[form].at(forms[form].concat)) : "";
  }
};

std::vector<Insertion> all_insertions() {
  std::vector<Insertion> list = unary_insertions();
  for (auto& more : {binary_insertions(), other_insertions()})
    list.insert(list.end(), more.begin(), more.end());
  return list;
}

} // namespace

TEST_CASE("the forms of exported graphs are computed as their graphs are", "[io][onnx]") {
  const Forms forms;
  for (std::size_t i = 0; i < forms.forms.size(); ++i) {
    INFO(forms.forms[i].name);
    const onnx::Outcome outcome = outcome_of(forms.forms[i].graph, forms.forms[i].X);
    INFO(outcome.said);
    REQUIRE(outcome.output);
    CHECK(is_close(*outcome.output, forms.values[i].at(forms.forms[i].output)));
    CHECK(forms.edges[i].size() >= 15);
  }
}

namespace {

/// Runs the cells that `chosen` names, by edge and insertion, and reports those that do not hold.
template <class Chosen> void require_cells(Chosen chosen) {
  const Forms forms;
  const std::vector<Insertion> insertions = all_insertions();
  std::size_t edges = 0;
  for (std::size_t form = 0; form < forms.forms.size(); ++form)
    for (std::size_t edge = 0; edge < forms.edges[form].size(); ++edge, ++edges)
      for (std::size_t i = 0; i < insertions.size(); ++i) {
        if (!chosen(edges, i)) continue;
        const std::string why = forms.of(form, edge, {&insertions[i]});
        if (!why.empty())
          FAIL_CHECK(forms.place(form, edge) << ": " << insertions[i].name << ": " << why);
      }
  CHECK(edges > 50);
  CHECK(insertions.size() > 150);
}

} // namespace

TEST_CASE("an operator between an ONNX layer's products is computed or refused by name",
          "[io][onnx]") {
  require_cells(
      [](std::size_t edge, std::size_t insertion) { return (edge + insertion) % 6 == 0; });
}

TEST_CASE("every operator at every edge of an ONNX layer is computed or refused by name",
          "[.every-edge]") {
  require_cells([](std::size_t, std::size_t) { return true; });
}

TEST_CASE("two operators between an ONNX layer's products are computed or refused by name",
          "[io][onnx]") {
  const Forms forms;
  const std::vector<Insertion> insertions = all_insertions();
  std::mt19937_64 bits(49);
  const auto any = [&](std::size_t count) { return static_cast<std::size_t>(bits() % count); };
  const char* count = std::getenv("MHA_FUZZ"); // how many more
  for (std::size_t i = 0; i < (count ? std::stoul(count) : 300); ++i) {
    const std::size_t form = any(forms.forms.size()), edge = any(forms.edges[form].size());
    const Insertion &one = insertions[any(insertions.size())],
                    &other = insertions[any(insertions.size())];
    const std::string why = forms.of(form, edge, {&one, &other});
    if (!why.empty())
      FAIL_CHECK(forms.place(form, edge) << ": " << one.name << ", " << other.name << ": " << why);
  }
}
