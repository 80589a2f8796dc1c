#include <mha/schedule/weight.hpp>

#include <mha/system/clock.hpp>
#include <mha/system/file.hpp>
#include <mha/system/limits.hpp>
#include <mha/system/parallel.hpp>
#include <mha/tensor/storage.hpp>

namespace mha {

namespace {

/// Rows of products that repay a packing for every later pass.
constexpr std::size_t many_rows = std::size_t(1) << 20;

} // namespace

template <class T> StoredColumns<T> stored_columns(const Tensor& W, std::size_t first,
                                                   std::size_t n, Buffer<T>& memory,
                                                   std::size_t threads) {
  const auto [matrix, transposed, offset] = stored_form(W);
  const std::size_t width = matrix.shape()[1], element = size_of(matrix.dtype());
  const std::size_t column = offset + first;
  const std::size_t begin = transposed ? column * width : column; // the first number
  const std::size_t rows = transposed ? n : matrix.shape()[0], cols = transposed ? width : n;
  if (matrix.dtype() == dtype_of<T>)
    return {{matrix.as<T>().data() + begin, rows, cols, width}, transposed};
  // A line of the cache more: rows a power of two apart would share its sets.
  const std::size_t stride = cols + 64 / sizeof(T);
  T* const to = memory.room_for(rows * stride);
  const std::byte* const from = matrix.raw();
  const DType dtype = matrix.dtype();
  parallel_for(rows, threads, [&, width = width](std::size_t i) {
    convert(from + (begin + i * width) * element, dtype,
            reinterpret_cast<std::byte*>(to + i * stride), dtype_of<T>, cols);
  });
  return {{to, rows, cols, stride}, transposed};
}

std::optional<Matrix<const std::uint16_t>> bf16_columns(const Tensor& W) {
  const auto [matrix, transposed, offset] = stored_form(W);
  if (matrix.dtype() != DType::bf16 || !transposed) return std::nullopt;
  const std::size_t width = matrix.shape()[1];
  const auto* bits = reinterpret_cast<const std::uint16_t*>(matrix.raw());
  return Matrix<const std::uint16_t>{bits + offset * width, W.shape()[1], width, width};
}

bool reads_from_file(const Tensor& W) {
  const StoredMatrix stored = stored_form(W);
  return stored.transposed && is_mapped(stored.matrix.raw());
}

void start_reading(const Tensor& W) {
  if (!reads_from_file(W)) return;
  const auto [matrix, transposed, offset] = stored_form(W);
  const std::size_t row = matrix.shape()[1] * size_of(matrix.dtype());
  will_read_mapped(matrix.raw() + offset * row, W.shape()[1] * row);
}

Tensor columns_for_one_use(const Tensor& W, std::size_t first, std::size_t n,
                           Buffer<std::byte>& memory) {
  if (!reads_from_file(W)) return columns_when_read(W, first, n);
  const auto [matrix, transposed, offset] = stored_form(W);
  const std::size_t row = matrix.shape()[1] * size_of(matrix.dtype());
  std::byte* const to = memory.room_for(n * row);
  read_mapped(matrix.raw() + (offset + first) * row, n * row, to);
  const std::shared_ptr<const std::byte> lent(std::shared_ptr<void>(), to);
  return transposed_when_read(Tensor(matrix.dtype(), {n, matrix.shape()[1]}, lent));
}

template <class T> PackedWeight<T>::PackedWeight(Routine routine, const Tensor& W, std::size_t rows,
                                                 std::size_t threads)
    : stored_(W) {
  const auto [b, transposed] = stored_columns<T>(W, 0, W.shape()[1], converted_, threads);
  matrix_ = PackedMatrix<T>(routine, b, transposed, rows, threads);
  if (matrix_.is_packed()) converted_ = {};
}

struct KeptWeights::Form {
  std::atomic<bool> read = false; ///< once: the next reading packs
  std::mutex mutex;
  std::shared_ptr<const void> packed; ///< PackedWeight<T> of the key's type
  bool too_large = false;
};

KeptWeights::KeptWeights(std::optional<std::size_t> budget)
    : budget_(budget ? *budget : free_memory() / 2) {} // the system is asked for no view

std::shared_ptr<KeptWeights> KeptWeights::known_of(const std::shared_ptr<KeptWeights>& kept) {
  if (!kept || kept->of_) return kept;
  const auto view = std::make_shared<KeptWeights>(std::size_t{0});
  view->of_ = kept;
  return view;
}

/// A packed form's memory is kept with it: no other weight has its address.
std::shared_ptr<const void> KeptWeights::known(const Key& key) {
  const std::shared_ptr<Form> form = [&]() -> std::shared_ptr<Form> {
    const std::lock_guard lock(mutex_);
    const auto at = forms_.find(key);
    return at == forms_.end() ? nullptr : at->second;
  }();
  if (!form) return nullptr;
  const std::lock_guard lock(form->mutex);
  return form->packed;
}

std::shared_ptr<KeptWeights::Form> KeptWeights::form_of(const Key& key) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Form>& form = forms_[key];
  if (!form) form = std::make_shared<Form>();
  return form;
}

template <class T> std::shared_ptr<const PackedWeight<T>>
KeptWeights::packed(Routine routine, const Tensor& W, std::size_t threads) {
  const StoredMatrix stored = stored_form(W);
  const Key key{stored.matrix.raw(), stored.transposed, stored.first,
                W.shape()[1],        routine,           dtype_of<T>};
  if (of_) return std::static_pointer_cast<const PackedWeight<T>>(of_->known(key));
  const std::shared_ptr<Form> form = form_of(key);
  if (!form->read.exchange(true)) return nullptr;
  const std::lock_guard lock(form->mutex);
  if (!form->packed && !form->too_large) {
    const std::size_t bytes = W.count() * sizeof(T) * (routine == Routine::bf16x3 ? 5 : 2) / 2;
    if (bytes_.fetch_add(bytes) + bytes > budget_) {
      bytes_ -= bytes;
      form->too_large = true;
    } else {
      try {
        seconds_ += seconds_of([&] {
          form->packed = std::make_shared<const PackedWeight<T>>(routine, W, many_rows, threads);
        });
      } catch (...) {
        bytes_ -= bytes;
        throw;
      }
    }
  }
  return std::static_pointer_cast<const PackedWeight<T>>(form->packed);
}

template StoredColumns<float> stored_columns(const Tensor&, std::size_t, std::size_t,
                                             Buffer<float>&, std::size_t);
template StoredColumns<double> stored_columns(const Tensor&, std::size_t, std::size_t,
                                              Buffer<double>&, std::size_t);
template class PackedWeight<float>;
template class PackedWeight<double>;
template std::shared_ptr<const PackedWeight<float>> KeptWeights::packed(Routine, const Tensor&,
                                                                        std::size_t);
template std::shared_ptr<const PackedWeight<double>> KeptWeights::packed(Routine, const Tensor&,
                                                                         std::size_t);

} // namespace mha
