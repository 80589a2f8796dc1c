#pragma once
// Text that goes to its file, or to standard output, while it is made.

#include "resume.hpp"
#include <mha/files/output_file.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mha::app {

class GrowingFile {
public:
  explicit GrowingFile(const std::string& path);

  void write(std::string_view text);
  /// The file appears in its place.
  void finish();

  /// What was written so far, into a state that --resume keeps; and back from it.
  void save(StateWriter& state) const;
  void load(StateReader& state);

private:
  std::optional<io::OutputFile> file_;
  std::uint64_t size_ = 0;
};

} // namespace mha::app
