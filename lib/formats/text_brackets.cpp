// Arrays in brackets, as NumPy, PyTorch, JAX, TensorFlow, MLX and Python print them, and MATLAB and
// Julia in one line: "tensor([[0.5, 1.]], grad_fn=<…>)", "[[0.5 1. ]\n [2.  3. ]]", "[0.5 1; 2 3]".

#include <mha/files/text.hpp>
#include <mha/formats/text_numbers.hpp>
#include <mha/system/characters.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

namespace mha::io {

namespace {

constexpr std::size_t most_axes = 32, unknown = std::numeric_limits<std::size_t>::max();
constexpr std::string_view blanks = " \t\r\n", between = " \t\r\n,;[]()";

/// Whether an array begins at this bracket: lists, then a number or an end.
bool begins_array(std::string_view text) {
  constexpr std::size_t most_lead = 512; // so that a text of brackets alone is fast
  text = text.substr(0, most_lead);
  const std::size_t first = text.find_first_not_of(" \t\r\n[");
  if (first == text.npos) return false;
  text.remove_prefix(first);
  if (text[0] == ']' || text.starts_with("...")) return true;
  const std::size_t prompt = text.find_first_not_of("0123456789"); // Out[3]:
  if (prompt != text.npos && text.substr(prompt).starts_with("]:")) return false;
  return printed_number(text.substr(0, text.find_first_of(between))).has_value();
}

std::size_t array_in(std::string_view text, std::size_t from) {
  for (std::size_t at = text.find('[', from); at != text.npos; at = text.find('[', at + 1))
    if (begins_array(text.substr(at))) return at;
  return text.npos;
}

/// What is printed with the words around an array: how its maker prints all of it.
std::string cure_of_dots(std::string_view text) {
  if (text.find("tensor(") != text.npos)
    return "torch.set_printoptions(profile='full') prints all; torch.save keeps every digit";
  return "numpy.set_printoptions(threshold=sys.maxsize) prints all; numpy.save keeps every digit";
}

class BracketReader {
public:
  explicit BracketReader(const TextFile& file) : file_(file), text_(file.text) {}

  void read(Contents& contents) {
    std::vector<std::pair<std::string, Entry>> found;
    std::size_t before = 0;
    for (std::size_t at = array_in(text_, 0); at != text_.npos; at = array_in(text_, at_)) {
      at_ = at;
      numbers_ = {};
      lengths_.clear(), rank_ = unknown;
      list(0);
      if (rank_ != unknown && rank_ != lengths_.size()) refuse("lists of different depth");
      const std::string digits = numbers_.digits();
      std::string name = name_before(text_.substr(before, at - before));
      before = at_;
      if (const char c = next(); is_digit(c) || c == '-' || c == '.')
        refuse("numbers after the end of an array: brackets around all of them expected");
      if (name == "shape" || name == "size") continue;
      contents.notes.emplace_back(fmt::format(
          "{}read as printed rows{}", name.empty() ? "" : fmt::format("{}: ", shown(name)),
          digits.empty() ? "" : fmt::format(", with {}", digits)));
      found.emplace_back(std::move(name), numbers_.entry("", lengths_));
    }
    std::set<std::string> names;
    for (std::size_t i = 0; i < found.size(); ++i) {
      auto& [name, entry] = found[i];
      if (name.empty()) name = found.size() == 1 ? stem_of(file_.name) : fmt::format("{}", i);
      if (!names.insert(name).second) fail("{}: {} twice", shown(file_.name), quoted(name));
      entry.name = name;
      contents.tensors.push_back(std::move(entry));
    }
  }

private:
  /// The name in "W_q = tensor(", "'W_q': array(" or "W_q:"; "" without one.
  static std::string name_before(std::string_view text) {
    const std::size_t sign = text.find_last_of("=:");
    if (sign == text.npos) return "";
    // Between them and the array is at most what makes an array.
    if (text.find_first_of(",>)", sign) != text.npos) return "";
    text = text.substr(0, text.find_last_not_of(" \t\r\n=:'\"", sign) + 1);
    const auto first = std::find_if_not(text.rbegin(), text.rend(), [](char c) {
      return is_letter(c) || is_digit(c) || c == '_' || c == '.';
    });
    const std::string name(first.base(), text.end());
    // "numpy=" is of TensorFlow's print, and In [3]: of a notebook.
    const bool is_name = !name.empty() && !is_digit(name[0]) && name != "numpy" && name != "Out" &&
                         name != "containing";
    return is_name ? name : "";
  }

  std::size_t line() const {
    return static_cast<std::size_t>(std::ranges::count(text_.substr(0, at_), '\n')) + 1;
  }
  [[noreturn]] void refuse(const std::string& why) const { file_.refuse(line(), why); }
  char next() {
    at_ = std::min(text_.find_first_not_of(blanks, at_), text_.size());
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  void element() {
    const std::string_view word = text_.substr(at_, text_.find_first_of(between, at_) - at_);
    if (!numbers_.add(word))
      refuse(fmt::format("{} is not a number",
                         word.empty() ? quoted(text_.substr(at_, 1)) : quoted(word)));
    at_ += word.size();
  }

  void close(std::size_t depth, std::size_t count) {
    if (lengths_[depth] == unknown) lengths_[depth] = count;
    if (lengths_[depth] != count)
      refuse(fmt::format("a list of {}, where the ones before have {}", count, lengths_[depth]));
  }

  /// Reads a list. A semicolon between its numbers ends a row of a matrix.
  void list(std::size_t depth) {
    if (depth == most_axes) refuse(fmt::format("more than {} axes", most_axes));
    if (lengths_.size() == depth) lengths_.push_back(unknown);
    ++at_;
    std::size_t count = 0, rows = 0;
    bool comma = false;
    for (char c = next(); c != ']'; c = next()) {
      if (c == '\0') refuse("the text ends in the middle of an array");
      if (c == ',') {
        if (std::exchange(comma, true) || count == 0) refuse("a number is missing before ','");
        ++at_;
        continue;
      }
      comma = false;
      if (c == ';') {
        if (depth > 0 || rank_ > 2) refuse("';' in a nested list");
        if (lengths_.size() == 1) lengths_.push_back(unknown);
        rank_ = 2;
        close(1, std::exchange(count, 0)), ++rows, ++at_;
        if (next() == ';') refuse("';;' joins matrices: write them as nested lists");
      } else if (c == '[') {
        if (rows > 0 || depth + 1 >= rank_) refuse("a list among numbers");
        list(depth + 1), ++count;
      } else {
        if (const auto rest = text_.substr(at_); rest.starts_with("...") || rest.starts_with("…"))
          refuse(fmt::format("\"...\" leaves numbers out: {}", cure_of_dots(text_)));
        if (rank_ == unknown) rank_ = depth + 1;
        if (rank_ != depth + 1 + (rank_ == 2 && depth == 0 && lengths_.size() == 2 && rows > 0))
          refuse("a list expected, as in the rows before");
        element(), ++count;
      }
    }
    if (rows > 0 && count > 0) close(1, count), ++rows;
    close(depth, rows > 0 ? rows : count);
    ++at_;
  }

  const TextFile& file_;
  std::string_view text_;
  std::size_t at_ = 0;
  PrintedNumbers numbers_;
  Shape lengths_;
  std::size_t rank_ = unknown;
};

} // namespace

bool has_brackets(std::string_view text) {
  return array_in(text, 0) != text.npos;
}

void read_brackets(const TextFile& file, Contents& contents) {
  BracketReader(file).read(contents);
}

} // namespace mha::io
