// What `show` prints for programs: CSV and TSV with a number a line, NDJSON with a row a line.

#include <mha/files/text.hpp>
#include <mha/formats/json_node.hpp>
#include <mha/formats/text_numbers.hpp>
#include <mha/system/parse.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <set>

namespace mha::io {

namespace {

enum Side : std::uint8_t { batch, head, row, col, sides };
constexpr std::array<std::string_view, sides> side_names{"batch", "head", "row", "col"};

/// A number's place; −1 where a stage does not have the axis.
using Place = std::array<int, sides>;

/// The numbers of one stage of one layer.
struct Table {
  std::string layer, stage;
  PrintedNumbers numbers;
  std::vector<Place> places;
};

class Tables {
public:
  explicit Tables(const TextFile& file) : file_(file) {}

  /// The table of a stage, for numbers at places like this one.
  Table& of(std::size_t line, const std::string& layer, const std::string& stage, Place like) {
    if (all_.empty() || all_.back().layer != layer || all_.back().stage != stage) {
      if (!seen_.insert({layer, stage}).second)
        file_.refuse(line, fmt::format("{} again, after another stage", quoted(stage)));
      all_.push_back({layer, stage, {}, {}});
    }
    Table& table = all_.back();
    for (std::size_t side = 0; side < sides && !table.places.empty(); ++side)
      if ((table.places[0][side] < 0) != (like[side] < 0))
        file_.refuse(line, fmt::format("{} of {} is given in some lines only", side_names[side],
                                       quoted(stage)));
    return table;
  }
  void label(Side side, const Place& at, const std::string& text) {
    several_ = several_ || at[batch] > 0;
    if (side == row)
      row_labels_[at[row]] = text;
    else
      col_labels_[at[col]] = text;
  }

  void finish(std::string_view form, Contents& contents) {
    if (all_.empty()) fail("{}: no numbers in it", shown(file_.name));
    const bool layers =
        std::ranges::any_of(all_, [&](const Table& table) { return table.layer != all_[0].layer; });
    for (Table& table : all_) {
      const std::string name =
          layers ? fmt::format("layers.{}.{}", table.layer, table.stage) : table.stage;
      contents.tensors.push_back(entry_of(table, name, contents));
    }
    contents.notes.emplace_back(fmt::format("read as {} of stages with their places", form));
    if (several_ || row_labels_.empty()) return; // of a batch each text has its own
    const auto texts_of = [](const std::map<int, std::string>& labels) {
      std::vector<std::string> texts;
      for (const auto& [place, text] : labels) texts.push_back(text);
      return texts;
    };
    contents.labels.emplace_back("tokens", texts_of(row_labels_));
    if (!col_labels_.empty() && col_labels_ != row_labels_)
      contents.labels.emplace_back("key_tokens", texts_of(col_labels_));
  }

private:
  Entry entry_of(Table& table, const std::string& name, Contents& contents) {
    std::array<std::vector<int>, sides> positions;
    Shape shape, lengths(sides, 1);
    for (std::size_t side = 0; side < sides; ++side) {
      if (table.places[0][side] < 0) continue;
      std::vector<int>& own = positions[side];
      for (const Place& place : table.places) own.push_back(place[side]);
      std::ranges::sort(own);
      own.erase(std::unique(own.begin(), own.end()), own.end());
      lengths[side] = own.size();
      const bool one = own.size() == 1 && side <= head; // as JSON leaves an axis out
      if (!one) shape.push_back(own.size());
      if (!one && own.back() != static_cast<int>(own.size()) - 1)
        contents.notes.emplace_back(fmt::format("{}: some of each {} alone, up to {}", shown(name),
                                                side_names[side], own.back()));
    }
    // A text of a batch may be shorter; all else is complete.
    constexpr std::size_t most_padding = 64;
    if (count_of(shape) / most_padding > table.places.size())
      fail("{}: {} has {} numbers for {} places", shown(file_.name), quoted(name),
           table.places.size(), to_string(shape));
    std::vector<std::size_t> to;
    std::vector<std::array<std::size_t, 2>> ends(lengths[batch]); // of each text's rows and columns
    std::vector<bool> filled(count_of(shape));
    for (const Place& place : table.places) {
      std::array<std::size_t, sides> at{};
      std::size_t index = 0;
      for (std::size_t side = 0; side < sides; ++side) {
        const auto found = std::ranges::lower_bound(positions[side], place[side]);
        at[side] = place[side] < 0 ? 0 : static_cast<std::size_t>(found - positions[side].begin());
        index = index * lengths[side] + at[side];
      }
      if (filled[index])
        fail("{}: {} has two numbers for one place: row {}, col {}", shown(file_.name),
             quoted(name), place[row], place[col]);
      filled[index] = true;
      to.push_back(index);
      for (const Side side : {row, col})
        ends[at[batch]][side - row] = std::max(ends[at[batch]][side - row], at[side] + 1);
    }
    const std::size_t rows = lengths[row], cols = lengths[col];
    for (std::size_t i = 0; i < filled.size(); ++i) {
      const std::array<std::size_t, 2>& end = ends[i / (lengths[head] * rows * cols)];
      if (!filled[i] && i / cols % rows < end[0] && i % cols < end[1])
        fail("{}: {} has no number for row {}, column {}", shown(file_.name), quoted(name),
             i / cols % rows, i % cols);
    }
    table.numbers.arrange(to, filled.size());
    return table.numbers.entry(name, shape);
  }

  const TextFile& file_;
  std::deque<Table> all_;
  std::set<std::pair<std::string, std::string>> seen_;
  std::map<int, std::string> row_labels_, col_labels_;
  bool several_ = false;
};

constexpr std::string_view long_header = "layer,stage,batch,head,row,col,value";
constexpr std::size_t first_place = 2, value_field = 6;

} // namespace

bool is_long_csv(std::string_view text, char separator) {
  const std::vector<std::string_view> names =
      split_at(trimmed(text.substr(0, text.find_first_of("\r\n"))), separator);
  const std::vector<std::string_view> wanted = split_at(long_header, ',');
  return names.size() >= wanted.size() && std::equal(wanted.begin(), wanted.end(), names.begin());
}

void read_long_csv(const TextFile& file, char separator, Contents& contents) {
  FieldReader reader(file, separator);
  Tables tables(file);
  std::vector<std::string> fields;
  reader.next(fields);
  const std::size_t width = fields.size();
  while (reader.next(fields)) {
    if (fields.empty()) continue;
    if (fields.size() != width)
      file.refuse(reader.line(), fmt::format("{}, where the header has {}",
                                             counted(fields.size(), "fields"), width));
    Place place{};
    for (std::size_t side = 0; side < sides; ++side) {
      const std::string& field = fields[first_place + side];
      const auto number = parse_number<int>(field);
      if (!field.empty() && (!number || *number < 0))
        file.refuse(reader.line(),
                    fmt::format("{} is {}: a position expected", side_names[side], quoted(field)));
      place[side] = number.value_or(-1);
    }
    Table& table = tables.of(reader.line(), fields[0], fields[1], place);
    if (!table.numbers.add(fields[value_field]))
      file.refuse(reader.line(), fmt::format("{} is not a number", quoted(fields[value_field])));
    table.places.push_back(place);
    for (const Side side : {row, col})
      if (const std::size_t at = value_field + 1 + side - row; at < width && !fields[at].empty())
        tables.label(side, place, fields[at]);
  }
  tables.finish(separator == ',' ? "CSV" : "TSV", contents);
}

bool is_ndjson(std::string_view text) {
  return text.starts_with("{\"layer\":");
}

void read_ndjson(const TextFile& file, Contents& contents) {
  Tables tables(file);
  for (LineReader lines(file.text); !lines.at_end();) {
    const std::string_view text = trimmed(lines.next());
    if (text.empty()) continue;
    JsonDocument document(fmt::format("{}: row {}", shown(file.name), lines.line()), text);
    const JsonNode root = JsonNode::root(document);
    std::string layer, stage, row_token;
    Place place{-1, -1, -1, -1};
    std::vector<std::string> values;
    root.each_member("a row", [&](std::string_view name, const JsonNode& value) {
      const auto side = std::ranges::find(side_names, name);
      if (name == "layer")
        layer = value.is_string() ? value.text(name)
                : value.is_null() ? ""
                                  : std::string(value.number_text());
      else if (name == "stage")
        stage = value.text(name);
      else if (name == "row_token")
        row_token = value.text(name);
      else if (side != side_names.end())
        place[static_cast<std::size_t>(side - side_names.begin())] =
            value.integer(name, std::numeric_limits<int>::max());
      else if (name == "values")
        value.each_element(name, [&](const JsonNode& number) {
          values.push_back(number.is_string() ? number.text("a number")
                                              : std::string(number.number_text()));
        });
      else
        value.refuse(fmt::format("{} is not a member of a row", quoted(name)));
    });
    if (stage.empty() || values.empty())
      file.refuse(lines.line(), "a row needs \"stage\" and \"values\"");
    // The numbers of a line are along the axis that it has no place of: the last one.
    const bool one = place[col] >= 0;
    const Side inside = place[row] < 0 ? row : col;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (one && i > 0) file.refuse(lines.line(), "several values at one column");
      if (!one) place[inside] = static_cast<int>(i);
      Table& table = tables.of(lines.line(), layer, stage, place);
      if (!table.numbers.add(values[i]))
        file.refuse(lines.line(), fmt::format("{} is not a number", quoted(values[i])));
      table.places.push_back(place);
    }
    if (!row_token.empty() && inside == col) tables.label(row, place, row_token);
  }
  tables.finish("NDJSON", contents);
}

} // namespace mha::io
