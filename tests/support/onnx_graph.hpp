#pragma once
// ONNX graphs that tests make by hand: written as a file's bytes, and computed in double straight
// from the operators' definitions. Shares no code with the library.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace onnx {

using Dims = std::vector<std::int64_t>;

/// TensorProto.DataType.
enum Type : std::uint8_t { f32 = 1, i32 = 6, i64 = 7, boolean = 9, f16 = 10, f64 = 11, bf16 = 16 };

struct Value {
  Dims shape;
  std::vector<double> data;
  Type type = f32;

  std::size_t count() const { return data.size(); }
};

struct Graph;
using Attribute = std::variant<std::int64_t, float, std::string, Dims, std::vector<float>, Value,
                               std::shared_ptr<const Graph>>;

struct Node {
  std::string op;
  std::vector<std::string> inputs, outputs; ///< "": left out
  std::map<std::string, Attribute> attributes = {};
  std::string name = {}, domain = {};

  std::int64_t integer(const std::string& attribute, std::int64_t otherwise) const;
  double number(const std::string& attribute, double otherwise) const;
  Dims integers(const std::string& attribute) const;
};

/// An input of the graph: an axis of length −1 is called by its name.
struct Input {
  std::string name;
  std::vector<std::variant<std::int64_t, std::string>> axes;
  Type type = f32;
};

struct Graph {
  std::vector<Node> nodes;
  std::map<std::string, Value> constants;
  std::vector<Input> inputs;
  std::vector<std::string> outputs = {};
  std::int64_t opset = 18;
  std::string path; ///< before the names of nodes

  /// Adds a node that is called by its number and its operator; its output's name.
  std::string add(const std::string& op, std::vector<std::string> given,
                  std::map<std::string, Attribute> attributes = {});
  std::string constant(Value value);
  std::string integers(Dims list);
  std::string number(double one);

  std::string bytes() const;
  /// GraphProto, as a body of If has it.
  std::string body() const;
};

/// All values of a graph by their names; what a node of an unknown operator gives, or one whose
/// inputs do not fit, is missing, and so is what follows from it.
std::map<std::string, Value> evaluate(const Graph& graph, std::map<std::string, Value> given);

/// One node's first output.
std::optional<Value> compute(const Node& node, const std::vector<const Value*>& given,
                             std::int64_t opset);

/// A number as a type holds it.
double rounded_to(double number, Type type);

} // namespace onnx
