#pragma once
// docs/machine.md as the commands make it: tables of fields below the commands that print them.

#include <string>
#include <vector>

namespace mha::test {

/// A row: a field by its path ("stages[].shape[]", "<stage>.min"), its type, and what it is.
struct FieldRow {
  std::string path, type, meaning;
  /// Whether only some layers have the field, so that the commands above need not print it.
  bool is_sometimes() const { return meaning.starts_with("where "); }
};

/// A table of the page, and the fields that the commands above it print.
struct FieldTable {
  std::vector<std::string> commands;
  std::vector<FieldRow> rows;
  std::vector<std::string> printed; ///< as `rows` call them, in the order of the output

  /// The row of a path in the output; one of its own name comes before one with `<name>`.
  const FieldRow* find(const std::string& path) const;
  /// Adds what is printed at `next`, and moves `next` past it.
  void add_printed(const std::string& path, std::size_t& next);
};

class MachinePage {
public:
  /// Reads the page of the source tree.
  MachinePage();
  /// Its text where each table has the rows that are printed, in that order, and those that are
  /// only sometimes there. A field that a table lacks has the row that another table has of it,
  /// else one with "?"; what a measure is comes from its record.
  std::string text() const;
  /// Writes that text.
  void write() const;

  std::vector<FieldTable> tables;
  std::string raw;

private:
  std::vector<FieldRow> rows_of(const FieldTable& table) const;
  FieldRow row_of(const std::string& path, const FieldTable& table) const;
};

} // namespace mha::test
