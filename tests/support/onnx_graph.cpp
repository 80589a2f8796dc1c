#include "support/onnx_graph.hpp"

#include <bit>
#include <cstring>
#include <limits>

namespace onnx {

namespace {

std::string varint(std::uint64_t number) {
  std::string out;
  for (; number > 0x7F; number >>= 7) out += static_cast<char>((number & 0x7F) | 0x80);
  return out + static_cast<char>(number);
}
std::string field(int number, std::int64_t value) {
  return varint(static_cast<std::uint64_t>(number) << 3) +
         varint(static_cast<std::uint64_t>(value));
}
std::string field(int number, const std::string& data) {
  return varint(static_cast<std::uint64_t>(number) << 3 | 2) + varint(data.size()) + data;
}
std::string field(int number, float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  std::string out = varint(static_cast<std::uint64_t>(number) << 3 | 5);
  for (int i = 0; i < 4; ++i) out += static_cast<char>(bits >> 8 * i);
  return out;
}

template <class T> void append(std::string& to, T number) {
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  to.append(bytes, sizeof number);
}

/// A double has no largest int64: what is beyond it is the end of a slice.
std::int64_t whole(double number) {
  return number >= 0x1p63 ? std::numeric_limits<std::int64_t>::max()
                          : static_cast<std::int64_t>(number);
}

std::string tensor(const std::string& name, const Value& value) {
  std::string data, raw;
  for (const std::int64_t length : value.shape) data += field(1, length);
  data += field(2, static_cast<std::int64_t>(value.type));
  if (!name.empty()) data += field(8, name);
  for (const double number : value.data) switch (value.type) {
    case i64:
      append(raw, whole(number));
      break;
    case i32:
      append(raw, static_cast<std::int32_t>(number));
      break;
    case boolean:
      raw += static_cast<char>(number != 0);
      break;
    case f64:
      append(raw, number);
      break;
    default:
      append(raw, static_cast<float>(number));
    }
  return data + field(9, raw);
}

std::string attribute(const std::string& name, const Attribute& value) {
  std::string data = field(1, name);
  if (const auto* integer = std::get_if<std::int64_t>(&value))
    return data + field(3, *integer) + field(20, std::int64_t{2});
  if (const auto* number = std::get_if<float>(&value))
    return data + field(2, *number) + field(20, std::int64_t{1});
  if (const auto* text = std::get_if<std::string>(&value))
    return data + field(4, *text) + field(20, std::int64_t{3});
  if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&value))
    return data + field(6, (*body)->body()) + field(20, std::int64_t{5});
  if (const auto* held = std::get_if<Value>(&value))
    return data + field(5, tensor("", *held)) + field(20, std::int64_t{4});
  if (const auto* numbers = std::get_if<std::vector<float>>(&value)) {
    for (const float one : *numbers) data += field(7, one);
    return data + field(20, std::int64_t{6});
  }
  for (const std::int64_t one : std::get<Dims>(value)) data += field(8, one);
  return data + field(20, std::int64_t{7});
}

} // namespace

std::int64_t Node::integer(const std::string& attribute, std::int64_t otherwise) const {
  const auto found = attributes.find(attribute);
  return found == attributes.end() ? otherwise : std::get<std::int64_t>(found->second);
}
double Node::number(const std::string& attribute, double otherwise) const {
  const auto found = attributes.find(attribute);
  return found == attributes.end() ? otherwise
                                   : static_cast<double>(std::get<float>(found->second));
}
Dims Node::integers(const std::string& attribute) const {
  const auto found = attributes.find(attribute);
  return found == attributes.end() ? Dims{} : std::get<Dims>(found->second);
}

std::string Graph::add(const std::string& op, std::vector<std::string> given,
                       std::map<std::string, Attribute> attributes) {
  const std::string name = "/" + path + op + "_" + std::to_string(nodes.size());
  nodes.push_back({op, std::move(given), {name + "_out"}, std::move(attributes), name});
  return nodes.back().outputs[0];
}
std::string Graph::constant(Value value) {
  const std::string name = "constant_" + std::to_string(constants.size());
  constants[name] = std::move(value);
  return name;
}
std::string Graph::integers(Dims list) {
  Value value{{static_cast<std::int64_t>(list.size())}, {list.begin(), list.end()}, i64};
  return constant(std::move(value));
}
std::string Graph::number(double one) {
  return constant({{}, {one}});
}

std::string Graph::body() const {
  std::string graph;
  for (const Node& node : nodes) {
    std::string data;
    for (const std::string& one : node.inputs) data += field(1, one);
    for (const std::string& one : node.outputs) data += field(2, one);
    data += field(3, node.name) + field(4, node.op);
    for (const auto& [name, value] : node.attributes) data += field(5, attribute(name, value));
    if (!node.domain.empty()) data += field(7, node.domain);
    graph += field(1, data);
  }
  graph += field(2, std::string("graph"));
  for (const auto& [name, value] : constants) graph += field(5, tensor(name, value));
  for (const Input& input : inputs) {
    std::string axes;
    for (const auto& axis : input.axes)
      axes += field(1, std::holds_alternative<std::string>(axis)
                           ? field(2, std::get<std::string>(axis))
                           : field(1, std::get<std::int64_t>(axis)));
    const std::string type =
        field(1, field(1, static_cast<std::int64_t>(input.type)) + field(2, axes));
    graph += field(11, field(1, input.name) + field(2, type));
  }
  for (const std::string& name : outputs) graph += field(12, field(1, name));
  return graph;
}

std::string Graph::bytes() const {
  return field(1, std::int64_t{8}) + field(2, std::string("by hand")) + field(7, body()) +
         field(8, field(2, opset)) +
         field(8, field(1, std::string("com.microsoft")) + field(2, std::int64_t{1}));
}

} // namespace onnx
