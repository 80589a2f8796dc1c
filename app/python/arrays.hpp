#pragma once
// Converts NumPy arrays to tensors and back without a copy.

#include "unlocked.hpp"

#include <mha/layer/dims.hpp>
#include <mha/system/note.hpp>
#include <mha/tensor/tensor.hpp>

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace mha::python {

/// An array as Python passes it: aligned, in native byte order, with strides of whole elements, and
/// with the name of its element type (bfloat16 is passed as uint16) or "weak" for float64 numbers
/// written without a type.
using Array = std::pair<py::array, std::string>;

/// A tensor over the array's memory that keeps the array alive. Copied only if mha::borrowed must.
inline Tensor tensor_of(const Array& given) {
  const auto& [array, dtype] = given;
  const Shape shape(array.shape(), array.shape() + array.ndim());
  std::vector<std::ptrdiff_t> strides(array.strides(), array.strides() + array.ndim());
  for (std::ptrdiff_t& stride : strides) stride /= array.itemsize();
  py::object keeps = array;
  // The last owner may be a thread without the interpreter's lock.
  const std::shared_ptr<PyObject> owner(keeps.release().ptr(), [](PyObject* kept) {
    const py::gil_scoped_acquire lock;
    Py_DECREF(kept);
  });
  return borrowed(dtype == "weak" ? DType::f64 : dtype_named(dtype),
                  static_cast<const std::byte*>(array.data()), shape, strides, owner);
}

/// A read-only array over the tensor's memory that keeps the tensor alive.
inline py::array array_of(const Tensor& tensor) {
  const bool wide = tensor.dtype() == DType::f64;
  const py::dtype dtype = wide ? py::dtype::of<double>() : py::dtype::of<float>();
  const py::capsule keeps(new Tensor(tensor),
                          [](void* kept) { delete static_cast<Tensor*>(kept); });
  py::array array(dtype, std::vector<py::ssize_t>(tensor.shape().begin(), tensor.shape().end()),
                  tensor.raw(), keeps);
  array.attr("setflags")(py::arg("write") = false);
  return array;
}

/// The precision to compute in, if given.
inline std::optional<DType> precision_named(const std::string& dtype) {
  if (dtype.empty()) return std::nullopt;
  try {
    return dtype_named(dtype);
  } catch (const Error&) {
    fail("dtype is {}: float32 or float64 expected", dtype);
  }
}

/// Rewords a message of the library for Python: a tensor with a key becomes a keyword argument, or
/// a dictionary's item in brackets.
inline std::string in_python(std::string text) {
  constexpr std::string_view of_dict = "=dict:";
  for (std::size_t at = 0; (at = text.find(of_dict, at)) != std::string::npos;) {
    const std::size_t name = at + of_dict.size();
    const std::string tensor = text.substr(name, text.find_first_of(" ,;)", name) - name);
    const std::string item = "=dict[\"" + tensor + "\"]";
    text.replace(at, of_dict.size() + tensor.size(), item);
    at += item.size();
  }
  constexpr std::string_view end = "\", tensor}";
  for (std::size_t at = 0; (at = text.find(end, at)) != std::string::npos;) {
    const std::size_t begin = text.rfind("{\"", at);
    if (begin == std::string::npos) break;
    const std::string argument = text.substr(begin + 2, at - begin - 2) + "=array";
    text.replace(begin, at + end.size() - begin, argument);
    at = begin + argument.size();
  }
  return text;
}

/// For each note, whether it is a warning, and its text.
using Notes = std::vector<std::pair<bool, std::string>>;
inline Notes notes_of(const std::vector<Note>& notes) {
  Notes list;
  for (const Note& note : notes) list.emplace_back(note.is_warning(), in_python(note.text));
  return list;
}

/// A class whose objects only this module's functions make. An object that Python allocates itself,
/// by T.__new__(T) or in a copy, would have no usable contents.
template <class T> py::class_<T> class_of(py::module_& module, const char* name) {
  py::class_<T> made(module, name);
  auto* const type = reinterpret_cast<PyTypeObject*>(made.ptr());
  type->tp_new = [](PyTypeObject* asked, PyObject*, PyObject*) -> PyObject* {
    PyErr_Format(PyExc_TypeError, "%s has no constructor: functions of mha make its objects",
                 asked->tp_name);
    return nullptr;
  };
  PyType_Modified(type);
  return made;
}

/// The sizes of a layer that do not depend on the input, by their letters.
py::dict sizes_of(const Dims& dims);

/// mha::Model and what belongs to it.
void add_model(py::module_& module);
/// mha::Layer, and the tables of settings and tensors.
void add_layer(py::module_& module);
/// mha::diagnose.
void add_diagnose(py::module_& module);

} // namespace mha::python
