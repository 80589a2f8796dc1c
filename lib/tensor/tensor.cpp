#include <mha/tensor/tensor.hpp>

#include <mha/system/characters.hpp>
#include <mha/system/memory.hpp>
#include <mha/tensor/storage.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <type_traits>

namespace mha {

namespace {

struct DTypeRow {
  DType dtype;
  std::size_t size;
  std::string_view name;                  ///< NumPy's name, which is printed
  std::array<std::string_view, 3> others; ///< accepted as well
};

constexpr std::array<DTypeRow, 13> dtypes{{
    {DType::f64, 8, "float64", {"f64", "double", "f8"}},
    {DType::f32, 4, "float32", {"f32", "float", "f4"}},
    {DType::f16, 2, "float16", {"f16", "half", "f2"}},
    {DType::bf16, 2, "bfloat16", {"bf16", "", ""}},
    {DType::i64, 8, "int64", {"i64", "", ""}},
    {DType::i32, 4, "int32", {"i32", "", ""}},
    {DType::i16, 2, "int16", {"i16", "", ""}},
    {DType::i8, 1, "int8", {"i8", "", ""}},
    {DType::u64, 8, "uint64", {"u64", "", ""}},
    {DType::u32, 4, "uint32", {"u32", "", ""}},
    {DType::u16, 2, "uint16", {"u16", "", ""}},
    {DType::u8, 1, "uint8", {"u8", "", ""}},
    {DType::boolean, 1, "bool", {"boolean", "", ""}},
}};
static_assert([] {
  for (std::size_t i = 0; i < dtypes.size(); ++i)
    if (static_cast<std::size_t>(dtypes[i].dtype) != i) return false;
  return true;
}());

const DTypeRow& row_of(DType dtype) {
  const auto number = static_cast<std::size_t>(dtype);
  if (number >= dtypes.size()) fail("DType({}) is not a dtype", number);
  return dtypes[number];
}

std::shared_ptr<const std::byte> new_memory(Fill fill, DType dtype, const Shape& shape) {
  const std::size_t bytes = count_of(shape) * size_of(dtype);
  std::shared_ptr<const std::byte> memory = take_memory(bytes, fill);
  if (!memory)
    fail("not enough memory for {} numbers of {}: {} bytes", to_string(shape), name_of(dtype),
         bytes);
  return memory;
}

} // namespace

std::size_t size_of(DType dtype) {
  return row_of(dtype).size;
}
std::string_view name_of(DType dtype) {
  return row_of(dtype).name;
}

DType dtype_named(std::string_view name) {
  const std::string lower = lowered(name);
  std::vector<std::string_view> names;
  for (const DTypeRow& row : dtypes) {
    if (lower == row.name || (!lower.empty() && std::ranges::count(row.others, lower) > 0))
      return row.dtype;
    names.push_back(row.name);
  }
  fail("unknown dtype '{}'{} (choices: {})", name, did_you_mean(lower, names),
       fmt::join(names, ", "));
}

bool is_floating(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

std::string to_string(const Shape& shape) {
  if (shape.size() == 1) return fmt::format("({},)", shape[0]);
  return fmt::format("({})", fmt::join(shape, ", "));
}

std::size_t count_of(const Shape& shape) {
  // Axes of length 0 are left out of the product, so that strides cannot overflow either.
  std::size_t product = sizeof(double);
  bool none = false;
  for (const std::size_t length : shape) {
    none = none || length == 0;
    if (length > 0 && __builtin_mul_overflow(product, length, &product))
      fail("shape {} has more elements than memory has addresses", to_string(shape));
  }
  return none ? 0 : product / sizeof(double);
}

const Tensor::Content Tensor::nothing{DType::f32, {}, nullptr, false, nullptr, 0};

Tensor::Tensor(DType dtype, Shape shape)
    : Tensor(Content{dtype, shape, new_memory(Fill::zeros, dtype, shape)}) {}

Tensor Tensor::uninitialised(DType dtype, Shape shape) {
  return Tensor(Content{dtype, shape, new_memory(Fill::anything, dtype, shape)});
}

Tensor sparse_zeros(DType dtype, Shape shape) {
  return Tensor(Tensor::Content{dtype, shape, new_memory(Fill::sparse_zeros, dtype, shape)});
}

Tensor::Tensor(DType dtype, Shape shape, std::shared_ptr<const std::byte> data)
    : Tensor(Content{dtype, std::move(shape), std::move(data), true}) {
  // The memory of an empty array may be a null pointer, as with std::vector; an address marks the
  // tensor as not empty().
  alignas(std::max_align_t) static constexpr std::byte no_elements{};
  if (count() == 0 && empty())
    *this = {dtype, this->shape(), {std::shared_ptr<const void>(), &no_elements}};
}

Tensor Tensor::reshaped(Shape shape) const {
  if (shape == this->shape()) return *this;
  if (count_of(shape) != count())
    fail("{} cannot be seen as {}: {} elements, not {}", to_string(this->shape()), to_string(shape),
         count(), count_of(shape));
  return Tensor(Content{dtype(), std::move(shape), share(), content().read_only});
}

Tensor Tensor::at(std::size_t index) const {
  if (rank() == 0 || index >= shape()[0])
    fail("index {} is outside of shape {}", index, to_string(shape()));
  const std::size_t step = count() / shape()[0] * size_of(dtype());
  return Tensor(Content{dtype(),
                        {shape().begin() + 1, shape().end()},
                        {share(), raw() + index * step},
                        content().read_only});
}

Tensor Tensor::read_only() const {
  if (content().read_only) return *this;
  Content same = content();
  same.read_only = true;
  return Tensor(std::move(same));
}

void Tensor::refuse_type(DType asked) const {
  fail("the tensor {} is {}, and is read as {}: read it as {}, or mha::convert it",
       to_string(shape()), name_of(dtype()), name_of(asked),
       dtype() == DType::f16 || dtype() == DType::bf16 ? "its bits (uint16)" : name_of(dtype()));
}

void Tensor::refuse_writing() {
  fail("the tensor is read-only: it shares the memory of a result; copy its numbers and write into "
       "the copy");
}

namespace {

/// Copies a strided array into a dense one. `shape` and `strides` (in elements) are those of the
/// source, in the axis order of the result. If an axis other than the last is contiguous in the
/// source, both are tiled, so that every fetched cache line is fully used.
template <class Word> void gather(const Word* from, const Shape& shape,
                                  const std::vector<std::ptrdiff_t>& strides, Word* to) {
  const std::size_t rank = shape.size();
  if (rank == 0) {
    *to = *from;
    return;
  }
  const std::size_t last = rank - 1;
  std::size_t inner = last; // the axis tiled against the last one
  if (rank > 1 && strides[last] != 1)
    for (std::size_t axis = 0; axis < last; ++axis)
      if (strides[axis] == 1 && shape[axis] > 1) inner = axis;

  std::vector<std::size_t> to_strides(rank, 1);
  for (std::size_t axis = last; axis > 0; --axis)
    to_strides[axis - 1] = to_strides[axis] * shape[axis];

  const std::size_t columns = shape[last];
  const std::size_t rows = inner == last ? 1 : shape[inner];
  const std::ptrdiff_t column_step = strides[last];
  const std::size_t row_step = inner == last ? 0 : to_strides[inner];
  const auto copy_plane = [&](const Word* source, Word* target) {
    if (inner == last) {
      if (column_step == 1)
        std::memcpy(target, source, columns * sizeof(Word));
      else
        for (std::size_t j = 0; j < columns; ++j)
          target[j] = source[static_cast<std::ptrdiff_t>(j) * column_step];
      return;
    }
    constexpr std::size_t tile = 128 / sizeof(Word);
    for (std::size_t j0 = 0; j0 < columns; j0 += tile)
      for (std::size_t i0 = 0; i0 < rows; i0 += tile) {
        const std::size_t j1 = std::min(j0 + tile, columns), i1 = std::min(i0 + tile, rows);
        for (std::size_t i = i0; i < i1; ++i)
          for (std::size_t j = j0; j < j1; ++j)
            target[i * row_step + j] = source[static_cast<std::ptrdiff_t>(j) * column_step +
                                              static_cast<std::ptrdiff_t>(i)];
      }
  };

  // The other axes count like an odometer.
  std::vector<std::size_t> index(rank, 0);
  while (true) {
    std::ptrdiff_t source = 0;
    std::size_t target = 0;
    for (std::size_t axis = 0; axis < last; ++axis) {
      source += static_cast<std::ptrdiff_t>(index[axis]) * strides[axis];
      target += index[axis] * to_strides[axis];
    }
    copy_plane(from + source, to + target);
    std::size_t axis = last;
    while (axis-- > 0) {
      if (axis == inner) continue;
      if (++index[axis] < shape[axis]) break;
      index[axis] = 0;
    }
    if (axis == std::numeric_limits<std::size_t>::max()) return;
  }
}

void gather_bytes(const std::byte* from, std::size_t size, const Shape& shape,
                  const std::vector<std::ptrdiff_t>& strides, std::byte* to) {
  const auto as = [&]<class Word>(Word) {
    gather(reinterpret_cast<const Word*>(from), shape, strides, reinterpret_cast<Word*>(to));
  };
  switch (size) {
  case 1:
    return as(std::uint8_t{});
  case 2:
    return as(std::uint16_t{});
  case 4:
    return as(std::uint32_t{});
  default:
    return as(std::uint64_t{});
  }
}

std::vector<std::ptrdiff_t> dense_strides(const Shape& shape) {
  std::vector<std::ptrdiff_t> strides(shape.size(), 1);
  for (std::size_t axis = shape.size(); axis-- > 1;)
    strides[axis - 1] = strides[axis] * static_cast<std::ptrdiff_t>(shape[axis]);
  return strides;
}

} // namespace

Tensor permuted(const Tensor& tensor, const std::vector<std::size_t>& order) {
  const std::size_t rank = tensor.rank();
  std::vector<bool> seen(rank, false);
  bool valid = order.size() == rank, same = true;
  for (std::size_t i = 0; valid && i < rank; ++i) {
    valid = order[i] < rank && !seen[order[i]];
    if (valid) seen[order[i]] = true;
    same = same && order[i] == i;
  }
  if (!valid)
    fail("({}) is not an order of the {} axes of {}", fmt::join(order, ", "), rank,
         to_string(tensor.shape()));
  if (same) return tensor;

  const std::vector<std::ptrdiff_t> from = dense_strides(tensor.shape());
  Shape shape(rank);
  std::vector<std::ptrdiff_t> strides(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    shape[i] = tensor.shape()[order[i]];
    strides[i] = from[order[i]];
  }
  Tensor result = Tensor::uninitialised(tensor.dtype(), shape);
  if (result.count() > 0)
    gather_bytes(tensor.raw(), size_of(tensor.dtype()), shape, strides, result.raw_mutable());
  return result;
}

Tensor transposed(const Tensor& tensor) {
  const std::size_t rank = tensor.rank();
  if (rank < 2) fail("{} has no two axes to exchange", to_string(tensor.shape()));
  std::vector<std::size_t> order(rank);
  for (std::size_t i = 0; i < rank; ++i) order[i] = i;
  std::swap(order[rank - 1], order[rank - 2]);
  return permuted(tensor, order);
}

Tensor borrowed(DType dtype, const std::byte* data, const Shape& shape,
                const std::vector<std::ptrdiff_t>& strides,
                const std::shared_ptr<const void>& owner) {
  if (strides.size() != shape.size())
    fail("borrowed: {} strides for the shape {}: one per axis expected", strides.size(),
         to_string(shape));
  if (count_of(shape) == 0) return {dtype, shape};
  if (!data)
    fail("borrowed: a null pointer for the shape {}: its numbers expected", to_string(shape));
  const std::shared_ptr<const std::byte> memory(owner, data);
  const auto is_dense = [](const Shape& lengths, const std::vector<std::ptrdiff_t>& steps) {
    const std::vector<std::ptrdiff_t> dense = dense_strides(lengths);
    for (std::size_t axis = 0; axis < lengths.size(); ++axis)
      if (lengths[axis] > 1 && steps[axis] != dense[axis]) return false;
    return true;
  };
  if (is_dense(shape, strides)) return Tensor(dtype, shape, memory).read_only();
  if (shape.size() == 2 && is_dense({shape[1], shape[0]}, {strides[1], strides[0]}))
    return transposed_when_read({dtype, {shape[1], shape[0]}, memory});
  return copy_of(ArrayView{dtype, data, shape, strides});
}

ArrayView view_of(const Tensor& tensor) {
  if (tensor.dtype() != DType::f32 && tensor.dtype() != DType::f64)
    fail("a view is of float32 or float64, not of {}", name_of(tensor.dtype()));
  if (tensor.empty()) fail("the tensor is empty: it has neither numbers nor a shape");
  return {tensor.dtype(), tensor.raw(), tensor.shape(), dense_strides(tensor.shape())};
}

Tensor copy_of(const ArrayView& view) {
  Tensor result = Tensor::uninitialised(view.dtype, view.shape);
  if (result.count() > 0)
    gather_bytes(view.data, size_of(view.dtype), view.shape, view.strides, result.raw_mutable());
  return result;
}

} // namespace mha
