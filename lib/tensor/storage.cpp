// Matrices that are stored in another form: transposed, as a part of a wider matrix, or in another
// floating type.

#include <mha/tensor/storage.hpp>

#include <mha/tensor/parts.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

namespace mha {

struct Tensor::Later {
  StoredMatrix stored;
  std::function<Tensor()> read; ///< instead of a stored matrix
  mutable std::once_flag once;
  mutable std::shared_ptr<const std::byte> data;
  mutable Tensor tensor; ///< what `read` returned

  const Tensor& from_file() const {
    std::call_once(once, [&] { tensor = read(); });
    return tensor;
  }
};

namespace {

/// Rows [first, first + rows) of a matrix.
Tensor rows_of(const Tensor& matrix, std::size_t first, std::size_t rows) {
  const std::size_t width = matrix.shape()[1] * size_of(matrix.dtype());
  return {
      matrix.dtype(), {rows, matrix.shape()[1]}, {matrix.share(), matrix.raw() + first * width}};
}

void require_matrix(const Tensor& tensor) {
  if (tensor.rank() != 2) fail("{} is not a matrix", to_string(tensor.shape()));
}

template <std::size_t Size> void swap_elements(std::byte* data, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) std::reverse(data + i * Size, data + (i + 1) * Size);
}

} // namespace

StoredMatrix stored_form(const Tensor& matrix) {
  return matrix.stored() ? *matrix.stored() : StoredMatrix{matrix};
}

Tensor Tensor::of_stored(StoredMatrix stored, std::size_t cols, DType dtype) {
  require_matrix(stored.matrix);
  const Shape& shape = stored.matrix.shape();
  const std::size_t rows = shape[stored.transposed ? 1 : 0];
  if (stored.first + cols > shape[stored.transposed ? 0 : 1])
    fail("columns {} to {} are not in {}", stored.first, stored.first + cols, to_string(shape));
  const auto later = std::make_shared<Later>();
  later->stored = std::move(stored);
  return Tensor(Content{dtype, {rows, cols}, nullptr, false, later});
}

Tensor Tensor::read_later(DType dtype, Shape shape, std::function<Tensor()> read) {
  const auto later = std::make_shared<Later>();
  later->read = std::move(read);
  return Tensor(Content{dtype, std::move(shape), nullptr, false, later});
}

const StoredMatrix* Tensor::stored() const {
  const Later* const later = content().later.get();
  if (later && later->read) return later->from_file().stored();
  return later ? &later->stored : nullptr;
}

const std::shared_ptr<const std::byte>& Tensor::made() const {
  const Later& later = *content().later;
  if (later.read) return later.from_file().share();
  std::call_once(later.once, [&] {
    const auto& [matrix, turned, first] = later.stored;
    const std::size_t cols = shape()[1];
    const Tensor part =
        turned ? transposed(rows_of(matrix, first, cols)) : part_of_axis(matrix, 1, first, cols);
    later.data = convert(part, dtype()).share();
  });
  return later.data;
}

Tensor transposed_when_read(const Tensor& matrix) {
  require_matrix(matrix);
  StoredMatrix stored = stored_form(matrix);
  const Shape& shape = stored.matrix.shape();
  const bool whole = stored.first == 0 && matrix.shape()[1] == shape[stored.transposed ? 0 : 1];
  if (!whole) return transposed(matrix);
  stored.transposed = !stored.transposed;
  return Tensor::of_stored(std::move(stored), matrix.shape()[0], matrix.dtype());
}

Tensor columns_when_read(const Tensor& matrix, std::size_t first, std::size_t count) {
  require_matrix(matrix);
  StoredMatrix stored = stored_form(matrix);
  stored.first += first;
  return Tensor::of_stored(std::move(stored), count, matrix.dtype());
}

Tensor converted_when_read(const Tensor& matrix, DType dtype) {
  if (matrix.dtype() == dtype) return matrix;
  const StoredMatrix stored = matrix.rank() == 2 ? stored_form(matrix) : StoredMatrix{};
  // Only the stored numbers can be converted later: others would have to be rounded twice.
  const bool as_stored = stored.matrix.dtype() == matrix.dtype() && matrix.rank() == 2;
  if (!as_stored || !is_floating(matrix.dtype()) || !is_floating(dtype))
    return convert(matrix, dtype);
  return Tensor::of_stored(stored, matrix.shape()[1], dtype);
}

void swap_bytes(std::byte* data, std::size_t count, std::size_t size) {
  if (size == 2) swap_elements<2>(data, count);
  if (size == 4) swap_elements<4>(data, count);
  if (size == 8) swap_elements<8>(data, count);
}

} // namespace mha
