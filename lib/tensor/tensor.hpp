#pragma once
// Arrays of numbers in files and in memory: dtype, shape, bytes.

#include <mha/system/error.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace mha {

/// Element types, named as NumPy names them; f16 is IEEE half, bf16 is bfloat16.
enum class DType : std::uint8_t {
  f64,
  f32,
  f16,
  bf16,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean
};

/// Bytes of one element.
MHA_API std::size_t size_of(DType dtype);
/// "float32", "bfloat16", "bool" …
MHA_API std::string_view name_of(DType dtype);
/// From a name ("float32", "f32", "F32", "bf16", "bool", "int64" …); throws Error with the choices.
MHA_API DType dtype_named(std::string_view name);
/// True for f64, f32, f16 and bf16.
MHA_API bool is_floating(DType dtype);

using Shape = std::vector<std::size_t>;

/// "(4, 33, 16)"; "(7,)" for one axis, "()" for none.
MHA_API std::string to_string(const Shape& shape);
/// The number of elements; throws Error if it, or its bytes as f64, would overflow std::size_t.
MHA_API std::size_t count_of(const Shape& shape);

/// The dtype of the C++ types float and double, in which layers are computed.
template <class T> inline constexpr DType dtype_of = DType::f32;
template <> inline constexpr DType dtype_of<double> = DType::f64;

/// The dtype of a C++ number: float is float32, std::int64_t int64, bool bool …
template <class T> constexpr DType dtype_for() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::same_as<U, bool>) return DType::boolean;
  if constexpr (std::same_as<U, float>) return DType::f32;
  if constexpr (std::same_as<U, double>) return DType::f64;
  static_assert(std::integral<U> || std::same_as<U, float> || std::same_as<U, double>,
                "a tensor holds float, double, whole numbers or bool");
  constexpr bool is_signed = std::is_signed_v<U>;
  if constexpr (std::integral<U>) {
    if constexpr (sizeof(U) == 8) return is_signed ? DType::i64 : DType::u64;
    if constexpr (sizeof(U) == 4) return is_signed ? DType::i32 : DType::u32;
    if constexpr (sizeof(U) == 2) return is_signed ? DType::i16 : DType::u16;
    return is_signed ? DType::i8 : DType::u8;
  }
}
/// Whether elements of a dtype are read as T: float16 and bfloat16 as their bits (std::uint16_t),
/// bool as bool or std::uint8_t.
template <class T> constexpr bool is_type_of(DType dtype) {
  constexpr DType own = dtype_for<T>();
  return dtype == own || (own == DType::u8 && dtype == DType::boolean) ||
         (own == DType::u16 && (dtype == DType::f16 || dtype == DType::bf16));
}

struct StoredMatrix;

/// A dense row-major array. Copies share the memory, which may be owned or a mapped file. Only the
/// creator of a tensor writes into it, before others use it; results are read-only. Memory is
/// aligned for its dtype.
class MHA_API Tensor {
public:
  Tensor() = default;
  /// New memory, zeroed lazily by the system (a page that is never written costs nothing).
  Tensor(DType dtype, Shape shape);
  /// New memory with undefined contents, so every element must be written.
  static Tensor uninitialised(DType dtype, Shape shape);
  /// A read-only tensor over shared memory; `data` keeps it alive (an aliasing pointer into a
  /// mapping).
  Tensor(DType dtype, Shape shape, std::shared_ptr<const std::byte> data);
  /// A matrix of `cols` columns that is stored in another form. Its numbers are computed when they
  /// are first read, once for all copies. Products read the stored form itself (stored()).
  static Tensor of_stored(StoredMatrix stored, std::size_t cols, DType dtype);
  /// A tensor whose numbers are read when they are first asked for, once for all copies. `read`
  /// returns them in this type and shape.
  static Tensor read_later(DType dtype, Shape shape, std::function<Tensor()> read);
  /// A copy of numbers, for tests and small results.
  template <class T> static Tensor of(const Shape& shape, std::span<const T> values);

  ///@{
  /// Whether the tensor has no contents; its element type, shape, and numbers of axes, elements and
  /// bytes.
  bool empty() const { return !content().data && !content().later; }
  DType dtype() const { return content().dtype; }
  const Shape& shape() const& { return content().shape; }
  Shape shape() && { return content().shape; }
  std::size_t rank() const { return shape().size(); }
  std::size_t count() const { return content().count; }
  std::size_t bytes() const { return count() * size_of(dtype()); }

  ///@}
  /// The first element's bytes; the last axis is contiguous.
  const std::byte* raw() const { return share().get(); }
  ///@{
  /// The memory, which may outlive the tensor.
  const std::shared_ptr<const std::byte>& share() const& {
    return content().later ? made() : content().data;
  }
  std::shared_ptr<const std::byte> share() && { return std::as_const(*this).share(); }
  ///@}
  /// For the creator of the tensor only. Throws Error if it is read-only.
  std::byte* raw_mutable() {
    if (content().read_only) refuse_writing();
    return const_cast<std::byte*>(raw());
  }
  /// The stored form of a matrix that is stored in another form; else null.
  const StoredMatrix* stored() const;

  ///@{
  /// The elements as T. The span is valid while a tensor with this memory lives, so keep the tensor
  /// in a variable. Throws Error if T is not the C++ type of dtype() (float, double; std::uint8_t
  /// or bool for bool, std::uint16_t for the bits of half precision).
  template <class T> std::span<const T> as() const& {
    if (!is_type_of<T>(dtype())) refuse_type(dtype_for<T>());
    return {reinterpret_cast<const T*>(raw()), count()};
  }
  template <class T> std::span<const T> as() const&& = delete;
  ///@}
  /// The same for the creator of the tensor only. Also throws Error if it is read-only.
  template <class T> std::span<T> as_mutable() & {
    if (!is_type_of<T>(dtype())) refuse_type(dtype_for<T>());
    return {reinterpret_cast<T*>(raw_mutable()), count()};
  }
  /// The same tensor, but neither it nor its copies can be written.
  Tensor read_only() const;

  /// The same elements under another shape of equal count; throws Error otherwise.
  Tensor reshaped(Shape shape) const;
  /// Element `index` of the first axis, sharing memory: shape loses its first axis.
  Tensor at(std::size_t index) const;

private:
  friend MHA_API Tensor sparse_zeros(DType dtype, Shape shape);
  struct Later; ///< a stored matrix, or how it is read, and its numbers once they are there
  /// The state that copies of a tensor share, so that copying a tensor does not copy its shape.
  struct Content {
    DType dtype = DType::f32;
    Shape shape;
    std::shared_ptr<const std::byte> data;
    bool read_only = false;
    std::shared_ptr<const Later> later = nullptr;
    std::size_t count = count_of(shape);
  };
  static const Content nothing; ///< an empty tensor's
  explicit Tensor(Content content)
      : content_(std::make_shared<const Content>(std::move(content))) {}
  const Content& content() const { return content_ ? *content_ : nothing; }
  [[noreturn]] void refuse_type(DType asked) const;
  [[noreturn]] static void refuse_writing();
  const std::shared_ptr<const std::byte>& made() const;

  std::shared_ptr<const Content> content_;
};

/// The stored form of a matrix: columns [first, …) of `matrix`, or its rows if it is stored
/// transposed, in the floating type of `matrix`.
struct StoredMatrix {
  Tensor matrix;           ///< two axes
  bool transposed = false; ///< element (i, j) is matrix[first + j][i]; else matrix[i][first + j]
  std::size_t first = 0;   ///< the column (or row) of `matrix` that is column 0
};

/// The same numbers in another dtype (rounded to nearest even; ints to floats and back; bool from
/// "not zero"). Shares memory where nothing changes.
MHA_API Tensor convert(const Tensor& tensor, DType dtype);
/// The numbers rounded to the precision of `dtype`, in the tensor's own dtype.
MHA_API Tensor rounded_to(const Tensor& tensor, DType dtype);
/// The axes in another order, made contiguous: result axis i is axis `order[i]` of `tensor`.
MHA_API Tensor permuted(const Tensor& tensor, const std::vector<std::size_t>& order);
/// The last two axes exchanged, made contiguous.
MHA_API Tensor transposed(const Tensor& tensor);
///@{
/// The transpose; columns [first, first + count); another floating type. For matrices whose memory
/// does not change, such as weights in a mapped file: no numbers are copied before they are read.
MHA_API Tensor transposed_when_read(const Tensor& matrix);
MHA_API Tensor columns_when_read(const Tensor& matrix, std::size_t first, std::size_t count);
MHA_API Tensor converted_when_read(const Tensor& matrix, DType dtype);
///@}
/// One element as double (any dtype), by flat index.
MHA_API double value_at(const Tensor& tensor, std::size_t index);
/// All elements as double (any dtype), in row-major order.
MHA_API std::vector<double> values_in_double(const Tensor& tensor);

/// Half precision to float and back, rounding to nearest even; bfloat16 likewise.
MHA_API float from_half(std::uint16_t bits);
MHA_API std::uint16_t to_half(float value);
MHA_API float from_bfloat16(std::uint16_t bits);
MHA_API std::uint16_t to_bfloat16(float value);

/// Converts `count` elements between memory blocks of two dtypes; the blocks do not overlap.
MHA_API void convert(const std::byte* from, DType from_dtype, std::byte* to, DType to_dtype,
                     std::size_t count);

/// A window into an array of f32 or f64: strides in elements. Does not own.
struct ArrayView {
  ///@{
  /// Element type, first element, shape, strides in elements.
  DType dtype = DType::f32;
  const std::byte* data = nullptr;
  Shape shape;
  std::vector<std::ptrdiff_t> strides;
  ///@}
};

/// A tensor over the caller's memory, which must stay valid and unchanged until the last tensor
/// that shares it is destroyed. Strides are in elements, and may be negative or 0. An array in
/// row-major order and the transpose of such a matrix are used in place; any other order is copied.
/// `owner`, if given, is kept as long as the tensor. Throws Error if the numbers of lengths and
/// strides differ.
MHA_API Tensor borrowed(DType dtype, const std::byte* data, const Shape& shape,
                        const std::vector<std::ptrdiff_t>& strides,
                        const std::shared_ptr<const void>& owner = nullptr);

/// A view of a whole tensor.
MHA_API ArrayView view_of(const Tensor& tensor);
/// A contiguous copy of a view.
MHA_API Tensor copy_of(const ArrayView& view);

template <class T> Tensor Tensor::of(const Shape& shape, std::span<const T> values) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>);
  Tensor tensor(dtype_of<T>, shape);
  if (values.size() != tensor.count())
    fail("{} values for shape {}", values.size(), to_string(shape));
  std::copy(values.begin(), values.end(), tensor.as_mutable<T>().begin());
  return tensor;
}

} // namespace mha
