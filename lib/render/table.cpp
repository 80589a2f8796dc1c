#include <mha/render/table.hpp>

#include <algorithm>
#include <iterator>

namespace mha::render {

namespace {

constexpr std::size_t column_gap = 2, narrowest = 8;

/// The columns of a part of a table, with a width for each column of the whole.
struct SubTable {
  std::vector<std::size_t> columns, widths;
  std::size_t gap = column_gap; ///< between columns; 1 where a part would not fit otherwise
};

std::size_t part_width(const SubTable& part) {
  std::size_t width = part.columns.empty() ? 0 : part.gap * (part.columns.size() - 1);
  for (const std::size_t c : part.columns) width += part.widths[c];
  return width;
}

/// All columns for readers, as wide as their widest cell.
SubTable natural_part(const std::vector<Table::Column>& columns,
                      const std::vector<std::vector<std::string>>& texts) {
  SubTable part{{}, std::vector<std::size_t>(columns.size())};
  for (std::size_t c = 0; c < columns.size(); ++c) {
    if (!columns[c].is_shown()) continue;
    part.columns.push_back(c);
    part.widths[c] = display_width(columns[c].title);
    for (const std::vector<std::string>& row : texts)
      part.widths[c] = std::max(part.widths[c], display_width(row[c]));
  }
  return part;
}

/// Takes what does not fit from the widest of the columns that may shrink; `names`: also from words
/// that name a row.
void shrink_to(SubTable& part, const std::vector<Table::Column>& columns, std::size_t room,
               bool names = false) {
  while (part_width(part) > room) {
    std::size_t widest = columns.size();
    for (const std::size_t c : part.columns)
      if ((columns[c].shrinks || (names && columns[c].names && !columns[c].right)) &&
          part.widths[c] > narrowest &&
          (widest == columns.size() || part.widths[c] > part.widths[widest]))
        widest = c;
    if (widest == columns.size()) return;
    --part.widths[widest];
  }
}

/// The whole table, less the last spare columns where shrinking is not enough.
SubTable fitted_part(const SubTable& natural, const std::vector<Table::Column>& columns,
                     std::size_t room) {
  SubTable part = natural;
  for (;;) {
    SubTable fitted = part;
    shrink_to(fitted, columns, room);
    const auto spare = std::find_if(part.columns.rbegin(), part.columns.rend(),
                                    [&](std::size_t c) { return columns[c].spare; });
    if (part_width(fitted) <= room || spare == part.columns.rend()) return fitted;
    part.columns.erase(std::next(spare).base());
  }
}

/// Parts that each fit the room, if the columns that name a row leave any.
std::vector<SubTable> table_parts(const SubTable& natural,
                                  const std::vector<Table::Column>& columns, std::size_t room) {
  const SubTable whole = fitted_part(natural, columns, room);
  if (part_width(whole) <= room) return {whole};
  const bool some_name = std::ranges::any_of(columns, &Table::Column::names);
  SubTable names{{}, whole.widths};
  std::vector<std::vector<std::size_t>> others; // a column, and those that follow it
  for (const std::size_t c : whole.columns)
    if (some_name ? columns[c].names : c == whole.columns.front())
      names.columns.push_back(c);
    else if (columns[c].follows && !others.empty())
      others.back().push_back(c);
    else
      others.push_back({c});
  std::vector<SubTable> parts;
  for (const std::vector<std::size_t>& together : others) {
    SubTable longer = parts.empty() ? names : parts.back();
    longer.columns.insert(longer.columns.end(), together.begin(), together.end());
    if (!parts.empty() && part_width(longer) <= room) {
      parts.back() = std::move(longer);
      continue;
    }
    parts.push_back(names);
    parts.back().columns.insert(parts.back().columns.end(), together.begin(), together.end());
  }
  if (parts.empty()) return {whole};
  for (SubTable& part : parts) { // what was cut for the whole has more room now
    part.widths = natural.widths;
    shrink_to(part, columns, room);
    if (part_width(part) > room) part.gap = 1, shrink_to(part, columns, room, true);
  }
  return parts;
}

} // namespace

std::vector<std::vector<std::string>> Table::texts() const {
  std::vector<std::vector<std::string>> texts(rows_.size(),
                                              std::vector<std::string>(columns_.size()));
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const Column& column = columns_[c];
    if (!column.is_shown()) continue;
    std::function<std::string(double)> eyes =
        column.eyes ? column.eyes : [](double number) { return rounded(number); };
    if (column.together > 0) {
      std::vector<double> numbers;
      for (const std::vector<Cell>& row : rows_)
        if (const std::optional<double> number = row[c].shown_number()) numbers.push_back(*number);
      const ColumnFormat format(
          Tensor::of<double>({numbers.size()}, std::span<const double>(numbers)), column.together);
      eyes = [format](double number) {
        std::string text;
        format.append(text, number, 0);
        return text;
      };
    }
    for (std::size_t r = 0; r < rows_.size(); ++r) texts[r][c] = rows_[r][c].text(eyes);
  }
  return texts;
}

std::size_t Table::width() const {
  return part_width(natural_part(columns_, texts()));
}

std::string Table::text(const TextStyle& text_style, std::size_t indent) const {
  const std::size_t room = text_style.width > indent ? text_style.width - indent : 0;
  const std::vector<std::vector<std::string>> texts = this->texts();
  const SubTable natural = natural_part(columns_, texts);
  const bool titled = std::ranges::any_of(
      columns_, [](const Column& column) { return column.is_shown() && !column.title.empty(); });

  std::string out;
  for (const SubTable& part : table_parts(natural, columns_, room)) {
    if (!out.empty()) out += '\n';
    const auto line = [&](const auto& cell) {
      std::string text(indent, ' ');
      for (std::size_t i = 0; i < part.columns.size(); ++i) {
        if (i > 0) text.append(part.gap, ' ');
        text += cell(part.columns[i]);
      }
      text.erase(text.find_last_not_of(' ') + 1);
      out += text + '\n';
    };
    const auto aligned = [&](std::size_t c, std::string_view cell) {
      const std::string cut = shortened(cell, part.widths[c]);
      return columns_[c].right ? pad_left(cut, part.widths[c]) : pad_right(cut, part.widths[c]);
    };
    if (titled) line([&](std::size_t c) { return text_style.bold(aligned(c, columns_[c].title)); });
    for (const std::vector<std::string>& row : texts) {
      std::vector<std::vector<std::string>> cells(columns_.size());
      std::size_t height = 1;
      for (const std::size_t c : part.columns) {
        cells[c] = columns_[c].wraps ? broken(row[c], part.widths[c]) : std::vector{row[c]};
        height = std::max(height, cells[c].size());
      }
      for (std::size_t i = 0; i < height; ++i)
        line([&](std::size_t c) {
          const std::string cell = aligned(c, i < cells[c].size() ? cells[c][i] : std::string());
          return columns_[c].dim ? text_style.dim(cell) : cell;
        });
    }
  }
  for (const std::string& sentence : notes_)
    out += "\n" + in_lines(sentence, text_style.width) + "\n";
  return out;
}

} // namespace mha::render
