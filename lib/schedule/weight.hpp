#pragma once
// A weight as products read it: piece by piece where it is stored, packed whole for many products,
// or kept packed from one pass to the next.

#include <mha/kernels/packed.hpp>
#include <mha/tensor/tensor.hpp>

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <typeinfo>

namespace mha {

/// Some columns of a weight (in, out), where they are stored.
template <class T> struct StoredColumns {
  Matrix<const T> b;
  bool transposed = false; ///< b is (n, in), not (in, n)
};
/// Columns [first, first + n) of W. Where the file holds another type, they are converted into
/// `memory` by up to `threads` threads.
template <class T> StoredColumns<T> stored_columns(const Tensor& W, std::size_t first,
                                                   std::size_t n, Buffer<T>& memory,
                                                   std::size_t threads = 1);

/// A W that is stored transposed in bfloat16, by its bits; none of another.
std::optional<Matrix<const std::uint16_t>> bf16_columns(const Tensor& W);

/// Whether columns of W are rows of a mapped file.
bool reads_from_file(const Tensor& W);
/// Starts reading W, if columns_for_one_use will read it from its file.
void start_reading(const Tensor& W);
/// Columns [first, first + n) of W, for one use: read from its mapped file into `memory`, where it
/// is stored so; else where they are.
Tensor columns_for_one_use(const Tensor& W, std::size_t first, std::size_t n,
                           Buffer<std::byte>& memory);

/// A whole weight, converted and packed for products of `rows` rows in all.
template <class T> class PackedWeight {
public:
  PackedWeight(Routine routine, const Tensor& W, std::size_t rows, std::size_t threads);
  const PackedMatrix<T>& matrix() const { return matrix_; }

private:
  Tensor stored_; ///< keeps what the matrix looks into
  Buffer<T> converted_;
  PackedMatrix<T> matrix_;
};

/// The packed forms of a model's weights, shared by all its passes and their threads. A weight that
/// is read once stays where it is in the file; from the second reading on it is packed and kept, in
/// the order of use, until the budget is spent. The bits of products do not depend on it.
class KeptWeights {
public:
  /// `budget`: bytes that all kept forms may take together; none: half of what is free.
  explicit KeptWeights(std::optional<std::size_t> budget = {});
  /// The forms that `kept` has by now, to which nothing is added: for passes under edits, whose
  /// weights live for a pass or two. Null of null.
  static std::shared_ptr<KeptWeights> known_of(const std::shared_ptr<KeptWeights>& kept);

  /// The packed form, or null where the weight is to be read where it is stored. One thread packs,
  /// others wait for it.
  template <class T> std::shared_ptr<const PackedWeight<T>> packed(Routine routine, const Tensor& W,
                                                                   std::size_t threads);
  /// What the kept forms take, and may take.
  std::size_t bytes() const { return bytes_; }
  std::size_t budget() const { return budget_; }
  double packing_seconds() const { return seconds_; }

private:
  struct Form;
  /// The memory of the weight, which part of it, and for which products.
  using Key = std::tuple<const void*, bool, std::size_t, std::size_t, Routine, DType>;
  std::shared_ptr<Form> form_of(const Key& key);
  std::shared_ptr<const void> known(const Key& key);

  std::size_t budget_;
  std::atomic<std::size_t> bytes_ = 0;
  std::atomic<double> seconds_ = 0;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<Form>> forms_;
  std::shared_ptr<KeptWeights> of_; ///< whose forms are read; null: its own
};

} // namespace mha
