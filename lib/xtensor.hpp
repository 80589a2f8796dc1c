#pragma once
// The library with xtensor arrays as inputs and results (xtensor 0.24 or later). <mha/mha.hpp> is
// the library without xtensor, and compiles ten times as fast.

#include <mha/mha.hpp>

#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <type_traits>

namespace mha {

/// A read-only expression over shared memory, for use in xt::sum, xt::view and so on. The type has
/// the number of axes, N, so that loops over axes are compiled for it.
template <class T, std::size_t N> struct ValuesOf {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>,
                "stages are computed in float or double");
  ///@{
  /// Shared memory, and the expression over it.
  using Buffer =
      xt::xbuffer_adaptor<const T*, xt::smart_ownership, std::shared_ptr<const std::byte>>;
  using type = xt::xtensor_adaptor<Buffer, N, xt::layout_type::row_major>;
  ///@}
};
/// The same for a number of axes that is known only at run time.
template <class T> struct ValuesOf<T, any_rank> {
  ///@{
  /// Shared memory, and the expression over it.
  using Buffer = typename ValuesOf<T, 1>::Buffer;
  using type = xt::xarray_adaptor<Buffer, xt::layout_type::row_major, Shape>;
  ///@}
};

/// An expression that has a tensor's shape and shares its memory. Throws Error, with `name` in the
/// message, if the tensor's type is not T or it does not have N axes.
template <class T, std::size_t N = any_rank>
Values<T, N> values(const Tensor& tensor, std::string_view name = "the tensor") {
  if (tensor.empty()) fail("{} is empty: it has neither numbers nor a shape", name);
  if (tensor.dtype() != dtype_for<T>())
    fail("{} is {}, not {}: use get<<{}>(\"{}\")", name, name_of(tensor.dtype()),
         name_of(dtype_for<T>()), tensor.dtype() == DType::f64 ? "double" : "float", name);
  typename ValuesOf<T, N>::Buffer buffer(reinterpret_cast<const T*>(tensor.raw()), tensor.count(),
                                         tensor.share());
  if constexpr (N == any_rank) {
    return Values<T, N>(std::move(buffer), tensor.shape());
  } else {
    if (tensor.rank() != N)
      fail("{} is {}: {}, not {}", name, to_string(tensor.shape()), counted(tensor.rank(), "axes"),
           N);
    std::array<std::size_t, N> shape;
    std::copy_n(tensor.shape().begin(), N, shape.begin());
    return Values<T, N>(std::move(buffer), shape);
  }
}

/// Whether an array type owns its numbers.
template <class E> inline constexpr bool owns_numbers = false;
template <class EC, xt::layout_type L, class SC, class Tag>
inline constexpr bool owns_numbers<xt::xarray_container<EC, L, SC, Tag>> = true;
template <class EC, std::size_t N, xt::layout_type L, class Tag>
inline constexpr bool owns_numbers<xt::xtensor_container<EC, N, L, Tag>> = true;

/// Makes a tensor of an array. A row-major xt::xarray or xt::xtensor that is moved in,
/// mha::tensor(std::move(x)), is not copied. Other arrays are copied, and expressions are
/// evaluated.
template <class E>
requires xt::is_xexpression<std::decay_t<E>>::value Tensor tensor(E&& array) {
  using Array = std::decay_t<E>;
  using T = std::remove_cv_t<typename Array::value_type>;
  constexpr bool is_moved_in = !std::is_lvalue_reference_v<E> && !std::is_const_v<E>;
  if constexpr (is_moved_in && owns_numbers<Array> &&
                Array::static_layout == xt::layout_type::row_major) {
    const auto owner = std::make_shared<Array>(std::forward<E>(array));
    return {dtype_for<T>(),
            Shape(owner->shape().begin(), owner->shape().end()),
            {owner, reinterpret_cast<const std::byte*>(owner->storage().data())}};
  } else {
    return tensor(xt::xarray<T, xt::layout_type::row_major>(std::forward<E>(array)));
  }
}

/// A tensor that uses an array's memory without owning it. The array must stay alive and unchanged
/// as long as the tensor and everything made from it. For a view of some rows or columns, see
/// mha::borrowed with strides. To give the array to the tensor, use mha::tensor(std::move(x)).
template <class E>
requires xt::has_data_interface<E>::value Tensor borrowed(const E& array) {
  using T = std::remove_cv_t<typename E::value_type>;
  return borrowed(dtype_for<T>(),
                  reinterpret_cast<const std::byte*>(array.data() + array.data_offset()),
                  Shape(array.shape().begin(), array.shape().end()),
                  std::vector<std::ptrdiff_t>(array.strides().begin(), array.strides().end()));
}
template <class E>
requires(!std::is_lvalue_reference_v<E>) Tensor borrowed(E&& array)
= delete;

template <class T, std::size_t N> Values<T, N> Cache::get(std::string_view name) const {
  return values<T, N>(tensor(name), name);
}
template <class T, std::size_t N> Values<T, N> Cache::get(Stage stage) const {
  return values<T, N>(tensor(stage), name_of(stage));
}
template <class T, std::size_t N> Values<T, N> Run::get(std::string_view name) const {
  return values<T, N>(tensor(name), name);
}

/// Implements both overloads of each(), for a stage given as Stage or by name.
template <class T, class Named, class Use>
void each_matrix(const Layer& layer, Named stage, Use& use, std::size_t threads) {
  if (layer.dtype != dtype_for<T>())
    fail("the layer is computed in {}: use mha::each<<{}>", name_of(layer.dtype),
         layer.dtype == DType::f64 ? "double" : "float");
  const auto as_matrix = [&](const Place& place, const Tensor& rows) {
    std::invoke(use, place, values<T, 2>(rows.reshaped({place.count, rows.count() / place.count})));
  };
  stream(layer, stage, as_matrix, threads);
}
template <class T, class Use>
void each(const Layer& layer, Stage stage, Use&& use, std::size_t threads) {
  each_matrix<T>(layer, stage, use, threads);
}
template <class T, class Use>
void each(const Layer& layer, std::string_view stage, Use&& use, std::size_t threads) {
  each_matrix<T>(layer, stage, use, threads);
}

} // namespace mha
