// Matrices without brackets, as MATLAB, Octave, Julia and R display them: "W =", then rows; columns
// in groups, further axes as pages, and a common factor.

#include <mha/files/text.hpp>
#include <mha/formats/text_numbers.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/parse.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mha::io {

namespace {

bool is_name(std::string_view text) {
  return !text.empty() && (is_letter(text[0]) || text[0] == '_') &&
         std::ranges::all_of(text, [](char c) { return is_letter(c) || is_digit(c) || c == '_'; });
}

/// A line that begins an array or a page of one.
struct DisplayHeading {
  std::string_view name; ///< "W" of MATLAB's "W ="
  std::vector<int> page; ///< from 1 on: of MATLAB's "W(:,:,2) =" and Julia's "[:, :, 2] ="
};

std::optional<DisplayHeading> display_heading_of(std::string_view line) {
  DisplayHeading heading;
  const bool is_title = line.ends_with(':') && is_digit(line[0]); // "2×3 Matrix{Float64}:" of Julia
  if (is_title && (line.find("×") != line.npos || line.find("-element ") != line.npos))
    return heading;
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

/// A matrix of an array: the only one, or one at an index of the axes after the first two.
struct Page {
  std::vector<int> index{}; ///< from 1 on
  std::vector<std::vector<std::string_view>> rows{};
  std::size_t next = 0; ///< the row that comes next
  bool goes_on = false; ///< its rows go on in further columns
  double factor = 1;
};
struct Displayed {
  std::string name;
  std::vector<Page> pages{};
};

class DisplayReader {
public:
  explicit DisplayReader(const TextFile& file) : file_(file), lines_(file.text) {}

  void read(Contents& contents) {
    while (!lines_.at_end()) take(trimmed(lines_.next()));
    for (std::size_t i = 0; i < arrays_.size(); ++i)
      if (!arrays_[i].pages.empty()) finish(arrays_[i], i, contents);
    if (contents.tensors.empty()) fail("{}: no numbers in it", shown(file_.name));
  }

private:
  Page& page() {
    if (arrays_.empty()) arrays_.emplace_back();
    if (arrays_.back().pages.empty()) arrays_.back().pages.emplace_back();
    return arrays_.back().pages.back();
  }

  void take(std::string_view line) {
    if (line.empty() || is_prompt(line)) return;
    if (has_dots(line))
      file_.refuse(lines_.line(), "dots leave numbers out: writedlm of Julia's DelimitedFiles "
                                  "writes all of them");
    if (const auto heading = display_heading_of(line)) {
      // Octave calls the pages of each array ans.
      const bool same =
          !arrays_.empty() && !heading->page.empty() &&
          (heading->name.empty() || heading->name == "ans" || heading->name == arrays_.back().name);
      if (!same) arrays_.push_back({std::string(heading->name)});
      if (!heading->page.empty()) arrays_.back().pages.push_back({heading->page});
      return;
    }
    Page& one = page();
    if (begins_columns(line)) {
      one.goes_on = one.next > 0;
      one.next = 0;
      return;
    }
    std::vector<std::string_view> words = words_of(line, " \t");
    if (words.size() == 2 && words[1] == "*" && printed_number(words[0])) {
      one.factor = *printed_number(words[0]);
      return;
    }
    if (words[0].starts_with('[') && words[0].ends_with(",]")) words.erase(words.begin()); // R's
    for (const std::string_view word : words)
      if (!printed_number(word))
        file_.refuse(lines_.line(), fmt::format("{} is not a number", quoted(word)));
    if (!one.goes_on) one.rows.emplace_back();
    if (one.next >= one.rows.size())
      file_.refuse(lines_.line(), "more rows than in the columns before");
    std::vector<std::string_view>& row = one.rows[one.next++];
    row.insert(row.end(), words.begin(), words.end());
  }

  /// Adds an array: axes of rows and columns, then those of the pages.
  void finish(Displayed& one, std::size_t number, Contents& contents) {
    std::ranges::sort(one.pages, {}, &Page::index);
    const Page& first = one.pages[0];
    if (first.rows.empty()) return;
    const std::size_t rows = first.rows.size(), width = first.rows[0].size(),
                      page_axes = first.index.size();
    const bool is_named = !one.name.empty() && one.name != "ans";
    const std::string name = is_named              ? one.name
                             : arrays_.size() == 1 ? stem_of(file_.name)
                                                   : fmt::format("{}", number);
    const std::string what = fmt::format("{}: {}", shown(file_.name), shown(name));
    Shape shape(page_axes, 0);
    PrintedNumbers numbers;
    for (const Page& page : one.pages) {
      if (page.index.size() != page_axes ||
          std::ranges::any_of(page.index, [](int i) { return i < 1; }))
        fail("{}: pages are numbered as (:,:,1), (:,:,2)", what);
      if (page.rows.size() != rows)
        fail("{}: pages of {} and {} rows", what, rows, page.rows.size());
      if (page.factor != first.factor)
        fail("{}: pages with different factors: format long g shows none", what);
      for (std::size_t i = 0; i < page_axes; ++i)
        shape[i] = std::max(shape[i], static_cast<std::size_t>(page.index[i]));
      for (const std::vector<std::string_view>& row : page.rows) {
        if (row.size() != width) fail("{}: rows of {} and of {}", what, width, row.size());
        for (const std::string_view word : row)
          if (!numbers.add(word)) fail("{}: {} among other values", what, quoted(word));
      }
    }
    if (count_of(shape) != one.pages.size() ||
        std::ranges::adjacent_find(one.pages, {}, &Page::index) != one.pages.end())
      fail("{}: {} with indices up to {}: one is missing, or there twice", what,
           counted(one.pages.size(), "pages"), to_string(shape));
    numbers.scale(first.factor);
    shape.push_back(rows), shape.push_back(width);
    std::vector<std::size_t> order{page_axes, page_axes + 1};
    for (std::size_t i = 0; i < page_axes; ++i) order.push_back(i);
    const std::string digits = numbers.digits();
    contents.notes.emplace_back(
        fmt::format("{}: read as displayed rows{}{}{}", shown(name),
                    page_axes > 0 ? ", pages along the last axes" : "",
                    first.factor != 1 ? fmt::format(", times {}", first.factor) : "",
                    digits.empty() ? "" : fmt::format(", with {}", digits)));
    contents.tensors.push_back(numbers.entry(name, shape, order));
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
    return begins_columns(line) || (display_heading_of(line).has_value() && !has_brackets(text));
  }
  return false;
}

void read_display(const TextFile& file, Contents& contents) {
  DisplayReader(file).read(contents);
}

} // namespace mha::io
