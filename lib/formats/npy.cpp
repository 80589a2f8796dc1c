#include <mha/formats/npy.hpp>

#include <mha/files/text.hpp>
#include <mha/formats/foreign.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/parse.hpp>
#include <mha/tensor/storage.hpp>

#include <bit>
#include <cstring>

namespace mha::io {

namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::size_t most_npy_header = std::size_t{1} << 16;
constexpr std::size_t most_texts = std::size_t{1} << 22;
constexpr std::size_t most_empty_texts = 1 << 16; // they take no bytes in the file
constexpr std::size_t most_npy_axes = 32;
constexpr bool little_machine = std::endian::native == std::endian::little;

[[noreturn]] void fail_void(const NpyPlace& place) {
  fail("{}: 2-byte void elements: bfloat16 from ml_dtypes? give {}:bf16", place.where,
       place.binding);
}

/// "f4" → f32; nothing for unsupported types.
std::optional<DType> dtype_of_code(std::string_view code) {
  constexpr std::pair<std::string_view, DType> codes[] = {
      {"f8", DType::f64}, {"f4", DType::f32}, {"f2", DType::f16}, {"i8", DType::i64},
      {"i4", DType::i32}, {"i2", DType::i16}, {"i1", DType::i8},  {"u8", DType::u64},
      {"u4", DType::u32}, {"u2", DType::u16}, {"u1", DType::u8},  {"b1", DType::boolean}};
  for (const auto& [name, dtype] : codes)
    if (code == name) return dtype;
  return std::nullopt;
}

/// Sets the dtype or the text fields from a descr such as "<f4". Returns the bytes of an element.
std::size_t set_type(const NpyPlace& place, std::string_view descr, NpyHeader& header) {
  const auto refuse = [&]() -> std::size_t {
    fail("{}: dtype '{}' is not read: save it as float32, float64, an integer or bool", place.where,
         shown(descr));
  };
  if (descr.size() < 2) return refuse();
  const char order = descr[0];
  if (std::string_view("<>|=").find(order) == std::string_view::npos) return refuse();
  header.swapped = (order == '<' && !little_machine) || (order == '>' && little_machine);
  const std::string_view code = descr.substr(1);

  if (code[0] == 'O') fail("{}: {}", place.where, object_array_cure(place.path));
  if (code[0] == 'c')
    fail("{}: complex numbers: save .real and .imag as arrays of their own", place.where);
  if (code[0] == 'M' || code[0] == 'm')
    fail("{}: dates are not numbers: save .astype('f8')", place.where);
  if (code == "f16" || code == "f12")
    fail("{}: long double depends on the machine: save .astype('f8')", place.where);
  if (code == "V2") {
    if (!place.void_is_bf16) fail_void(place);
    header.dtype = DType::bf16;
    return 2;
  }
  if (code[0] == 'V')
    fail("{}: void elements of {} bytes: save numbers, as in .astype('f4')", place.where,
         shown(code.substr(1)));
  if (code[0] == 'U' || code[0] == 'S') {
    const std::optional<std::uint32_t> width = parse_number<std::uint32_t>(code.substr(1));
    if (!width || *width > (1u << 28)) return refuse();
    header.is_text = true;
    header.wide_text = code[0] == 'U';
    header.text_width = *width;
    return header.wide_text ? std::size_t{*width} * 4 : *width;
  }
  const std::optional<DType> dtype = dtype_of_code(code);
  if (!dtype) return refuse();
  header.dtype = *dtype;
  return size_of(*dtype);
}

/// The elements in native byte order and C order; without a copy if they already are.
Tensor decoded(const NpyHeader& header, const std::shared_ptr<const std::byte>& data) {
  const std::size_t size = size_of(header.dtype);
  Shape shape = header.shape;
  if (header.fortran) shape = Shape(shape.rbegin(), shape.rend());

  Tensor tensor;
  const bool aligned = reinterpret_cast<std::uintptr_t>(data.get()) % size == 0;
  const bool swapped = header.swapped && size > 1;
  if (aligned && !swapped) {
    tensor = Tensor(header.dtype, shape, data);
  } else {
    tensor = Tensor(header.dtype, shape);
    if (tensor.bytes() > 0) std::memcpy(tensor.raw_mutable(), data.get(), tensor.bytes());
    if (swapped) swap_bytes(tensor.raw_mutable(), tensor.count(), size);
  }
  if (!header.fortran || shape.size() < 2) return tensor;
  std::vector<std::size_t> order(shape.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = order.size() - 1 - i;
  return permuted(tensor, order);
}

/// Text `index` of an array of fixed-width texts, padded with zeros at its end.
std::string text_at(const NpyPlace& place, const NpyHeader& header, const std::byte* data,
                    std::size_t index) {
  std::string text;
  const std::size_t width = header.text_width;
  if (!header.wide_text) {
    text.assign(reinterpret_cast<const char*>(data) + index * width, width);
    text.resize(text.find_last_not_of('\0') + 1);
    if (invalid_utf8(text) != std::string::npos)
      fail("{}: text {} is not UTF-8: '{}'", place.where, index, shown(text));
    return text;
  }
  std::vector<std::uint32_t> codes(width);
  if (width > 0) std::memcpy(codes.data(), data + index * width * 4, width * 4);
  if (header.swapped)
    swap_bytes(reinterpret_cast<std::byte*>(codes.data()), codes.size(), sizeof(std::uint32_t));
  while (!codes.empty() && codes.back() == 0) codes.pop_back();
  for (const std::uint32_t code : codes) {
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
      fail("{}: text {} has the character {:#x}, which is not in Unicode", place.where, index,
           code);
    append_utf8(text, code);
  }
  return text;
}

} // namespace

std::size_t npy_header_size(const NpyPlace& place, std::string_view first, std::uint64_t size) {
  if (!first.starts_with(magic))
    fail("{}: not an NPY array: it does not start with \\x93NUMPY", place.where);
  if (first.size() < 10)
    fail("{}: cut short: {} bytes are too few for an NPY header", place.where, size);
  const auto byte = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(first[i]));
  };
  const std::size_t major = byte(6);
  if (major < 1 || major > 3 || byte(7) != 0)
    fail("{}: NPY version {}.{}; 1.0, 2.0 and 3.0 are read", place.where, major, byte(7));
  if (major > 1 && first.size() < 12)
    fail("{}: cut short: {} bytes are too few for an NPY header", place.where, size);
  const std::size_t length = major == 1 ? byte(8) | byte(9) << 8
                                        : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  const std::size_t start = major == 1 ? 10 : 12;
  if (length > size - start)
    fail("{}: cut short: the NPY header claims {} bytes, {} are left", place.where, length,
         size - start);
  if (length > most_npy_header)
    fail("{}: an NPY header of {} bytes; at most {} are read", place.where, length,
         most_npy_header);
  return start + length;
}

NpyHeader npy_header(const NpyPlace& place, const NpyLiteral& literal, std::uint64_t left) {
  NpyHeader header;
  if (literal.structured)
    fail("{}: a structured array: save each of its fields as an array of its own", place.where);
  const std::size_t element = set_type(place, literal.descr, header);
  header.fortran = literal.fortran;
  header.shape = literal.shape;
  if (header.shape.size() > most_npy_axes)
    fail("{}: {} axes; at most {} are read", place.where, header.shape.size(), most_npy_axes);

  require_sensible(place.where, header.shape);
  const std::optional<std::uint64_t> bytes = bytes_of(header.shape, element);
  if (!bytes || *bytes > left)
    fail("{}: cut short: shape {} of '{}' needs {} bytes, {} are left", place.where,
         to_string(header.shape), shown(literal.descr),
         bytes ? std::to_string(*bytes) : "more than 2^62", left);
  if (*bytes < left)
    fail("{}: {} bytes too many after shape {} of '{}'", place.where, left - *bytes,
         to_string(header.shape), shown(literal.descr));
  header.bytes = *bytes;
  return header;
}

NpyHeader parse_npy(const NpyPlace& place, std::string_view first, std::uint64_t size) {
  const std::size_t offset = npy_header_size(place, first, size);
  const std::size_t start = first[6] == 1 ? 10 : 12;
  const NpyLiteral literal = parse_npy_literal(place.where, first.substr(start, offset - start));
  NpyHeader header = npy_header(place, literal, size - offset);
  header.offset = offset;
  return header;
}

void add_npy(Contents& contents, const NpyPlace& place, std::string name, const NpyHeader& header,
             Load load) {
  if (!header.is_text && !header.shape.empty()) {
    contents.tensors.push_back(
        {std::move(name), header.dtype, header.shape, false,
         [header, load = std::move(load)] { return decoded(header, load()); }});
    return;
  }
  if (header.shape.size() > 2)
    fail("{}: text of shape {}: labels are a list, one axis; or one of each batch item, two axes",
         place.where, to_string(header.shape));
  const std::shared_ptr<const std::byte> data = load();
  if (!header.is_text) {
    contents.scalars.emplace_back(std::move(name), element_text(decoded(header, data), 0));
  } else if (header.shape.empty()) {
    contents.scalars.emplace_back(std::move(name), text_at(place, header, data.get(), 0));
  } else {
    // A text takes more memory than in the file, where an empty text takes none.
    const std::size_t most = header.text_width == 0 ? most_empty_texts : most_texts;
    const std::size_t count = count_of(header.shape);
    const bool of_items = header.shape.size() == 2;
    if (std::max(count, header.shape[0]) > most)
      fail("{}: a list of {} texts; at most {} are read", place.where, count, most);
    std::vector<std::string> texts(count);
    for (std::size_t i = 0; i < texts.size(); ++i) texts[i] = text_at(place, header, data.get(), i);
    if (!of_items) {
      contents.labels.emplace_back(std::move(name), std::move(texts));
      return;
    }
    std::vector<std::vector<std::string>> lists(header.shape[0]);
    for (std::size_t i = 0; i < count; ++i)
      lists[i / header.shape[1]].push_back(std::move(texts[i]));
    contents.item_labels.emplace_back(std::move(name), std::move(lists));
  }
}

Contents read_npy(const Bytes& bytes, bool void_is_bf16) {
  Contents contents;
  contents.name = bytes.name;
  contents.format = "npy";
  const std::string stem = stem_of(bytes.name);
  const std::string path = bytes.name == "standard input" ? "-" : bytes.name;
  const NpyPlace place{bytes.name, shown(bytes.name), shown(stem) + "=" + shown(path),
                       void_is_bf16};
  const NpyHeader header = parse_npy(place, bytes.text(), bytes.size);
  add_npy(contents, place, stem, header,
          [bytes, first = header.offset] { return in_place(bytes, first, bytes.size - first); });
  return contents;
}

} // namespace mha::io
