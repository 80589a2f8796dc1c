#include "inventory/headers.hpp"

#include <cctype>
#include <optional>
#include <regex>
#include <utility>
#include <vector>

namespace mha::test {

namespace {

/// Without comments, lines of the preprocessor and the contents of literals.
std::string bare(const std::string& text) {
  static const std::regex away(
      R"(//[^\n]*|/\*[^]*?\*/|(?:^|\n)[ ]*#(?:[^\n]*\\\n)*[^\n]*|\[\[[^\]]*\]\])"),
      literal(R"("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])')");
  return std::regex_replace(std::regex_replace(text, literal, "0"), away, "\n");
}

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \n\t");
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(" \n\t") + 1 - first);
}

/// Behind what follows `template`.
std::string without_template(std::string text) {
  while ((text = trimmed(text)).starts_with("template")) {
    int depth = 0;
    std::size_t at = text.find('<');
    for (; at < text.size(); ++at) {
      depth += text[at] == '<' ? 1 : text[at] == '>' ? -1 : 0;
      if (depth == 0) break;
    }
    text.erase(0, at + 1);
  }
  return text;
}

/// Where the first of some characters stands outside of brackets.
std::size_t outside(const std::string& text, const std::string& characters, std::size_t from = 0) {
  int depth = 0;
  for (std::size_t at = from; at < text.size(); ++at) {
    if (depth == 0 && characters.find(text[at]) != std::string::npos) return at;
    if (std::string("<({[").find(text[at]) != std::string::npos) ++depth;
    if (std::string(">)}]").find(text[at]) != std::string::npos) --depth;
  }
  return std::string::npos;
}

std::string last_word(const std::string& text) {
  static const std::regex word(R"(([~\w]+)\s*$)");
  std::smatch found;
  return std::regex_search(text, found, word) ? found[1].str() : "";
}

/// The names that a declaration gives.
std::vector<std::string> names_in(const std::string& statement) {
  static const std::regex alias(R"(^using\s+(\w+)\s*=)"),
      skipped(R"(^(friend|static_assert|using|typedef|extern template)\b)"),
      forward(R"(^(class|struct|union|enum)\b[^({=]*$)"),
      symbol(R"(\boperator\s*(\(\)|\[\]|[^\w\s(]+|\w[\w:]*))");
  const std::string text = without_template(statement);
  std::smatch found;
  if (std::regex_search(text, found, alias)) return {found[1]};
  if (text.empty() || std::regex_search(text, skipped) || std::regex_search(text, forward))
    return {};
  if (std::regex_search(text, found, symbol)) return {"operator" + found[1].str()};
  if (const std::size_t call = outside(text, "("); call < outside(text, "="))
    return {last_word(text.substr(0, call))};
  std::vector<std::string> names;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t comma = std::min(outside(text, ",", from), text.size());
    const std::string one = text.substr(from, comma - from);
    names.push_back(last_word(one.substr(0, std::min(outside(one, "={["), one.size()))));
    from = comma + 1;
  }
  return names;
}

struct Scope {
  std::string name;
  bool is_enum = false, is_public = true;
};

class Declarations {
public:
  explicit Declarations(std::string code) : code_(std::move(code)) {}

  std::set<std::string> read() {
    for (; at_ < code_.size(); ++at_) {
      const char c = code_[at_];
      if (c == '{')
        open();
      else if (c == '}')
        close();
      else if (c == ';' && parentheses_ == 0)
        declare();
      else if (c == ':' && is_access())
        text_.clear();
      else
        text_ += c, parentheses_ += c == '(' ? 1 : c == ')' ? -1 : 0;
    }
    return std::move(names_);
  }

private:
  bool is_access() {
    const std::string word = trimmed(text_);
    if (word != "public" && word != "private" && word != "protected") return false;
    if (!scopes_.empty()) scopes_.back().is_public = word == "public";
    return true;
  }
  void add(const std::string& name) {
    if (name.empty()) return;
    std::string whole;
    for (const Scope& scope : scopes_) {
      if (!scope.is_public) return;
      whole += scope.name + "::";
    }
    names_.insert(whole + name);
  }
  void declare() {
    for (const std::string& name : names_in(text_)) add(name);
    text_.clear();
  }
  void skip_braces() {
    for (int depth = 0; at_ < code_.size(); ++at_) {
      depth += code_[at_] == '{' ? 1 : code_[at_] == '}' ? -1 : 0;
      if (depth == 0) return;
    }
  }
  void open() {
    static const std::regex space(R"(^(?:inline )?namespace\s+([\w:]+)$)"),
        type(R"(^(class|struct|union|enum(?: class)?)\s+(?:MHA_API\s+)?(\w+)[^()=]*$)");
    const std::string text = without_template(text_);
    std::smatch found;
    if (std::regex_match(text, found, space)) {
      scopes_.push_back({found[1]});
    } else if (std::regex_match(text, found, type)) {
      add(found[2]);
      const std::string kind = found[1];
      scopes_.push_back({found[2], kind.starts_with("enum"), kind != "class"});
    } else {
      static const std::regex symbol(R"(operator\s*[^\w\s(]+)");
      const std::string plain = std::regex_replace(text, symbol, "operator");
      const bool ends = parentheses_ == 0 && outside(plain, "=") == std::string::npos &&
                        plain.find(')') != std::string::npos;
      skip_braces();
      if (ends) return declare();
      text_ += " ";
      return;
    }
    text_.clear();
  }
  void close() {
    if (!scopes_.empty() && scopes_.back().is_enum)
      for (const std::string& name : names_in(text_)) add(name);
    if (!scopes_.empty()) scopes_.pop_back();
    text_.clear();
  }

  std::string code_, text_;
  std::size_t at_ = 0;
  int parentheses_ = 0;
  std::vector<Scope> scopes_;
  std::set<std::string> names_;
};

} // namespace

std::set<std::string> declared_names(const std::string& header) {
  return Declarations(bare(header)).read();
}

} // namespace mha::test
