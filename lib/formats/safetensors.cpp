#include <mha/formats/safetensors.hpp>

#include <mha/files/bytes.hpp>
#include <mha/files/text.hpp>
#include <mha/formats/eight_bits.hpp>
#include <mha/formats/json.hpp>
#include <mha/formats/json_node.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/unaligned.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <set>

namespace mha::io {

namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors are mapped without byte swaps");

constexpr std::uint64_t most_header = 100'000'000; // as the reference implementation
constexpr std::size_t most_safetensors_axes = 32;

constexpr std::pair<std::string_view, DType> dtypes[] = {
    {"F64", DType::f64},     {"F32", DType::f32}, {"F16", DType::f16}, {"BF16", DType::bf16},
    {"I64", DType::i64},     {"I32", DType::i32}, {"I16", DType::i16}, {"I8", DType::i8},
    {"U64", DType::u64},     {"U32", DType::u32}, {"U16", DType::u16}, {"U8", DType::u8},
    {"BOOL", DType::boolean}};

/// One tensor of the header; `begin` and `end` are offsets from the end of the header.
struct TensorEntry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::uint64_t begin = 0, end = 0;
  const BlockType* floats = nullptr; ///< of 8 bits, where `dtype` is uint8
};

class HeaderReader {
public:
  HeaderReader(std::string where, std::string_view text) : document_(std::move(where), text) {}

  std::vector<TensorEntry> entries;
  std::vector<std::pair<std::string, std::string>> metadata;

  void read() {
    const JsonNode root = JsonNode::unread_root(document_);
    each_member(root, "tensor ", [&](const JsonName& name, const JsonNode& value) {
      if (name.text == "__metadata__")
        read_metadata(value);
      else
        entries.push_back(read_tensor(name, value));
    });
    root.finish();
  }

private:
  /// Visits the members; `kind` is part of the message if two have the same name.
  template <class Use>
  std::size_t each_member(const JsonNode& object, std::string_view kind, const Use& use) {
    object.require(object.is_object(), "an object");
    std::set<std::string, std::less<>> names;
    object.each_member("the header", [&](const JsonName& name, const JsonNode& value) {
      if (!names.emplace(name).second)
        refuse(fmt::format("{}'{}' appears twice", kind, shown(name)), name);
      use(name, value);
    });
    return names.size();
  }

  [[noreturn]] void refuse(const std::string& why, const JsonName& at) const {
    document_.scanner.refuse(why, at.place);
  }

  void read_metadata(const JsonNode& object) {
    each_member(object, "metadata ", [&](std::string_view key, const JsonNode& value) {
      if (!value.is_string()) value.refuse("metadata must be text");
      metadata.emplace_back(key, value.text(key));
    });
  }

  TensorEntry read_tensor(const JsonName& name, const JsonNode& tensor) {
    TensorEntry entry;
    entry.name = name;
    const std::size_t keys =
        each_member(tensor, "", [&](const JsonName& key, const JsonNode& value) {
          if (key.text == "dtype") {
            entry.dtype = read_dtype(entry.name, value, entry.floats);
          } else if (key.text == "shape") {
            entry.shape = read_integers<Shape>(value, "the length of an axis", "axes");
          } else if (key.text == "data_offsets") {
            const auto offsets =
                read_integers<std::vector<std::uint64_t>>(value, "an offset", "offsets");
            if (offsets.size() != 2) refuse("data_offsets are two numbers", key);
            entry.begin = offsets[0];
            entry.end = offsets[1];
          } else {
            refuse(fmt::format("'{}' is not a key of a tensor", shown(key)), key);
          }
        });
    if (keys != 3)
      refuse(fmt::format("'{}' needs dtype, shape and data_offsets", shown(name)), name);
    return entry;
  }

  static DType read_dtype(const std::string& tensor, const JsonNode& value,
                          const BlockType*& floats) {
    const std::string name = value.read([](JsonScanner& scanner) { return scanner.string(); });
    for (const auto& [known, dtype] : dtypes)
      if (name == known) return dtype;
    if (name == "F8_E4M3" || name == "F8_E5M2") {
      floats = find_block_type(name);
      return DType::u8;
    }
    std::vector<std::string_view> names;
    for (const auto& row : dtypes) names.push_back(row.first);
    names.insert(names.end(), {"F8_E4M3", "F8_E5M2"});
    // Numbers of few bits must be multiplied by scales, which are separate tensors.
    const bool scaled = name.starts_with("F8_") || name.starts_with("F4") || name.starts_with("F6");
    value.refuse(fmt::format("'{}' has dtype {}; {} are read: {}save it as one of them",
                             shown(tensor), shown(name), fmt::join(names, ", "),
                             scaled ? "multiply it by its scales and " : ""));
  }

  /// A list of at most as many integers as a tensor may have axes: `one` and `several` name them.
  template <class List>
  static List read_integers(const JsonNode& value, std::string_view one, std::string_view several) {
    value.require(value.is_array(), "a list of numbers");
    List list;
    value.each_element(several, [&](const JsonNode& element) {
      if (list.size() == most_safetensors_axes)
        element.refuse(fmt::format("more than {} {}", most_safetensors_axes, several));
      list.push_back(
          element.read([&](JsonScanner& scanner) { return scanner.integer<std::uint64_t>(one); }));
    });
    return list;
  }

  JsonDocument document_;
};

/// Throws Error unless the bytes of every tensor match its shape, and the tensors fill the rest of
/// the file without gaps or overlaps.
void check_extents(const std::string& where, std::vector<TensorEntry> entries, std::uint64_t size) {
  std::ranges::sort(entries, [](const TensorEntry& a, const TensorEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t at = 0;
  for (const TensorEntry& entry : entries) {
    const std::string name = shown(entry.name);
    require_sensible(fmt::format("{}: {}", where, name), entry.shape);
    const auto bytes = bytes_of(entry.shape, size_of(entry.dtype));
    if (entry.end < entry.begin || entry.end > size)
      fail("{}: {} is at bytes {} to {}; the file has {}", where, name, entry.begin, entry.end,
           size);
    if (!bytes || *bytes != entry.end - entry.begin)
      fail("{}: {} is {} of {}, {} bytes, but its offsets span {}", where, name,
           to_string(entry.shape), name_of(entry.dtype),
           bytes ? std::to_string(*bytes) : "more than 2^62", entry.end - entry.begin);
    if (entry.begin != at)
      fail("{}: {} starts at byte {}, where the tensor before it ends at {}", where, name,
           entry.begin, at);
    at = entry.end;
  }
  if (at != size) fail("{}: {} bytes too many after the last tensor", where, size - at);
}

Tensor tensor_at(const TensorEntry& entry, const Bytes& bytes, std::size_t start) {
  const std::shared_ptr<const std::byte> data =
      in_place(bytes, start + entry.begin, entry.end - entry.begin);
  if (reinterpret_cast<std::uintptr_t>(data.get()) % size_of(entry.dtype) == 0)
    return {entry.dtype, entry.shape, data};
  Tensor copy(entry.dtype, entry.shape);
  if (copy.bytes() > 0) std::memcpy(copy.raw_mutable(), data.get(), copy.bytes());
  return copy;
}

} // namespace

std::string_view safetensors_name(DType dtype) {
  return std::ranges::find(dtypes, dtype, &std::pair<std::string_view, DType>::second)->first;
}

Contents read_safetensors(const Bytes& bytes) {
  const std::string where = shown(bytes.name);
  refuse_pointer(bytes);
  if (bytes.size < sizeof(std::uint64_t))
    fail("{}: cut short: {} bytes are too few for a safetensors file", where, bytes.size);
  const auto length = unaligned<std::uint64_t>(bytes.data.get());
  if (length > most_header)
    fail("{}: a header of {} bytes is not a safetensors header; at most {} are read", where, length,
         most_header);
  if (length > bytes.size - sizeof length)
    fail("{}: cut short: the header claims {} bytes, {} are left", where, length,
         bytes.size - sizeof length);
  const std::string_view text = bytes.text().substr(sizeof length, length);
  if (!text.starts_with('{')) fail("{}: the header must start with '{{'", where);

  HeaderReader header(where + ": header", text);
  header.read();
  const std::size_t start = sizeof length + length;
  check_extents(where, header.entries, bytes.size - start);

  Contents contents;
  contents.name = bytes.name;
  contents.format = "safetensors";
  for (TensorEntry& entry : header.entries) {
    std::string name = entry.name;
    const DType dtype = entry.dtype;
    Shape shape = entry.shape;
    const BlockType* const floats = entry.floats;
    contents.tensors.push_back(
        {std::move(name), dtype, std::move(shape), false,
         [entry = std::move(entry), bytes, start] { return tensor_at(entry, bytes, start); }});
    if (floats) contents.tensors.back() = as_floats(std::move(contents.tensors.back()), *floats);
  }
  require_no_scales(contents);
  for (auto& [key, text_value] : header.metadata) {
    if (key == "format") continue; // "pt", the library that wrote the file, is not a setting
    if (key == run_metadata)
      contents.run = text_value;
    else if (auto labels = labels_of_json(text_value))
      contents.labels.emplace_back(key, std::move(*labels));
    else if (auto lists = item_labels_of_json(text_value))
      contents.item_labels.emplace_back(key, std::move(*lists));
    else
      contents.scalars.emplace_back(key, text_value);
  }
  return contents;
}

/// Tensors of wide elements come first, so that each is aligned although there are no gaps.
Layout safetensors_layout(const std::string& path, const Output& output) {
  Layout layout{"", std::vector<std::uint64_t>(output.items.size()), 0};
  std::set<std::string> names;
  const auto claim = [&](const std::string& name) {
    if (!names.insert(name).second || name == "__metadata__")
      fail("{}: '{}' would appear twice", shown(path), shown(name));
  };
  std::vector<std::size_t> order(output.items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::size_t i) { return size_of(output.items[i].dtype); });

  std::string text = "{";
  const auto add_metadata = [&](const std::string& name, const std::string& value) {
    claim(name);
    text += fmt::format("{}{}:{}", text == "{" ? "\"__metadata__\":{" : ",", json_string(name),
                        json_string(value));
  };
  for (const auto& [name, value] : output.scalars) add_metadata(name, value);
  for (const auto& [name, labels] : output.labels) add_metadata(name, json_of_labels(labels));
  for (const auto& [name, lists] : output.item_labels)
    add_metadata(name, json_of_item_labels(lists));
  if (!output.run.empty()) add_metadata(std::string(run_metadata), output.run);
  if (text != "{") text += "}";
  std::uint64_t at = 0;
  for (const std::size_t i : order) {
    const Item& item = output.items[i];
    claim(item.name);
    const std::uint64_t size = count_of(item.shape) * size_of(item.dtype);
    layout.offsets[i] = at;
    text += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                        text == "{" ? "" : ",", json_string(item.name),
                        safetensors_name(item.dtype), fmt::join(item.shape, ","), at, at + size);
    at += size;
  }
  text += "}";
  // The header is padded with spaces, so that the data starts at a multiple of 64.
  text.resize((8 + text.size() + 63) / 64 * 64 - 8, ' ');
  for (int i = 0; i < 8; ++i) layout.header += static_cast<char>(text.size() >> (8 * i) & 0xff);
  layout.header += text;
  for (std::uint64_t& offset : layout.offsets) offset += layout.header.size();
  layout.size = layout.header.size() + at;
  return layout;
}

std::unique_ptr<Writer> create_safetensors(const std::string& path, const Output& output) {
  return create_flat(path, output, safetensors_layout(path, output));
}

} // namespace mha::io
