#include "support/gguf_file.hpp"

#include <cstring>

namespace mha::test {

namespace {

template <class T> void append_raw(std::string& to, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  to.append(bytes, sizeof(T));
}

void append_text(std::string& to, const std::string& text) {
  append_raw<std::uint64_t>(to, text.size());
  to += text;
}

/// The type's number, then the value.
struct AppendGgufValue {
  std::string& to;

  void operator()(bool value) const { append_raw<std::uint32_t>(to, 7), to += value ? '\1' : '\0'; }
  void operator()(std::uint32_t value) const {
    append_raw<std::uint32_t>(to, 4), append_raw(to, value);
  }
  void operator()(float value) const { append_raw<std::uint32_t>(to, 6), append_raw(to, value); }
  void operator()(const std::string& value) const {
    append_raw<std::uint32_t>(to, 8), append_text(to, value);
  }
  void operator()(const std::vector<std::uint32_t>& list) const {
    begin_list(4, list.size());
    for (const std::uint32_t one : list) append_raw(to, one);
  }
  void operator()(const std::vector<bool>& list) const {
    begin_list(7, list.size());
    for (const bool one : list) to += one ? '\1' : '\0';
  }
  void begin_list(std::uint32_t type, std::size_t count) const {
    append_raw<std::uint32_t>(to, 9);
    append_raw(to, type);
    append_raw<std::uint64_t>(to, count);
  }
};

void pad_to_32(std::string& to) {
  to.resize((to.size() + 31) / 32 * 32, '\0');
}

} // namespace

std::string GgufFile::bytes() const {
  std::string file = "GGUF", data;
  append_raw<std::uint32_t>(file, 3);
  append_raw<std::uint64_t>(file, tensors.size());
  append_raw<std::uint64_t>(file, keys.size());
  for (const auto& [key, value] : keys) {
    append_text(file, key);
    std::visit(AppendGgufValue{file}, value);
  }
  for (const auto& [name, array] : tensors) {
    append_text(file, name);
    append_raw<std::uint32_t>(file, static_cast<std::uint32_t>(array.shape.size()));
    for (std::size_t i = array.shape.size(); i-- > 0;)
      append_raw<std::uint64_t>(file, array.shape[i]);
    append_raw<std::uint32_t>(file, 0);
    append_raw<std::uint64_t>(file, data.size());
    for (const double number : array.values) append_raw(data, static_cast<float>(number));
    pad_to_32(data);
  }
  pad_to_32(file);
  return file + data;
}

} // namespace mha::test
