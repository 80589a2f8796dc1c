#pragma once
// Numbers in text files: CSV, TSV, rows as programs print them, and what this program prints.

#include <mha/files/contents.hpp>

namespace mha::io {

/// Whether a file with these first bytes can be text with numbers that is not JSON.
bool begins_as_text(std::string_view first);

/// Reads the arrays of a text file. `notes` has how each was read. `token_lines`: lines of numbers
/// are `ids`, with `lengths` where they have several; a column is one text.
Contents read_text(const Bytes& bytes, bool token_lines);

} // namespace mha::io
