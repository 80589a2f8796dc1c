#include <mha/formats/onnx_model.hpp>

#include <mha/files/text.hpp>
#include <mha/formats/onnx_wire.hpp>
#include <mha/system/named.hpp>

#include <fmt/format.h>

namespace mha::io {

namespace {

/// Limit for nested bodies of If and Loop; models have two or three levels.
constexpr int most_onnx_nesting = 16;
constexpr std::size_t most_onnx_axes = 32;

std::pair<std::string_view, std::string_view> read_onnx_entry(WireReader reader) {
  std::pair<std::string_view, std::string_view> entry;
  while (const auto field = reader.next()) {
    if (field->number == 1) entry.first = reader.text(*field, "a key");
    if (field->number == 2) entry.second = reader.text(*field, "a value");
  }
  return entry;
}

OnnxTensor read_onnx_tensor(WireReader reader) {
  OnnxTensor tensor;
  const auto typed = [&](const WireField& field) {
    if (tensor.typed_field != 0 && tensor.typed_field != field.number)
      fail("{}: tensor '{}' has numbers in two fields, {} and {}", reader.where(),
           shown(tensor.name), tensor.typed_field, field.number);
    tensor.typed_field = field.number;
    if (field.type == WireType::varint)
      tensor.loose.push_back(field.integer());
    else
      tensor.typed.push_back(field.bytes);
  };
  while (const auto field = reader.next()) switch (field->number) {
    case 1:
      reader.add_integers(*field, "a tensor's shape", tensor.dims);
      if (tensor.dims.size() > most_onnx_axes)
        fail("{}: a tensor of more than {} axes", reader.where(), most_onnx_axes);
      break;
    case 2:
      tensor.type = reader.integer(*field, "a tensor's type");
      break;
    case 3:
      fail("{}: a tensor in segments, which is not read", reader.where());
    case 4:  // float_data
    case 5:  // int32_data
    case 7:  // int64_data
    case 10: // double_data
    case 11: // uint64_data
      typed(*field);
      break;
    case 6: // string_data
      tensor.typed_field = 6;
      break;
    case 8:
      tensor.name = reader.text(*field, "a tensor's name");
      break;
    case 9:
      tensor.raw = reader.bytes(*field, "a tensor's numbers");
      tensor.has_raw = true;
      break;
    case 13:
      tensor.place.insert(read_onnx_entry(reader.message(*field)));
      break;
    case 14:
      tensor.external = reader.integer(*field, "data_location") == 1;
      break;
    default:
      break;
    }
  return tensor;
}

OnnxGraph read_onnx_graph(WireReader reader, int depth);

void read_onnx_floats(const WireReader& reader, const WireField& field, std::vector<float>& into) {
  if (field.type == WireType::four_bytes) {
    into.push_back(reader.number(field, "a number"));
    return;
  }
  const std::string_view bytes = reader.bytes(field, "numbers");
  if (bytes.size() % 4 != 0)
    fail("{}: an attribute's numbers are {} bytes, not a multiple of 4", reader.where(),
         bytes.size());
  for (std::size_t i = 0; i < bytes.size(); i += 4)
    into.push_back(reader.number({0, WireType::four_bytes, 0, bytes.substr(i, 4)}, "a number"));
}

OnnxAttribute read_onnx_attribute(WireReader reader, int depth) {
  OnnxAttribute attribute;
  while (const auto field = reader.next()) switch (field->number) {
    case 1:
      attribute.name = reader.text(*field, "an attribute's name");
      break;
    case 2:
      attribute.number = reader.number(*field, "an attribute's number");
      break;
    case 3:
      attribute.integer = reader.integer(*field, "an attribute's integer");
      break;
    case 4:
      attribute.text = reader.bytes(*field, "an attribute's text");
      break;
    case 5:
      attribute.tensor =
          std::make_shared<const OnnxTensor>(read_onnx_tensor(reader.message(*field)));
      break;
    case 6:
      attribute.graph =
          std::make_shared<const OnnxGraph>(read_onnx_graph(reader.message(*field), depth + 1));
      break;
    case 7:
      read_onnx_floats(reader, *field, attribute.numbers);
      break;
    case 8:
      reader.add_integers(*field, "an attribute's integers", attribute.integers);
      break;
    case 21:
      attribute.reference = reader.text(*field, "an attribute's reference");
      break;
    case 22:
      attribute.sparse = true;
      break;
    default:
      break;
    }
  // Empty attributes take almost no bytes in the file, so it could have too many for the memory.
  if (attribute.name.empty()) fail("{}: an attribute without a name", reader.where());
  return attribute;
}

OnnxNode read_onnx_node(WireReader reader, int depth) {
  OnnxNode node;
  while (const auto field = reader.next()) switch (field->number) {
    case 1:
      node.inputs.push_back(reader.text(*field, "a node's input"));
      break;
    case 2:
      node.outputs.push_back(reader.text(*field, "a node's output"));
      break;
    case 3:
      node.name = reader.text(*field, "a node's name");
      break;
    case 4:
      node.op = reader.text(*field, "a node's operator");
      break;
    case 5:
      node.attributes.push_back(read_onnx_attribute(reader.message(*field), depth));
      break;
    case 7:
      node.domain = reader.text(*field, "a node's domain");
      break;
    default:
      break;
    }
  if (node.op.empty()) fail("{}: node '{}' has no operator", reader.where(), shown(node.name));
  if (node.domain == "ai.onnx") node.domain = "";
  return node;
}

OnnxDim read_onnx_dim(WireReader reader) {
  OnnxDim dim;
  while (const auto field = reader.next()) {
    if (field->number == 1) dim.length = reader.integer(*field, "an axis' length");
    if (field->number == 2) dim.name = reader.text(*field, "an axis' name");
  }
  return dim;
}

/// TypeProto of a tensor: {1: {1: element type, 2: {1: an axis each}}}.
void read_onnx_type(WireReader reader, OnnxValueInfo& info) {
  while (const auto field = reader.next()) {
    if (field->number != 1) continue; // sequences, maps and others have no shape here
    WireReader tensor = reader.message(*field);
    while (const auto part = tensor.next()) {
      if (part->number == 1) info.type = tensor.integer(*part, "an element type");
      if (part->number != 2) continue;
      info.has_shape = true;
      WireReader shape = tensor.message(*part);
      while (const auto axis = shape.next())
        if (axis->number == 1 && info.dims.size() <= most_onnx_axes)
          info.dims.push_back(read_onnx_dim(shape.message(*axis)));
    }
  }
}

OnnxValueInfo read_onnx_value(WireReader reader) {
  OnnxValueInfo info;
  while (const auto field = reader.next()) {
    if (field->number == 1) info.name = reader.text(*field, "a value's name");
    if (field->number == 2) read_onnx_type(reader.message(*field), info);
  }
  return info;
}

/// The name of a sparse tensor, which is the name of its values.
std::string_view name_of_sparse(WireReader reader) {
  std::string_view name;
  while (const auto field = reader.next())
    if (field->number == 1) name = read_onnx_tensor(reader.message(*field)).name;
  return name;
}

OnnxGraph read_onnx_graph(WireReader reader, int depth) {
  if (depth > most_onnx_nesting)
    fail("{}: graphs nested more than {} deep", reader.where(), most_onnx_nesting);
  OnnxGraph graph;
  while (const auto field = reader.next()) switch (field->number) {
    case 1:
      graph.nodes.push_back(read_onnx_node(reader.message(*field), depth));
      break;
    case 2:
      graph.name = reader.text(*field, "a graph's name");
      break;
    case 5:
      graph.initializers.push_back(read_onnx_tensor(reader.message(*field)));
      break;
    case 11:
      graph.inputs.push_back(read_onnx_value(reader.message(*field)));
      break;
    case 12:
      graph.outputs.push_back(read_onnx_value(reader.message(*field)));
      break;
    case 13:
      graph.values.push_back(read_onnx_value(reader.message(*field)));
      break;
    case 15:
      graph.sparse.push_back(name_of_sparse(reader.message(*field)));
      break;
    default:
      break;
    }
  return graph;
}

OnnxFunction read_onnx_function(WireReader reader) {
  OnnxFunction function;
  while (const auto field = reader.next()) switch (field->number) {
    case 1:
      function.name = reader.text(*field, "a function's name");
      break;
    case 4:
      function.inputs.push_back(reader.text(*field, "a function's input"));
      break;
    case 5:
      function.outputs.push_back(reader.text(*field, "a function's output"));
      break;
    case 7:
      function.nodes.push_back(read_onnx_node(reader.message(*field), 0));
      break;
    case 10:
      function.domain = reader.text(*field, "a function's domain");
      break;
    case 11:
      function.defaults.push_back(read_onnx_attribute(reader.message(*field), 0));
      break;
    default:
      break;
    }
  return function;
}

std::pair<std::string_view, std::int64_t> read_onnx_opset(WireReader reader) {
  std::pair<std::string_view, std::int64_t> opset;
  while (const auto field = reader.next()) {
    if (field->number == 1) opset.first = reader.text(*field, "a domain");
    if (field->number == 2) opset.second = reader.integer(*field, "an opset's version");
  }
  return opset;
}

} // namespace

const OnnxAttribute* OnnxNode::find(std::string_view attribute) const {
  return find_named(attributes, attribute);
}

std::int64_t OnnxNode::integer(std::string_view attribute, std::int64_t otherwise) const {
  const OnnxAttribute* found = find(attribute);
  return found && found->integer ? *found->integer : otherwise;
}

OnnxModel parse_onnx(const Bytes& bytes) {
  const std::string where = shown(bytes.name);
  WireReader reader(where, bytes.text(), bytes.text().data());
  OnnxModel model;
  bool has_graph = false;
  while (const auto field = reader.next()) switch (field->number) {
    case 1:
      model.ir_version = reader.integer(*field, "the version");
      break;
    case 2:
      model.producer = reader.text(*field, "the producer");
      break;
    case 3:
      model.producer_version = reader.text(*field, "the producer's version");
      break;
    case 7:
      if (has_graph) fail("{}: two graphs in one model", where);
      model.graph = read_onnx_graph(reader.message(*field), 0);
      has_graph = true;
      break;
    case 8:
      model.opsets.push_back(read_onnx_opset(reader.message(*field)));
      break;
    case 25:
      model.functions.push_back(read_onnx_function(reader.message(*field)));
      break;
    default:
      break;
    }
  if (!has_graph) fail("{}: it has no graph: not an ONNX model", where);
  return model;
}

} // namespace mha::io
