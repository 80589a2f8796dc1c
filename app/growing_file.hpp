#pragma once
// Output that is written while it is computed.

#include "resume.hpp"
#include <mha/files/output_file.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mha::app {

/// A file that appears under its path once it is finished, or standard output.
class GrowingFile {
public:
  /// `path` "" or "-": standard output. Throws Error where no file can be created there.
  explicit GrowingFile(const std::string& path);

  /// Appends text. Throws Error where it cannot be written, as on a full disk.
  void write(std::string_view text);
  /// Renames the temporary file to its path, or flushes standard output.
  void finish();

  /// The text of the file so far, in the state that --resume keeps: what is read is written.
  void visit(RunState& state);

private:
  std::optional<io::OutputFile> file_;
  std::uint64_t size_ = 0;
};

} // namespace mha::app
