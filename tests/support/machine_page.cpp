#include "support/machine_page.hpp"

#include "support/places.hpp"
#include <mha/heads/measures.hpp>
#include <mha/render/text.hpp>
#include <mha/system/named.hpp>
#include <mha/system/references.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace mha::test {

namespace {

constexpr std::string_view command_begins = "    mha-inspect ", row_begins = "| `";

std::string path_of_page() {
  return source_folder() + "/docs/machine.md";
}

FieldRow parsed_row(const std::string& line) {
  const std::size_t type = line.find("` | ") + 4, meaning = line.find(" | ", type) + 3;
  if (type < 4 || meaning < 3 || !line.ends_with(" |"))
    throw std::runtime_error("docs/machine.md: no row of three cells: " + line);
  return {line.substr(row_begins.size(), type - 4 - row_begins.size()),
          line.substr(type, meaning - 3 - type), line.substr(meaning, line.size() - 2 - meaning)};
}

/// Whether a path of the page ("<stage>.shape[]") is about one of the output.
bool matches(const std::string& documented, const std::string& path) {
  const auto words = split_at(documented, '.'), others = split_at(path, '.');
  return std::ranges::equal(words, others, [](std::string_view word, std::string_view other) {
    if (!word.starts_with('<')) return word == other;
    return word.substr(word.find('>') + 1) == other.substr(std::min(other.find('['), other.size()));
  });
}

/// The table of heads with every measure.
bool has_all_measures(const FieldTable& table) {
  return std::ranges::all_of(measures(), [&](const Measure& measure) {
    return std::ranges::count(table.printed, measure.name) > 0;
  });
}

FieldRow row_of(const Measure& measure) {
  using Form = Measure::Form;
  const char* const type = measure.form == Form::count     ? "integer"
                           : measure.form == Form::boolean ? "boolean"
                                                           : "number";
  const bool is_like_the_one_before = std::string_view(measure.text).empty();
  return {std::string(measure.name), std::string(type) + " or null",
          is_like_the_one_before ? "likewise" : render::typed(of_literal(measure.text))};
}

} // namespace

const FieldRow* FieldTable::find(const std::string& path) const {
  const FieldRow* found = nullptr;
  for (const FieldRow& row : rows)
    if (matches(row.path, path) && (found == nullptr || !row.path.starts_with('<'))) found = &row;
  return found;
}

void FieldTable::add_printed(const std::string& path, std::size_t& next) {
  const FieldRow* const row = find(path);
  const std::string& name = row == nullptr ? path : row->path;
  auto at = std::ranges::find(printed, name);
  if (at == printed.end())
    at = printed.insert(printed.begin() + static_cast<std::ptrdiff_t>(next), name);
  next = static_cast<std::size_t>(at - printed.begin()) + 1;
}

MachinePage::MachinePage() {
  std::ifstream file(path_of_page());
  raw.assign(std::istreambuf_iterator<char>(file), {});
  std::istringstream lines(raw);
  std::vector<std::string> commands;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(command_begins)) commands.push_back(line.substr(command_begins.size()));
    if (!line.starts_with(row_begins)) continue;
    if (!commands.empty()) tables.push_back({std::exchange(commands, {}), {}, {}});
    tables.back().rows.push_back(parsed_row(line));
  }
}

FieldRow MachinePage::row_of(const std::string& path, const FieldTable& table) const {
  if (has_all_measures(table))
    if (const Measure* measure = find_named(measures(), path)) return test::row_of(*measure);
  if (const FieldRow* row = table.find(path)) return *row;
  for (const FieldTable& other : tables)
    if (const FieldRow* row = other.find(path); row != nullptr && row->path == path) return *row;
  return {path, "?", "?"};
}

std::vector<FieldRow> MachinePage::rows_of(const FieldTable& table) const {
  std::vector<FieldRow> rows;
  for (const std::string& path : table.printed) rows.push_back(row_of(path, table));
  const auto place_of = [&](const FieldRow& row) {
    return std::ranges::find(rows, row.path, &FieldRow::path);
  };
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    if (!table.rows[i].is_sometimes() || place_of(table.rows[i]) != rows.end()) continue;
    // Where the columns have it: below the same row.
    const auto before = i == 0 ? rows.end() : place_of(table.rows[i - 1]);
    rows.insert(before == rows.end() ? before : before + 1, table.rows[i]);
  }
  return rows;
}

std::string MachinePage::text() const {
  std::istringstream lines(raw);
  std::string text;
  auto table = tables.begin();
  std::size_t left = 0; // rows of the table that is read
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(row_begins)) {
      text += line + "\n";
      continue;
    }
    if (left == 0) {
      for (const FieldRow& row : rows_of(*table))
        text += "| `" + row.path + "` | " + row.type + " | " + row.meaning + " |\n";
      left = (table++)->rows.size();
    }
    --left;
  }
  return text;
}

void MachinePage::write() const {
  std::ofstream(path_of_page()) << text();
}

} // namespace mha::test
