#include <mha/formats/npy.hpp>

#include <mha/files/text.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/parse.hpp>

#include <algorithm>
#include <array>
#include <cstring>

namespace mha::io {

namespace {

std::string_view descr_code(DType dtype) {
  constexpr std::array<std::string_view, 13> codes{"<f8", "<f4", "<f2", "",    "<i8", "<i4", "<i2",
                                                   "|i1", "<u8", "<u4", "<u2", "|u1", "|b1"};
  return codes[static_cast<std::size_t>(dtype)];
}

/// Magic, version, dictionary, and spaces up to a multiple of 64 bytes, so that the elements are
/// aligned.
std::string header_of(std::string_view descr, const Shape& shape) {
  std::string tuple;
  for (const std::size_t length : shape) tuple += fmt::format("{}, ", length);
  if (shape.size() > 1) tuple.resize(tuple.size() - 2);
  if (shape.size() == 1) tuple.resize(tuple.size() - 1);
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, tuple);
  const std::size_t whole = (10 + text.size() + 1 + 63) / 64 * 64;
  text.resize(whole - 11, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

template <class T> std::string npy_of(std::string_view descr, T value) {
  std::string bytes = header_of(descr, {});
  const auto* from = reinterpret_cast<const char*>(&value);
  bytes.append(from, sizeof value);
  return bytes;
}

} // namespace

std::string npy_header(const std::string& path, const Item& item) {
  if (item.dtype == DType::bf16)
    fail("{}: {} is bfloat16, which NumPy files cannot hold: write .safetensors or .json, or give "
         "it as float32, which loses nothing",
         shown(path), shown(item.name));
  return header_of(descr_code(item.dtype), item.shape);
}

std::string npy_of_scalar(const std::string& text) {
  switch (kind_of(text)) {
  case TextKind::boolean:
    return npy_of("|b1", static_cast<std::uint8_t>(text == "true"));
  case TextKind::integer:
    return npy_of("<i8", parse_number<std::int64_t>(text).value_or(0));
  case TextKind::number:
    return npy_of("<f8", number_of(text));
  case TextKind::words:
    break;
  }
  const std::u32string codes = utf32_of(text);
  std::string bytes = header_of(fmt::format("<U{}", codes.size()), {});
  return bytes.append(reinterpret_cast<const char*>(codes.data()), codes.size() * 4);
}

std::string npy_of_labels(const std::vector<std::string>& texts, const Shape& shape) {
  std::size_t width = 1; // NumPy's narrowest text
  std::vector<std::u32string> rows;
  for (const std::string& text : texts) {
    rows.push_back(utf32_of(text));
    width = std::max(width, rows.back().size());
  }
  std::string bytes = header_of(fmt::format("<U{}", width), shape);
  for (std::u32string& row : rows) {
    row.resize(width, U'\0');
    bytes.append(reinterpret_cast<const char*>(row.data()), width * 4);
  }
  return bytes;
}

std::vector<std::pair<std::string, std::string>> npy_extras(const Output& output) {
  std::vector<std::pair<std::string, std::string>> extras;
  for (const auto& [name, text] : output.scalars) extras.emplace_back(name, npy_of_scalar(text));
  for (const auto& [name, texts] : output.labels)
    extras.emplace_back(name, npy_of_labels(texts, {texts.size()}));
  for (const auto& [name, lists] : output.item_labels) {
    std::vector<std::string> all;
    for (const std::vector<std::string>& texts : lists)
      all.insert(all.end(), texts.begin(), texts.end());
    const std::size_t each = lists.empty() ? 0 : all.size() / lists.size();
    extras.emplace_back(name, npy_of_labels(all, {lists.size(), each}));
  }
  return extras;
}

Layout npy_layout(const std::string& path, const Output& output) {
  if (output.items.size() != 1 || !output.scalars.empty() || !output.labels.empty() ||
      !output.item_labels.empty())
    fail("{}: an .npy file holds one tensor and nothing else, not {} tensors, {} settings and {} "
         "labels: write a folder, .npz, .safetensors or .json",
         path == "-" ? "standard output" : shown(path), output.items.size(), output.scalars.size(),
         output.labels.size() + output.item_labels.size());
  const Item& item = output.items[0];
  Layout layout{npy_header(path, item), {}, 0};
  layout.offsets = {layout.header.size()};
  layout.size = layout.header.size() + count_of(item.shape) * size_of(item.dtype);
  return layout;
}

std::unique_ptr<Writer> create_npy(const std::string& path, const Output& output) {
  return create_flat(path, output, npy_layout(path, output));
}

} // namespace mha::io
