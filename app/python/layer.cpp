// mha::Layer for Python. The public interface is in mha/layer.py.

#include "arrays.hpp"

#include <mha/layer/graph.hpp>
#include <mha/layer/names.hpp>
#include <mha/mha.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/naming/tensor_names.hpp>

#include <pybind11/stl.h>

#include <string>
#include <utility>
#include <vector>

namespace mha::python {

namespace {

/// The settings in effect, written as in a file.
py::dict settings_of(const Layer& layer) {
  py::dict settings;
  for (const SettingInfo& info : settings_table())
    settings[py::str(std::string(info.name))] = info.get(layer.settings);
  return settings;
}

py::dict dims_of(const Layer& layer) {
  const Dims& dims = layer.dims;
  py::dict sizes = sizes_of(dims);
  if (dims.batched) sizes["B"] = dims.B;
  sizes["T"] = dims.T, sizes["S"] = dims.S_all;
  return sizes;
}

std::vector<std::string> stages_of(const Layer& layer) {
  std::vector<std::string> names;
  for (const Stage stage : available_stages(layer)) names.emplace_back(name_of(stage));
  return names;
}

void stream_layer(const Layer& layer, const std::string& stage, const py::function& use,
                  std::size_t threads) {
  const Unlocked free;
  mha::stream(
      layer, stage,
      [&](Place place, Tensor rows) {
        const Call call;
        use(py::make_tuple(place.batch, place.head, place.token), array_of(rows));
      },
      threads);
}

/// (name, values or shape, text, aliases) of each row of a table.
using Rows = std::vector<std::tuple<std::string, std::string, std::string, std::string>>;

Rows table_of_settings() {
  Rows rows;
  for (const SettingInfo& info : settings_table())
    rows.emplace_back(info.name,
                      info.kind == SettingKind::boolean ? "true|false" : std::string(info.values),
                      info.text, info.aliases);
  return rows;
}

Rows table_of_tensors() {
  Rows rows;
  for (const TensorInfo& info : tensor_names())
    rows.emplace_back(info.name, shape_text(info), info.text, info.aliases);
  return rows;
}

} // namespace

void add_layer(py::module_& module) {
  class_of<Layer>(module, "Layer")
      .def("dims", &dims_of)
      .def("dtype", [](const Layer& layer) { return std::string(name_of(layer.dtype)); })
      .def("settings", &settings_of)
      .def("stages", &stages_of)
      .def("shape_of",
           [](const Layer& layer, const std::string& stage) {
             const Stage named = stage_named(stage);
             require_stage(layer, named);
             return layer.shape_of(named);
           })
      .def("with_",
           [](const Layer& layer, const std::string& name, const Array& value) {
             Tensor tensor = tensor_of(value);
             const Unlocked free;
             return layer.with(name, tensor);
           })
      .def("stream", &stream_layer);
  module.def("settings", &table_of_settings);
  module.def("tensors", &table_of_tensors);
}

} // namespace mha::python
