#include <mha/formats/onnx_tensor.hpp>

#include <mha/files/paths.hpp>
#include <mha/files/text.hpp>
#include <mha/formats/onnx_wire.hpp>
#include <mha/system/parse.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>

namespace mha::io {

namespace {

static_assert(std::endian::native == std::endian::little,
              "ONNX's numbers are read without byte swaps");

/// TensorProto.DataType: its name, the program's dtype, and the field of its typed numbers.
struct OnnxTypeRow {
  std::string_view name;
  std::optional<DType> dtype;
  std::uint32_t field = 0;
};
constexpr std::array<OnnxTypeRow, 24> onnx_types{{
    {"UNDEFINED", std::nullopt},      {"FLOAT", DType::f32, 4},
    {"UINT8", DType::u8, 5},          {"INT8", DType::i8, 5},
    {"UINT16", DType::u16, 5},        {"INT16", DType::i16, 5},
    {"INT32", DType::i32, 5},         {"INT64", DType::i64, 7},
    {"STRING", std::nullopt},         {"BOOL", DType::boolean, 5},
    {"FLOAT16", DType::f16, 5},       {"DOUBLE", DType::f64, 10},
    {"UINT32", DType::u32, 11},       {"UINT64", DType::u64, 11},
    {"COMPLEX64", std::nullopt},      {"COMPLEX128", std::nullopt},
    {"BFLOAT16", DType::bf16, 5},     {"FLOAT8E4M3FN", std::nullopt},
    {"FLOAT8E4M3FNUZ", std::nullopt}, {"FLOAT8E5M2", std::nullopt},
    {"FLOAT8E5M2FNUZ", std::nullopt}, {"UINT4", std::nullopt},
    {"INT4", std::nullopt},           {"FLOAT4E2M1", std::nullopt},
}};

const OnnxTypeRow* onnx_type(std::int64_t type) {
  const bool known = type >= 0 && type < static_cast<std::int64_t>(onnx_types.size());
  return known ? &onnx_types[static_cast<std::size_t>(type)] : nullptr;
}

/// Writes a number of int32_data or uint64_data; returns false if it is out of the dtype's range.
bool put_integer(DType dtype, std::uint64_t bits, std::byte* to) {
  const auto value = static_cast<std::int64_t>(bits);
  const auto within = [&](std::int64_t least, std::int64_t most) {
    return value >= least && value <= most;
  };
  switch (dtype) {
  case DType::boolean:
    if (!within(0, 1)) return false;
    break;
  case DType::i8:
    if (!within(-128, 127)) return false;
    break;
  case DType::u8:
    if (!within(0, 255)) return false;
    break;
  case DType::i16:
    if (!within(-32768, 32767)) return false;
    break;
  case DType::u16:
  case DType::f16:
  case DType::bf16:
    if (!within(0, 65535)) return false;
    break;
  case DType::i32:
    if (!within(INT32_MIN, INT32_MAX)) return false;
    break;
  case DType::u32:
    if (!within(0, UINT32_MAX)) return false;
    break;
  default:
    break;
  }
  std::memcpy(to, &bits, size_of(dtype)); // little-endian: the low bytes come first
  return true;
}

/// The number of numbers in the typed field of a tensor.
std::uint64_t count_typed(const OnnxTensor& tensor) {
  std::uint64_t count = tensor.loose.size();
  const std::size_t fixed = tensor.typed_field == 4 ? 4 : tensor.typed_field == 10 ? 8 : 0;
  for (const std::string_view piece : tensor.typed)
    if (fixed > 0)
      count += piece.size() / fixed + (piece.size() % fixed != 0 ? 1 : 0);
    else
      count += static_cast<std::uint64_t>(
          std::ranges::count_if(piece, [](char c) { return (c & 0x80) == 0; }));
  return count;
}

/// Reads numbers that were written as varints or in pieces.
Tensor read_typed(const std::string& where, const OnnxTensor& tensor, DType dtype,
                  const Shape& shape) {
  Tensor result = Tensor::uninitialised(dtype, shape);
  std::byte* to = result.raw_mutable();
  std::byte* const end = to + result.bytes();
  const auto put = [&](std::uint64_t bits) {
    if (to == end) fail("{}: more numbers than its shape has", where);
    if (!put_integer(dtype, bits, to))
      fail("{}: {} is not a valid {}", where, static_cast<std::int64_t>(bits), name_of(dtype));
    to += size_of(dtype);
  };
  for (std::string_view piece : tensor.typed)
    if (tensor.typed_field == 4 || tensor.typed_field == 10) {
      if (piece.size() > static_cast<std::size_t>(end - to))
        fail("{}: more numbers than its shape has", where);
      std::memcpy(to, piece.data(), piece.size());
      to += piece.size();
    } else {
      while (!piece.empty()) {
        const auto bits = take_varint(piece);
        if (!bits) fail("{}: its numbers end within one", where);
        put(*bits);
      }
    }
  for (const std::int64_t value : tensor.loose) put(static_cast<std::uint64_t>(value));
  if (to != end) fail("{}: fewer numbers than its shape has", where);
  return result;
}

/// Numbers in a file, without a copy if they are aligned.
Tensor read_in_place(const Bytes& bytes, std::uint64_t first, DType dtype, const Shape& shape) {
  const std::size_t size = size_of(dtype);
  const std::byte* const at = bytes.data.get() + first;
  const std::uint64_t length = count_of(shape) * size;
  if (reinterpret_cast<std::uintptr_t>(at) % size == 0)
    return {dtype, shape, in_place(bytes, first, length)};
  Tensor copy = Tensor::uninitialised(dtype, shape);
  if (length > 0) std::memcpy(copy.raw_mutable(), at, length);
  return copy;
}

std::uint64_t whole_number(const std::string& where, std::string_view key, std::string_view text) {
  const std::optional<std::uint64_t> value = parse_number<std::uint64_t>(text);
  if (!value)
    fail("{}: {} of its external data is '{}': a whole number expected", where, key, shown(text));
  return *value;
}

} // namespace

std::string onnx_type_name(std::int64_t type) {
  const OnnxTypeRow* row = onnx_type(type);
  return row ? std::string(row->name) : fmt::format("type {}", type);
}

std::shared_ptr<const Bytes> OnnxStore::file_beside(const std::string& where,
                                                    std::string_view location) {
  std::shared_ptr<const Bytes>& known = beside_[std::string(location)];
  if (known) return known;
  if (location.empty() || leads_outside(location) ||
      location.find('\0') != std::string_view::npos || location.find('\\') != location.npos)
    fail("{}: its external data are in '{}': a file in the model's folder expected", where,
         shown(location));
  if (bytes_->name == "standard input")
    fail("{}: its numbers are in {}, but the model was read from a pipe: give the model's file",
         where, shown(location));
  const std::string path =
      (std::filesystem::path(bytes_->name).parent_path() / std::string(location)).string();
  std::error_code ignored; // any other error is reported when the file is opened
  if (std::filesystem::status(path, ignored).type() == std::filesystem::file_type::not_found)
    fail("{}: its numbers are missing: no {} beside the model", where, shown(path));
  known = std::make_shared<const Bytes>(read_member(path));
  return known;
}

std::function<Tensor()> OnnxStore::external(const OnnxTensor& tensor, const std::string& where,
                                            const OnnxArray& array, std::uint64_t bytes) {
  const auto place = [&](std::string_view key) -> std::optional<std::uint64_t> {
    const auto at = tensor.place.find(key);
    if (at == tensor.place.end()) return std::nullopt;
    return whole_number(where, key, at->second);
  };
  const auto location = tensor.place.find("location");
  if (location == tensor.place.end()) fail("{}: external data without a location", where);
  const std::shared_ptr<const Bytes> file = file_beside(where, location->second);
  const std::uint64_t first = place("offset").value_or(0);
  if (first > file->size || bytes > file->size - first)
    fail("{}: {} is {} of {}, {} bytes from byte {} on; {} has {}", where, shown(tensor.name),
         to_string(array.shape), name_of(array.dtype), bytes, first, shown(file->name), file->size);
  if (const auto length = place("length"); length && *length != bytes)
    fail("{}: {} is {} of {}, {} bytes, yet the length of its external data is {}", where,
         shown(tensor.name), to_string(array.shape), name_of(array.dtype), bytes, *length);
  return [file, first, dtype = array.dtype, shape = array.shape] {
    return read_in_place(*file, first, dtype, shape);
  };
}

std::optional<OnnxArray> OnnxStore::array(const OnnxTensor& tensor, std::string name) {
  const std::string where = fmt::format("{}: {}", shown(bytes_->name), shown(name));
  const OnnxTypeRow* type = onnx_type(tensor.type);
  if (!type || tensor.type == 0)
    fail("{}: its type is {}, which does not exist", where, tensor.type);
  OnnxArray array;
  for (const std::int64_t length : tensor.dims) {
    if (length < 0) fail("{}: an axis of {}", where, length);
    array.shape.push_back(static_cast<std::size_t>(length));
  }
  if (!type->dtype) return std::nullopt;
  array.name = std::move(name), array.dtype = *type->dtype;
  require_sensible(where, array.shape);
  const auto bytes = bytes_of(array.shape, size_of(array.dtype));
  if (!bytes) fail("{}: {} is more than a file can have", where, to_string(array.shape));
  if (tensor.external) {
    array.read = external(tensor, where, array, *bytes);
    return array;
  }
  if (tensor.has_raw) {
    if (tensor.typed_field != 0) fail("{}: its numbers appear twice", where);
    if (tensor.raw.size() != *bytes)
      fail("{}: {} of {} needs {} bytes, but has {}", where, to_string(array.shape),
           name_of(array.dtype), *bytes, tensor.raw.size());
    const auto first = static_cast<std::uint64_t>(tensor.raw.data() - bytes_->text().data());
    array.read = [file = bytes_, first, dtype = array.dtype, shape = array.shape] {
      return read_in_place(*file, first, dtype, shape);
    };
    return array;
  }
  const std::uint64_t count = count_of(array.shape), held = count_typed(tensor);
  if (tensor.typed_field != 0 && tensor.typed_field != type->field)
    fail("{}: numbers of {} in field {}; field {} expected", where, type->name, tensor.typed_field,
         type->field);
  if (held != count)
    fail("{}: {} needs {} numbers, but has {}", where, to_string(array.shape), count, held);
  array.read = [file = bytes_, where, tensor, dtype = array.dtype, shape = array.shape] {
    return read_typed(where, tensor, dtype, shape);
  };
  return array;
}

} // namespace mha::io
