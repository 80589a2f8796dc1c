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

void GrowingFile::save(StateWriter& state) const {
  if (!file_ || size_ == 0) {
    state.add(std::string_view());
    return;
  }
  const io::NotAnInput own;
  const io::Bytes bytes = io::read_bytes(file_->temporary());
  state.add(bytes.text());
}

void GrowingFile::load(StateReader& state) {
  write(state.word());
}

} // namespace mha::app
