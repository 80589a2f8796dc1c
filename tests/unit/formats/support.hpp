#pragma once
// What the tests of files share: a folder that goes away, tensors with numbers that all differ.

#include <mha/formats/formats.hpp>

#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

namespace mha::io::test {

/// A folder of its own for each test, removed at its end.
class Folder {
public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "mha-test-XXXXXX").string();
    if (!mkdtemp(name.data())) fail("no temporary folder");
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }
  /// How many entries are in it, hidden ones too.
  std::size_t size() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }
  std::string file(const std::string& name, std::string_view bytes) const {
    const std::string path = *this / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

private:
  std::filesystem::path path_;
};

inline std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// 0, 1, -2, 3 … fit for every dtype; true and false for bool.
inline Tensor numbers(DType dtype, const Shape& shape) {
  Tensor wide(DType::f64, shape);
  auto values = wide.as_mutable<double>();
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>(i % 120) * (i % 2 == 0 && is_floating(dtype) ? -0.5 : 1);
  if (dtype == DType::boolean)
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 3 == 0;
  return convert(wide, dtype);
}

inline bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::equal(a.raw(), a.raw() + a.bytes(), b.raw());
}

/// Writes tensors in two pieces each, the later one first.
inline void write(const std::string& path, std::string_view format,
                  const std::vector<std::pair<std::string, Tensor>>& tensors, Output output = {}) {
  for (const auto& [name, tensor] : tensors)
    output.items.push_back({name, tensor.dtype(), tensor.shape()});
  const auto writer = create(path, format, output);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i].second;
    const std::size_t half = tensor.count() / 2;
    writer->write(i, half, tensor.raw() + half * size_of(tensor.dtype()), tensor.count() - half);
    writer->write(i, 0, tensor.raw(), half);
  }
  writer->finish();
}

} // namespace mha::io::test
