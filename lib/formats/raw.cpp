#include <mha/formats/raw.hpp>

#include <mha/files/text.hpp>

namespace mha::io {

Entry read_raw(const std::string& path, std::string name, DType dtype, const Shape& shape) {
  const Bytes bytes = read_bytes(path);
  require_sensible(shown(bytes.name), shape);
  const auto wanted = bytes_of(shape, size_of(dtype));
  if (!wanted || *wanted != bytes.size)
    fail("{}: {} bytes; {} of {} needs {}", shown(bytes.name), bytes.size, name_of(dtype),
         to_string(shape), wanted ? std::to_string(*wanted) : "more than 2^62");
  return {std::move(name), dtype, shape, false,
          [=] { return Tensor(dtype, shape, in_place(bytes, 0, bytes.size)); }};
}

} // namespace mha::io
