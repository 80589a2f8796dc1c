#include <mha/files/pointer.hpp>

#include <mha/files/text.hpp>

namespace mha::io {

void refuse_pointer(const Bytes& bytes) {
  if (bytes.text().starts_with("version https://git-lfs.github.com/spec/"))
    fail("{}: a Git LFS pointer, not the file itself; download it: git lfs pull",
         shown(bytes.name));
}

} // namespace mha::io
