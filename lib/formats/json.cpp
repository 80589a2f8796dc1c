#include <mha/formats/json.hpp>

#include <mha/files/text.hpp>
#include <mha/formats/json_array.hpp>
#include <mha/formats/json_node.hpp>
#include <mha/system/characters.hpp>

#include <algorithm>
#include <map>
#include <set>

namespace mha::io {

namespace {

constexpr std::size_t most_depth = 64;

/// The shapes of a list's elements, each along its first lists; none where there are many, or
/// something else than lists of numbers is in it.
std::vector<Shape> shapes_of_elements(std::string_view text) {
  constexpr std::size_t many = 64;
  std::vector<Shape> shapes;
  std::vector<bool> closed; // the first list of each depth in the element
  std::size_t depth = 0;
  for (const char c : text) {
    if (c == '"' || c == '{' || (depth == 1 && (is_digit(c) || c == '-'))) return {};
    if (shapes.size() > many) return {};
    if (c == '[' && ++depth > 1) {
      if (depth == 2) shapes.emplace_back(), closed.clear();
      if (shapes.back().size() == depth - 2) shapes.back().push_back(1), closed.push_back(false);
    } else if (c == ',' && depth > 1 && !closed[depth - 2]) {
      ++shapes.back()[depth - 2];
    } else if (c == ']') {
      if (depth-- == 0) return {};
      if (depth > 0) closed[depth - 1] = true;
    }
  }
  return shapes;
}

/// Whether a list is of arrays, as Keras' get_weights() returns them, which no array is: they have
/// different numbers of axes, or are (d, H, d_k) twice, (d, H, d_v) and (H, d_v, d).
bool is_list_of_arrays(std::string_view text) {
  const std::vector<Shape> shapes = shapes_of_elements(text);
  if (shapes.empty()) return false;
  const auto [least, most] = std::ranges::minmax(shapes, {}, &Shape::size);
  if (least.size() != most.size()) return most.size() >= 3;
  if (shapes.size() != 4 || most.size() != 3) return false;
  const Shape &q = shapes[0], &v = shapes[2], &o = shapes[3];
  return shapes[1] == q && o == Shape{q[1], v[2], q[0]} && o != q && v[0] == q[0] && v[1] == q[1];
}

class DocumentReader {
public:
  explicit DocumentReader(const Bytes& bytes)
      : bytes_(bytes),
        document_(shown(bytes.name), bytes.text(), JsonWords::typed),
        stem_(stem_of(bytes.name)) {
    contents_.name = bytes.name;
    contents_.format = "json";
  }

  Contents read() {
    const JsonNode root = JsonNode::unread_root(document_);
    if (root.is_object())
      object("", root, 0);
    else if (root.is_array() && is_list_of_arrays(bytes_.text()))
      each_array(root);
    else if (root.is_array())
      add(stem_, value(root, JsonNumbers::floating_or_text));
    else
      document_.scanner.refuse_unexpected("an object of tensors, or one list, expected",
                                          root.place());
    root.finish();
    return std::move(contents_);
  }

private:
  void each_array(const JsonNode& list) {
    std::size_t n = 0;
    list.each_element("the document", [&](const JsonNode& array) {
      add(fmt::format("arr_{}", n++), value(array, JsonNumbers::floating_or_text));
    });
  }
  /// A value other than an object.
  JsonValue value(const JsonNode& node, JsonNumbers kind) {
    JsonValue value;
    value.at = node.place();
    if (node.is_array()) {
      value.array = node.read([&](JsonScanner& scanner) { return read_json_array(scanner, kind); });
      forget(bytes_, value.at, document_.scanner.place());
    } else if (node.is_string()) {
      value.scalar = node.text("a text");
    } else if (node.is_number()) {
      const std::string text(node.number_text());
      const double number = node.number("a number");
      value.scalar = kind_of(text) == TextKind::integer ? text : number_text(number);
    } else {
      const std::string word(node.word());
      if (word == "True" || word == "False" || word == "None")
        node.refuse("a value expected; JSON writes true, false and null");
      if (const std::optional<double> number = typed_number_word(word))
        value.scalar = number_text(*number);
      else if (word != "null") // null counts as missing
        value.scalar = word;
    }
    return value;
  }

  /// Adds a value to the tensors, scalars or labels.
  void add(const std::string& name, JsonValue value) {
    claim(name, value.at);
    if (value.array && value.array->is_text) {
      contents_.labels.emplace_back(name, std::move(value.array->texts));
    } else if (value.array && !value.array->lists.empty()) {
      contents_.item_labels.emplace_back(name, std::move(value.array->lists));
    } else if (value.array) {
      const Tensor tensor = value.array->numbers;
      add_tensor(name, tensor, tensor.dtype() == DType::f64);
    } else if (value.scalar) {
      contents_.scalars.emplace_back(name, *value.scalar);
    }
  }
  void add_tensor(const std::string& name, const Tensor& tensor, bool weak) {
    contents_.tensors.push_back(
        {name, tensor.dtype(), tensor.shape(), weak, [tensor] { return tensor; }});
  }
  void claim(const std::string& name, const char* at) {
    if (!names_.insert(name).second)
      document_.scanner.refuse(fmt::format("'{}' appears twice", shown(name)), at);
  }

  /// Adds the members of an object as PREFIX.KEY, or one tensor if the members describe one.
  void object(const std::string& prefix, const JsonNode& node, std::size_t depth) {
    if (depth == most_depth)
      node.refuse(fmt::format("objects nested more than {} deep", most_depth));
    const auto named = [&](std::string_view key) {
      return prefix.empty() ? std::string(key) : fmt::format("{}.{}", prefix, key);
    };
    std::set<std::string, std::less<>> keys;
    std::map<std::string, JsonValue, std::less<>> parts; // may describe a tensor
    node.each_member("the document", [&](const JsonName& name, const JsonNode& member) {
      if (!keys.emplace(name.text).second)
        document_.scanner.refuse(fmt::format("'{}' appears twice in this object", shown(name)),
                                 name.place);
      const std::string key(name);
      if (member.is_object()) {
        object(named(key), member, depth + 1);
      } else if (key == "data") {
        const auto dtype = parts.find("dtype");
        parts[key] = value(member, dtype == parts.end() ? JsonNumbers::floating_or_text
                                                        : numbers_for(dtype->second.scalar));
      } else if (key == "shape" || key == "dtype" || key == "row_tokens" || key == "col_tokens") {
        // `show` prints the tokens beside a tensor.
        parts[key] = value(member, JsonNumbers::floating_or_text);
      } else {
        add(named(key), value(member, JsonNumbers::floating_or_text));
      }
    });
    if (parts.contains("data") && parts.size() == keys.size() && parts.size() > 1) {
      const auto part = [&](const char* key) {
        const auto found = parts.find(key);
        return found == parts.end() ? nullptr : &found->second;
      };
      const std::string name = prefix.empty() ? stem_ : prefix;
      claim(name, node.place());
      const Tensor tensor =
          json_tensor(document_.scanner, part("shape"), part("dtype"), parts["data"]);
      add_tensor(name, tensor, !part("dtype") && tensor.dtype() == DType::f64);
    } else {
      for (auto& [key, part] : parts) add(named(key), std::move(part));
    }
  }

  const Bytes& bytes_;
  JsonDocument document_;
  std::string stem_;
  Contents contents_;
  std::set<std::string> names_;
};

} // namespace

Contents read_json(const Bytes& bytes) {
  return DocumentReader(bytes).read();
}

namespace {
/// Parses a list of texts, or a list of such lists.
std::optional<JsonArray> texts_of_json(std::string_view text) {
  try {
    JsonScanner scanner("", text);
    if (scanner.next() != '[') return std::nullopt;
    JsonArray array = read_json_array(scanner, JsonNumbers::floating_or_text);
    scanner.finish();
    return array;
  } catch (const Error&) {
    return std::nullopt;
  }
}
} // namespace

std::optional<std::vector<std::string>> labels_of_json(std::string_view text) {
  std::optional<JsonArray> array = texts_of_json(text);
  if (!array || !array->is_text || !array->lists.empty()) return std::nullopt;
  return std::move(array->texts);
}

std::optional<std::vector<std::vector<std::string>>> item_labels_of_json(std::string_view text) {
  std::optional<JsonArray> array = texts_of_json(text);
  if (!array || array->lists.empty()) return std::nullopt;
  return std::move(array->lists);
}

std::string json_of_item_labels(const std::vector<std::vector<std::string>>& lists) {
  std::string text = "[";
  for (const std::vector<std::string>& list : lists)
    text += (text.size() > 1 ? "," : "") + json_of_labels(list);
  return text + "]";
}

std::string json_of_labels(const std::vector<std::string>& labels) {
  std::string text = "[";
  for (const std::string& label : labels) {
    if (text.size() > 1) text += ',';
    text += json_string(label);
  }
  return text + "]";
}

} // namespace mha::io
