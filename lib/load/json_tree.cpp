#include <mha/load/json_tree.hpp>

#include <mha/formats/json_scanner.hpp>
#include <mha/system/characters.hpp>

#include <fmt/format.h>

namespace mha {

namespace {

class TreeReader {
public:
  explicit TreeReader(const io::Bytes& bytes)
      : scanner_(bytes.name, bytes.text()), file_(bytes.name), at_(bytes.text().data()) {}

  JsonTree document() {
    JsonTree tree = value(0);
    scanner_.finish();
    return tree;
  }

private:
  /// Values come in the document's order, so that lines are counted once.
  std::string here() {
    scanner_.next();
    for (; at_ != scanner_.place(); ++at_)
      if (*at_ == '\n')
        ++line_, column_ = 1;
      else if (!continues_utf8(*at_))
        ++column_;
    return fmt::format("{}: line {}, column {}", file_, line_, column_);
  }

  JsonTree value(int depth) {
    constexpr int deepest = 32;
    if (depth > deepest) scanner_.refuse(fmt::format("nested more than {} deep", deepest));
    JsonTree tree;
    tree.where = here();
    const char first = scanner_.next();
    if (first == '{')
      object(tree, depth);
    else if (first == '[')
      list(tree, depth);
    else if (first == '"')
      tree.kind = JsonTree::Kind::text, tree.text = scanner_.string();
    else if (scanner_.at_number())
      tree.kind = JsonTree::Kind::number, tree.text = scanner_.number_text(),
      tree.number = scanner_.number();
    else
      word(tree);
    return tree;
  }

  void object(JsonTree& tree, int depth) {
    tree.kind = JsonTree::Kind::object;
    scanner_.expect('{', "'{'");
    if (scanner_.accept('}')) return;
    do {
      const std::string where = here();
      if (scanner_.next() != '"') scanner_.refuse("a name in quotes expected");
      std::string name = scanner_.string();
      if (tree.find(name)) fail("{}: '{}' is twice in this object", where, name);
      scanner_.expect(':', "':'");
      tree.members.push_back({std::move(name), value(depth + 1)});
      tree.members.back().value.where = where; // of the name: there people look
    } while (scanner_.accept(','));
    scanner_.expect('}', "',' or '}'");
  }

  void list(JsonTree& tree, int depth) {
    tree.kind = JsonTree::Kind::list;
    scanner_.expect('[', "'['");
    if (scanner_.accept(']')) return;
    do tree.elements.push_back(value(depth + 1));
    while (scanner_.accept(','));
    scanner_.expect(']', "',' or ']'");
  }

  void word(JsonTree& tree) {
    const char* const at = scanner_.place();
    const std::string_view word = scanner_.word();
    if (word == "true" || word == "false")
      tree.kind = JsonTree::Kind::boolean, tree.text = word;
    else if (word != "null")
      scanner_.refuse("a value expected", at);
  }

  io::JsonScanner scanner_;
  std::string file_;
  const char* at_;
  std::size_t line_ = 1, column_ = 1;
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

JsonTree read_json_tree(const io::Bytes& bytes) {
  constexpr std::size_t most = 1 << 20;
  if (bytes.size > most)
    fail("{}: {} bytes: at most {} expected of a document that a person wrote", bytes.name,
         bytes.size, most);
  return TreeReader(bytes).document();
}

} // namespace mha
