// Matrices without brackets, as MATLAB, Octave, Julia and R display them: "W =", then rows; columns
// in groups, further axes as pages, and a common factor.

#include <mha/files/text.hpp>
#include <mha/formats/text_numbers.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/parse.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace mha::io {

namespace {

bool is_name(std::string_view text) {
  return !text.empty() && (is_letter(text[0]) || text[0] == '_') &&
         std::ranges::all_of(text, [](char c) { return is_letter(c) || is_digit(c) || c == '_'; });
}

/// A line that begins an array or a page of one.
struct Heading {
  std::string_view name; ///< "W" of MATLAB's "W ="
  std::vector<int> page; ///< from 1 on: of MATLAB's "W(:,:,2) =" and Julia's "[:, :, 2] ="
  bool is_title = false; ///< Julia's "2×3 Matrix{Float64}:", which comes before the first page
};

std::optional<Heading> heading_of(std::string_view line) {
  Heading heading;
  if (line.ends_with(':') && is_digit(line[0]) &&
      (line.find("×") != line.npos || line.find("-element ") != line.npos)) {
    heading.is_title = true;
    return heading;
  }
  if (!line.ends_with('=')) return std::nullopt;
  line = trimmed(line.substr(0, line.size() - 1));
  const std::size_t open = line.find_first_of("([");
  heading.name = trimmed(line.substr(0, open));
  if (!heading.name.empty() && !is_name(heading.name)) return std::nullopt;
  if (open == line.npos) return heading.name.empty() ? std::nullopt : std::optional(heading);
  for (const std::string_view index : words_of(line.substr(open + 1), ", )]"))
    if (index != ":") heading.page.push_back(parse_number<int>(index).value_or(0));
  return heading;
}

/// Whether a line begins a group of columns: "Columns 1 through 7", "Column 8:", "Columns 9 and
/// 10", and R's "[,1] [,2]".
bool begins_columns(std::string_view line) {
  return line.starts_with("Column ") || line.starts_with("Columns ") || line.starts_with("[,");
}

bool is_prompt(std::string_view line) {
  return line.starts_with(">> ") || line.starts_with("julia>") || line.starts_with("> ") ||
         line.starts_with("octave:");
}

bool has_dots(std::string_view line) {
  return line.find("…") != line.npos || line.find("⋯") != line.npos ||
         line.find("⋮") != line.npos || line.find("⋱") != line.npos;
}

/// One array: pages of rows, each with the same columns.
struct Displayed {
  std::string name;
  std::vector<std::vector<std::string>> rows;    ///< of all pages
  std::map<std::vector<int>, std::size_t> pages; ///< the first row of each
  std::size_t first = 0, row = 0; ///< of the page: its first row, and its row that comes next
  bool group = false;             ///< the rows go on in further columns
  double factor = 1;              ///< of the page
  std::vector<double> factors{};  ///< of each row
};

class DisplayReader {
public:
  explicit DisplayReader(const TextFile& file) : file_(file), lines_(file.text) {}

  void read(Contents& contents) {
    while (!lines_.at_end()) take(trimmed(lines_.next()));
    for (std::size_t i = 0; i < arrays_.size(); ++i) finish(arrays_[i], i, contents);
    if (contents.tensors.empty()) fail("{}: no numbers in it", shown(file_.name));
  }

private:
  Displayed& array() {
    if (arrays_.empty()) arrays_.emplace_back();
    return arrays_.back();
  }

  void begin_page(std::vector<int> page) {
    Displayed& one = array();
    if (!one.pages.emplace(std::move(page), one.rows.size()).second)
      file_.refuse(lines_.line(), "this page is there already");
    one.first = one.rows.size(), one.row = 0, one.group = false, one.factor = 1;
  }

  void take(std::string_view line) {
    if (line.empty() || is_prompt(line)) return;
    if (has_dots(line))
      file_.refuse(lines_.line(), "dots leave numbers out: writedlm of Julia's DelimitedFiles "
                                  "writes all of them");
    if (const auto heading = heading_of(line)) {
      const bool is_page = !heading->page.empty();
      // Octave calls the pages of each array ans.
      const bool same = heading->name.empty() || heading->name == "ans" ||
                        (!arrays_.empty() && arrays_.back().name == heading->name);
      if (!is_page || arrays_.empty() || !same)
        arrays_.push_back({std::string(heading->name), {}, {}});
      if (is_page) begin_page(heading->page);
      return;
    }
    Displayed& one = array();
    if (begins_columns(line)) {
      one.group = one.group || one.row > 0;
      one.row = 0;
      return;
    }
    std::vector<std::string_view> words = words_of(line, " \t");
    if (words.size() == 2 && words[1] == "*")
      if (const auto factor = printed_number(words[0])) {
        one.factor = *factor;
        return;
      }
    if (words[0].starts_with('[') && words[0].ends_with(",]")) words.erase(words.begin()); // R's
    add_row(one, words);
  }

  void add_row(Displayed& one, const std::vector<std::string_view>& words) {
    for (const std::string_view word : words)
      if (!printed_number(word))
        file_.refuse(lines_.line(), fmt::format("{} is not a number", quoted(word)));
    if (one.pages.empty()) {
      const double factor = one.factor; // comes before the only page's rows
      begin_page({});
      one.factor = factor;
    }
    const std::size_t first = one.first;
    if (one.group && first + one.row >= one.rows.size())
      file_.refuse(lines_.line(), "more rows than in the columns before");
    if (!one.group) one.rows.emplace_back(), one.factors.push_back(one.factor);
    std::vector<std::string>& row = one.rows[first + one.row++];
    row.insert(row.end(), words.begin(), words.end());
  }

  /// Adds an array: axes of rows and columns, then those of the pages.
  void finish(Displayed& one, std::size_t number, Contents& contents) {
    if (one.rows.empty()) return;
    const std::size_t pages = one.pages.size(), rows = one.rows.size() / pages,
                      width = one.rows[0].size();
    std::string name = one.name;
    if (name.empty() || name == "ans")
      name = arrays_.size() == 1 ? stem_of(file_.name) : fmt::format("{}", number);
    const std::string what = fmt::format("{}: {}", shown(file_.name), shown(name));
    const std::size_t page_axes = one.pages.begin()->first.size();
    Shape shape(page_axes, 0);
    PrintedNumbers numbers;
    for (const auto& [page, first] : one.pages) { // in the order of their indices
      if (page.size() != page_axes || std::ranges::any_of(page, [](int i) { return i < 1; }))
        fail("{}: pages are numbered as (:,:,1), (:,:,2)", what);
      for (std::size_t i = 0; i < page_axes; ++i)
        shape[i] = std::max(shape[i], static_cast<std::size_t>(page[i]));
      for (std::size_t row = first; row < first + rows && row < one.rows.size(); ++row) {
        if (one.rows[row].size() != width)
          fail("{}: rows of {} and of {}", what, width, one.rows[row].size());
        for (const std::string& word : one.rows[row])
          if (!numbers.add(word)) fail("{}: {} among other values", what, quoted(word));
      }
    }
    std::size_t all = 1;
    for (const std::size_t length : shape) all = length > pages ? pages + 1 : all * length;
    if (all != pages)
      fail("{}: {} with indices up to {}: one of them is missing", what, counted(pages, "pages"),
           to_string(shape));
    if (rows * pages != one.rows.size()) fail("{}: pages of different numbers of rows", what);
    if (std::ranges::count(one.factors, one.factor) != std::ranges::ssize(one.factors))
      fail("{}: pages with different factors: format long g shows none", what);
    numbers.scale(one.factor);
    shape.push_back(rows), shape.push_back(width);
    std::vector<std::size_t> order{page_axes, page_axes + 1};
    for (std::size_t i = 0; i < page_axes; ++i) order.push_back(i);
    const std::string digits = numbers.digits();
    contents.notes.emplace_back(
        fmt::format("{}: read as displayed rows{}{}{}", shown(name),
                    page_axes > 0 ? ", pages along the last axes" : "",
                    one.factor != 1 ? fmt::format(", times {}", one.factor) : "",
                    digits.empty() ? "" : fmt::format(", with {}", digits)));
    contents.tensors.push_back(
        numbers.entry(name, shape, page_axes > 0 ? order : std::vector<std::size_t>{}));
  }

  const TextFile& file_;
  LineReader lines_;
  std::vector<Displayed> arrays_;
};

} // namespace

bool is_display(std::string_view text) {
  for (LineReader lines(text); !lines.at_end();) {
    const std::string_view line = trimmed(lines.next());
    if (line.empty() || is_prompt(line)) continue;
    return begins_columns(line) || (heading_of(line).has_value() && !has_brackets(text));
  }
  return false;
}

void read_display(const TextFile& file, Contents& contents) {
  DisplayReader(file).read(contents);
}

} // namespace mha::io
