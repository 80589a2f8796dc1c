#include <mha/formats/torch_tensor.hpp>

#include <mha/files/text.hpp>
#include <mha/system/words.hpp>
#include <mha/tensor/storage.hpp>

#include <fmt/format.h>

#include <cstring>

namespace mha::io {

namespace {

/// The most bytes of a view that is larger than its storage, as with strides of 0, which repeat
/// numbers.
constexpr std::uint64_t most_expanded = std::uint64_t{16} << 20;
constexpr std::size_t most_torch_axes = 32;

struct TorchTypeRow {
  std::string_view storage, name, other;
  std::optional<DType> dtype;
  std::size_t size;
  std::string_view floats = {}; ///< the type of 8-bit ones
};

constexpr TorchTypeRow torch_types[] = {
    {"DoubleStorage", "float64", "double", DType::f64, 8},
    {"FloatStorage", "float32", "float", DType::f32, 4},
    {"HalfStorage", "float16", "half", DType::f16, 2},
    {"BFloat16Storage", "bfloat16", "", DType::bf16, 2},
    {"LongStorage", "int64", "long", DType::i64, 8},
    {"IntStorage", "int32", "int", DType::i32, 4},
    {"ShortStorage", "int16", "short", DType::i16, 2},
    {"CharStorage", "int8", "", DType::i8, 1},
    {"ByteStorage", "uint8", "", DType::u8, 1},
    {"BoolStorage", "bool", "", DType::boolean, 1},
    {"", "uint64", "", DType::u64, 8},
    {"", "uint32", "", DType::u32, 4},
    {"", "uint16", "", DType::u16, 2},
    {"ComplexFloatStorage", "complex64", "cfloat", std::nullopt, 8},
    {"ComplexDoubleStorage", "complex128", "cdouble", std::nullopt, 16},
    {"", "complex32", "chalf", std::nullopt, 4},
    {"", "float8_e4m3fn", "", DType::u8, 1, "F8_E4M3"},
    {"", "float8_e5m2", "", DType::u8, 1, "F8_E5M2"},
};

template <std::size_t Size>
void gather_row(std::byte* to, const std::byte* from, std::size_t count, std::size_t stride) {
  for (std::size_t i = 0; i < count; ++i)
    std::memcpy(to + i * Size, from + i * stride * Size, Size);
}

/// Copies the view's elements in row-major order; `from` is the first of them.
void gather(std::byte* to, const std::byte* from, const TorchView& view, std::size_t size) {
  const std::size_t axes = view.sizes.size();
  const std::size_t width = axes == 0 ? 1 : view.sizes.back(),
                    step = axes == 0 ? 1 : view.strides.back();
  std::vector<std::uint64_t> index(axes, 0);
  for (std::uint64_t place = 0;;) {
    const std::byte* const row = from + place * size;
    if (step == 1)
      std::memcpy(to, row, width * size);
    else if (size == 1)
      gather_row<1>(to, row, width, step);
    else if (size == 2)
      gather_row<2>(to, row, width, step);
    else if (size == 4)
      gather_row<4>(to, row, width, step);
    else
      gather_row<8>(to, row, width, step);
    to += width * size;
    std::size_t axis = axes < 2 ? 0 : axes - 1;
    while (axis > 0) {
      --axis;
      place += view.strides[axis];
      if (++index[axis] < view.sizes[axis]) break;
      place -= view.strides[axis] * view.sizes[axis];
      index[axis] = 0;
      if (axis == 0) return;
    }
    if (axes < 2) return;
  }
}

bool is_row_major(const TorchView& view) {
  std::uint64_t expected = 1;
  for (std::size_t axis = view.sizes.size(); axis-- > 0;) {
    if (view.sizes[axis] != 1 && view.strides[axis] != expected) return false;
    expected *= view.sizes[axis];
  }
  return true;
}

/// The number of elements of the storage from the view's first to its last element.
std::uint64_t span_of(const std::string& where, const TorchView& view) {
  std::uint64_t last = 0;
  for (std::size_t axis = 0; axis < view.sizes.size(); ++axis) {
    if (view.sizes[axis] == 0) return 0;
    std::uint64_t step = 0;
    if (__builtin_mul_overflow(view.sizes[axis] - 1, view.strides[axis], &step) ||
        __builtin_add_overflow(last, step, &last))
      fail("{}: its strides lead beyond any storage", where);
  }
  return last + 1;
}

} // namespace

TorchType torch_type(const std::string& where, const std::string& name) {
  const std::string_view last = last_part(name);
  const bool of_torch = name.starts_with("torch.");
  if (of_torch && last == "UntypedStorage") return {std::nullopt, 1, true, "bytes"};
  for (const TorchTypeRow& row : torch_types)
    if (of_torch && !last.empty() && (last == row.storage || last == row.name || last == row.other))
      return {row.dtype, row.size, false, std::string(row.name), find_block_type(row.floats)};
  if (last.starts_with("Q") || last.starts_with("q"))
    fail("{}: {} is quantised, which is not read: save t.dequantize()", where, shown(name));
  fail("{}: numbers of type {} are not read: save them as float32 or bfloat16", where,
       shown(name.empty() ? "no name" : name));
}

Entry torch_entry(const std::string& where, std::string name, DType dtype, const TorchView& view,
                  std::shared_ptr<const TorchStorage> storage) {
  if (view.sizes.size() != view.strides.size())
    fail("{}: {} axes and {} strides", where, view.sizes.size(), view.strides.size());
  if (view.sizes.size() > most_torch_axes)
    fail("{}: {} axes; at most {} are read", where, view.sizes.size(), most_torch_axes);
  const std::size_t size = size_of(dtype);
  Shape shape(view.sizes.begin(), view.sizes.end());
  require_sensible(where, shape);
  const std::optional<std::uint64_t> bytes = bytes_of(shape, size);
  const std::uint64_t span = span_of(where, view), held = storage->bytes / size;
  if (!bytes) fail("{}: {} has more elements than memory has addresses", where, to_string(shape));
  if (view.offset > held || span > held - view.offset)
    fail("{}: {} elements from element {} on, of a storage of {}", where, span, view.offset, held);
  if (*bytes > storage->bytes && *bytes > most_expanded)
    fail("{}: {} repeats the {} bytes of its storage to {}; at most {} are read: save "
         "t.contiguous()",
         where, to_string(shape), storage->bytes, *bytes, most_expanded);

  Entry entry{std::move(name), dtype, shape, false, nullptr};
  entry.read = [dtype, shape = std::move(shape), view, span, storage = std::move(storage)] {
    const std::size_t element = size_of(dtype);
    const auto data = storage->read(view.offset * element, span * element);
    const bool swaps = storage->swapped && element > 1;
    const bool aligned = reinterpret_cast<std::uintptr_t>(data.get()) % element == 0;
    if (is_row_major(view) && aligned && !swaps) return Tensor(dtype, shape, data);
    Tensor copy = Tensor::uninitialised(dtype, shape);
    if (copy.count() > 0) gather(copy.raw_mutable(), data.get(), view, element);
    if (swaps) swap_bytes(copy.raw_mutable(), copy.count(), element);
    return copy;
  };
  return entry;
}

} // namespace mha::io
