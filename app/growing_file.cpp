#include "growing_file.hpp"

#include "console.hpp"
#include <mha/files/contents.hpp>
#include <mha/files/inputs.hpp>

namespace mha::app {

GrowingFile::GrowingFile(const std::string& path) {
  if (!path.empty() && path != "-") file_.emplace(path);
}

void GrowingFile::write(std::string_view text) {
  if (!file_) return print(text);
  file_->write(size_, text);
  size_ += text.size();
}

void GrowingFile::finish() {
  if (file_)
    file_->commit();
  else
    flush();
}

void GrowingFile::visit(RunState& state) {
  std::string so_far;
  if (state.writes() && file_ && size_ > 0) {
    const io::NotAnInput own;
    so_far = io::read_bytes(file_->temporary()).text();
  }
  state.field(so_far);
  if (!state.writes()) write(so_far);
}

} // namespace mha::app
