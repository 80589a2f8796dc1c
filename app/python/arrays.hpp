#pragma once
// NumPy's arrays as tensors and back, without a copy.

#include <mha/tensor/tensor.hpp>

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <string>
#include <utility>

namespace py = pybind11;

namespace mha::python {

/// An array as Python hands it on: C-contiguous, aligned, of the machine's byte order, with the
/// name of its element type (bfloat16 arrives as uint16), or "weak": float64 numbers that were
/// written without a type.
using Array = std::pair<py::array, std::string>;

/// The array's memory as a tensor, which keeps the array.
inline Tensor tensor_of(const Array& given) {
  const auto& [array, dtype] = given;
  const Shape shape(array.shape(), array.shape() + array.ndim());
  py::object keeps = array;
  const auto* data = static_cast<const std::byte*>(array.data());
  // The last owner may be a thread without the interpreter's lock.
  const auto let_go = [kept = keeps.release().ptr()](const std::byte*) {
    const py::gil_scoped_acquire lock;
    Py_DECREF(kept);
  };
  return {dtype == "weak" ? DType::f64 : dtype_named(dtype), shape,
          std::shared_ptr<const std::byte>(data, let_go)};
}

/// The tensor's memory as an array that is only read, which keeps the tensor.
inline py::array array_of(const Tensor& tensor) {
  const bool wide = tensor.dtype() == DType::f64;
  const py::dtype dtype = wide ? py::dtype::of<double>() : py::dtype::of<float>();
  const py::capsule keeps(new Tensor(tensor), [](void* kept) { delete static_cast<Tensor*>(kept); });
  py::array array(dtype, std::vector<py::ssize_t>(tensor.shape().begin(), tensor.shape().end()),
                  tensor.raw(), keeps);
  array.attr("setflags")(py::arg("write") = false);
  return array;
}

/// mha::Model and what belongs to it.
void add_model(py::module_& module);

} // namespace mha::python
