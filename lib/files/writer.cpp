#include <mha/files/writer.hpp>

#include <mha/files/output_file.hpp>

namespace mha::io {

void write_whole(const std::string& path, std::string_view bytes) {
  OutputFile file(path);
  file.write(0, bytes);
  file.commit();
}

} // namespace mha::io
