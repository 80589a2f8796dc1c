#pragma once
// The library with arrays of xtensor in and out (xtensor 0.24 or later). <mha/mha.hpp> is all of it
// but these, and compiles ten times as fast.

#include <mha/mha.hpp>

#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>

#include <functional>
#include <type_traits>

namespace mha {

/// Numbers that may be read, in memory that is shared: xt::sum, xt::view and so on take it as it
/// is.
template <class T> struct ValuesOf {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>,
                "stages are computed in float or double");
  ///@{
  /// Shared memory, and the expression over it.
  using Buffer =
      xt::xbuffer_adaptor<const T*, xt::smart_ownership, std::shared_ptr<const std::byte>>;
  using type = xt::xarray_adaptor<Buffer, xt::layout_type::row_major, Shape>;
  ///@}
};

/// A tensor's numbers as an expression of its shape, sharing its memory. Throws Error where they
/// are not T's. `name` goes into the message.
template <class T> Values<T> values(const Tensor& tensor, std::string_view name = "the tensor") {
  if (tensor.dtype() != dtype_for<T>())
    fail("{} is {}, not {}: get<{}>(\"{}\") gives it", name, name_of(tensor.dtype()),
         name_of(dtype_for<T>()), tensor.dtype() == DType::f64 ? "double" : "float", name);
  typename ValuesOf<T>::Buffer buffer(reinterpret_cast<const T*>(tensor.raw()), tensor.count(),
                                      tensor.share());
  return Values<T>(std::move(buffer), tensor.shape());
}

/// Arrays that own their numbers.
template <class E> inline constexpr bool owns_numbers = false;
template <class EC, xt::layout_type L, class SC, class Tag>
inline constexpr bool owns_numbers<xt::xarray_container<EC, L, SC, Tag>> = true;
template <class EC, std::size_t N, xt::layout_type L, class Tag>
inline constexpr bool owns_numbers<xt::xtensor_container<EC, N, L, Tag>> = true;

/// An array as a tensor: moved in without a copy where it is an xt::xarray or xt::xtensor in
/// row-major order that is given away (mha::tensor(std::move(x))), else copied; an expression is
/// computed.
template <class E>
requires xt::is_xexpression<std::decay_t<E>>::value Tensor tensor(E&& array) {
  using Array = std::decay_t<E>;
  using T = std::remove_cv_t<typename Array::value_type>;
  constexpr bool given_away = !std::is_lvalue_reference_v<E> && !std::is_const_v<E>;
  if constexpr (given_away && owns_numbers<Array> &&
                Array::static_layout == xt::layout_type::row_major) {
    const auto owner = std::make_shared<Array>(std::forward<E>(array));
    return {dtype_for<T>(),
            Shape(owner->shape().begin(), owner->shape().end()),
            {owner, reinterpret_cast<const std::byte*>(owner->storage().data())}};
  } else {
    return tensor(xt::xarray<T, xt::layout_type::row_major>(std::forward<E>(array)));
  }
}

template <class T> Values<T> Cache::get(std::string_view name) const {
  return values<T>(tensor(name), name);
}
template <class T> Values<T> Cache::get(Stage stage) const {
  return values<T>(tensor(stage), name_of(stage));
}
template <class T> Values<T> Run::get(std::string_view name) const {
  return values<T>(tensor(name), name);
}

template <class T, class Use>
void each(const Layer& layer, Stage stage, Use&& use, std::size_t threads) {
  if (layer.dtype != dtype_for<T>())
    fail("the layer is computed in {}: mha::each<{}> streams it", name_of(layer.dtype),
         layer.dtype == DType::f64 ? "double" : "float");
  stream(
      layer, stage, [&](Place place, Tensor rows) { std::invoke(use, place, values<T>(rows)); },
      threads);
}
template <class T, class Use>
void each(const Layer& layer, std::string_view stage, Use&& use, std::size_t threads) {
  each<T>(layer, stage_named(stage), std::forward<Use>(use), threads);
}

} // namespace mha
