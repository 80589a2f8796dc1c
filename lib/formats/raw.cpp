#include <mha/formats/raw.hpp>

#include <mha/files/bytes.hpp>
#include <mha/files/text.hpp>

#include <fmt/format.h>

namespace mha::io {

Entry read_raw(const std::string& path, std::string name, DType dtype, const Shape& shape) {
  const auto wanted = bytes_of(shape, size_of(dtype));
  const std::string what = fmt::format("{} of {}", name_of(dtype), to_string(shape));
  // A stream is read no further than the expected size, and a longer one refused; a file has a size
  // of its own, which is compared below.
  const StreamLimit exactly{wanted.value_or(0), what, nullptr};
  const Bytes bytes = wanted && *wanted > 0 ? read_bytes(path, exactly) : read_bytes(path);
  require_sensible(shown(bytes.name), shape);
  if (!wanted || *wanted != bytes.size)
    fail("{}: {} bytes; {} of {} needs {}", shown(bytes.name), bytes.size, name_of(dtype),
         to_string(shape), wanted ? std::to_string(*wanted) : "more than 2^62");
  return {std::move(name), dtype, shape, false,
          [=] { return Tensor(dtype, shape, in_place(bytes, 0, bytes.size)); }};
}

} // namespace mha::io
