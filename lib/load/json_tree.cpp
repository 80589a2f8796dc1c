#include <mha/load/json_tree.hpp>

#include <mha/formats/json_node.hpp>

#include <fmt/format.h>

namespace mha {

namespace {

class TreeBuilder {
public:
  TreeBuilder(const io::Bytes& bytes, bool with_lines)
      : file_(bytes.name), lines_(bytes.text()), with_lines_(with_lines) {}

  JsonTree tree_of(const io::JsonNode& node) {
    using Kind = JsonTree::Kind;
    JsonTree tree;
    tree.where = where(node.place());
    if (node.is_object()) {
      tree.kind = Kind::object;
      node.each_member("an object", [&](const io::JsonName& name, const io::JsonNode& value) {
        const std::string of_name = where(name.place);
        if (tree.find(name)) fail("{}: '{}' is twice in this object", of_name, name.text);
        tree.members.push_back({std::string(name), tree_of(value)});
        tree.members.back().value.where = of_name; // where readers look
      });
    } else if (node.is_array()) {
      tree.kind = Kind::list;
      node.each_element(
          "a list", [&](const io::JsonNode& value) { tree.elements.push_back(tree_of(value)); });
    } else if (node.is_string()) {
      tree.kind = Kind::text, tree.text = node.text("a text");
    } else if (node.is_number()) {
      tree.kind = Kind::number, tree.text = node.number_text(), tree.number = node.number("");
    } else {
      const std::string_view word = node.word();
      if (word == "true" || word == "false")
        tree.kind = Kind::boolean, tree.text = word;
      else if (word != "null")
        node.refuse("a value expected");
    }
    return tree;
  }

private:
  /// Values come in the document's order.
  std::string where(const char* place) {
    return with_lines_ ? fmt::format("{}: {}", file_, lines_.of(place)) : file_;
  }

  std::string file_;
  io::JsonLines lines_;
  bool with_lines_;
};

} // namespace

const JsonTree* JsonTree::find(std::string_view name) const {
  for (const auto& [key, value] : members)
    if (key == name) return &value;
  return nullptr;
}

void JsonTree::refuse(const Message& why) const {
  fail("{}: {}", where, why);
}

const std::string& JsonTree::as_text(std::string_view what) const {
  if (!is_text()) refuse(fmt::format("{} must be text in quotes", what));
  return text;
}

double JsonTree::as_number(std::string_view what) const {
  if (!is_number()) refuse(fmt::format("{} must be a number", what));
  return number;
}

bool JsonTree::as_boolean(std::string_view what) const {
  if (!is_boolean()) refuse(fmt::format("{} must be true or false", what));
  return is_true();
}

JsonTree read_json_tree(const io::Bytes& bytes, bool with_lines) {
  constexpr std::size_t most = 1 << 20;
  if (bytes.size > most)
    fail("{}: {} bytes: at most {} expected in a file written by hand", bytes.name, bytes.size,
         most);
  io::JsonDocument document(bytes.name, bytes.text(), io::JsonWords::jsons, 32);
  const io::JsonNode root = io::JsonNode::unread_root(document);
  JsonTree tree = TreeBuilder(bytes, with_lines).tree_of(root);
  root.finish();
  return tree;
}

} // namespace mha
