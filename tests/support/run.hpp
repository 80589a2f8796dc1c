#pragma once
// Runs the program as a user does, and keeps what it prints.

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace mha::test {

struct Result {
  std::string out, err;
  int code = -1; ///< the exit code; 128 + the signal's number for one that was killed
};

struct Setting {
  std::string input = {};                      ///< standard input
  std::map<std::string, std::string> env = {}; ///< set; "" = not set
  std::string folder = {};                     ///< to run in; "" = the project's root
};

/// `mha-inspect ARGUMENTS…`
Result run(const std::vector<std::string>& arguments, const Setting& setting = {});
/// A line for bash with pipefail set; $MHA is the program.
Result shell(const std::string& line, const Setting& setting = {});

/// A folder that is gone when the test ends.
class Folder {
public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string path(const std::string& name = "") const { return (root_ / name).string(); }
  /// Writes a file and returns its path.
  std::string write(const std::string& name, const std::string& text) const;
  std::string read(const std::string& name) const;
  bool has(const std::string& name) const { return std::filesystem::exists(root_ / name); }
  /// The names in the folder, sorted.
  std::vector<std::string> names() const;

private:
  std::filesystem::path root_;
};

/// A layer of 3 tokens, 4 wide, 2 heads of 2, causal, as JSON; its numbers are all different.
std::string small_layer_json();

/// Whether a text is one line that ends; a mistake in JSON is shown with two more.
inline bool one_line(const std::string& text) {
  const std::size_t end = text.find('\n');
  if (end == std::string::npos) return false;
  return end + 1 == text.size() || (text.compare(end, 3, "\n  ") == 0 && text.ends_with(" ^\n") &&
                                    std::count(text.begin(), text.end(), '\n') == 3);
}

} // namespace mha::test
