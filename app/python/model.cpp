// mha::Model, Tokens, Run and Patch for Python. The public interface is in mha/model.py.

#include "arrays.hpp"

#include <mha/mha.hpp>

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mha::python {

namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

/// The options of one computation, during which the caller keeps `progress` alive.
RunOptions options_of(std::vector<std::string> keep, std::vector<Patch> patches, bool streams,
                      std::size_t threads, const py::object& progress) {
  RunOptions options;
  options.keep = std::move(keep), options.patches = std::move(patches);
  options.streams = streams, options.threads = threads;
  options.progress = progress_of(progress);
  return options;
}

Model open(std::string folder, const std::string& dtype, std::optional<std::size_t> memory,
           std::string naming, Settings settings) {
  ModelOptions options;
  options.settings = std::move(settings), options.memory = memory;
  options.naming = std::move(naming);
  options.dtype = precision_named(dtype);
  const Unlocked lock_released;
  return Model(std::move(folder), std::move(options));
}

Patch patch_of_rows(const std::string& place, py::function function) {
  // The last copy of the patch may be destroyed on a thread without the interpreter's lock.
  const auto shared =
      std::shared_ptr<py::function>(new py::function(std::move(function)), [](py::function* owned) {
        const py::gil_scoped_acquire lock;
        delete owned;
      });
  return Patch::rows(place, [shared](Place at, Tensor row) {
    const Call lock_held;
    const py::tuple where = py::make_tuple(at.batch, at.head, at.token);
    return tensor_of((*shared)(where, array_of(row.at(0))).cast<Array>());
  });
}

void stream_model(const Model& model, const Tokens& tokens, const std::vector<std::string>& stages,
                  const py::function& callback, std::vector<Patch> patches, std::size_t threads,
                  const py::object& progress) {
  const RunOptions options = options_of({}, std::move(patches), true, threads, progress);
  const Unlocked lock_released;
  model.stream(
      tokens, stages,
      [&](const At& at, Place place, Tensor rows) {
        const Call lock_held;
        const std::string& layer = at.layer.id();
        const std::string name =
            (layer.empty() ? "" : "layers." + layer + ".") + std::string(name_of(at.stage));
        callback(name, py::make_tuple(place.batch, place.head, place.token), array_of(rows));
      },
      options);
}

using unlocked = py::call_guard<Unlocked>;

void add_patch(py::module_& module) {
  class_of<Patch>(module, "Patch")
      .def_static("written", [](std::string text) { return Patch(std::move(text)); })
      .def_static("from_array", [](const std::string& place,
                                   const Array& value) { return Patch(place, tensor_of(value)); })
      .def_static("from_run",
                  [](const std::string& place, const Run& run) { return Patch::from(place, run); })
      .def_static("rows", &patch_of_rows);
}

void add_tokens(py::module_& module) {
  class_of<Tokens>(module, "Tokens")
      .def("count", &Tokens::count)
      .def("batched", &Tokens::batched)
      .def("ids", [](const Tokens& tokens, std::size_t text) { return tokens.ids(text); })
      .def("pieces", &Tokens::pieces, unlocked())
      .def("notes", [](const Tokens& tokens) { return notes_of(tokens.notes()); });
}

void add_run(py::module_& module) {
  class_of<Run>(module, "Run")
      .def("tokens", &Run::tokens)
      .def("kept", &Run::kept)
      .def("has", [](const Run& run, const std::string& name) { return run.has(name); })
      .def("tensor",
           [](const Run& run, const std::string& name) { return array_of(run.tensor(name)); })
      .def("resid", [](const Run& run, std::int64_t layer) { return array_of(run.resid(layer)); })
      .def("logits",
           [](const Run& run) { return array_of(without_lock([&] { return run.logits(); })); })
      .def("losses", &Run::losses, unlocked())
      .def("loss", &Run::loss, unlocked())
      .def("predictions",
           [](const Run& run, std::int64_t position, std::size_t top, std::size_t text) {
             const std::vector<Predicted> predictions =
                 without_lock([&] { return run.predictions(position, top, text); });
             py::list list;
             for (const Predicted& token : predictions)
               list.append(py::make_tuple(token.id, token.piece, token.logit, token.probability));
             return list;
           })
      .def("heads",
           [](const Run& run, const std::string& measure, std::size_t threads,
              const py::object& progress) {
             const RunOptions options = options_of({}, {}, true, threads, progress);
             return array_of(without_lock([&] { return run.heads(measure, options); }));
           })
      .def("effects",
           [](const Run& run, const std::string& column,
              const std::optional<std::vector<std::int64_t>>& positions, std::size_t threads,
              const py::object& progress) {
             const RunOptions options = options_of({}, {}, true, threads, progress);
             const Indexes indexes = positions ? Indexes(*positions) : Indexes();
             return array_of(without_lock([&] { return run.effects(column, indexes, options); }));
           })
      .def("with_",
           [](const Run& run, std::vector<Patch> patches, std::vector<std::string> keep,
              bool streams, std::size_t threads, const py::object& progress) {
             const RunOptions options = options_of(std::move(keep), {}, streams, threads, progress);
             return without_lock([&] { return run.with(std::move(patches), options); });
           })
      .def("notes", [](const Run& run) { return notes_of(run.notes()); });
}

} // namespace

py::dict sizes_of(const Dims& dims) {
  py::dict sizes;
  for (const auto& [name, size] : {std::pair("H", dims.H),
                                   {"H_kv", dims.H_kv},
                                   {"d_model", dims.d_model},
                                   {"d_k", dims.d_k},
                                   {"d_v", dims.d_v},
                                   {"d_ff", dims.d_ff},
                                   {"vocabulary", dims.vocabulary}})
    sizes[name] = size;
  return sizes;
}

void add_model(py::module_& module) {
  add_patch(module);
  add_tokens(module);
  add_run(module);
  class_of<Model>(module, "Model")
      .def_static("open", &open)
      .def("folder", &Model::folder)
      .def("layers", &Model::layers)
      .def("dims",
           [](const Model& model, const std::string& layer) {
             return sizes_of(without_lock([&] { return model.dims(layer); }));
           })
      .def("dtype", [](const Model& model) { return std::string(name_of(model.dtype())); })
      .def("notes", [](const Model& model) { return notes_of(model.notes()); })
      .def(
          "tokens", [](const Model& model, std::string_view text) { return model.tokens(text); },
          unlocked())
      .def("tokens",
           [](const Model& model, const std::vector<int>& ids) { return model.tokens(ids); })
      .def(
          "batch",
          [](const Model& model, const std::vector<std::string>& texts) {
            return model.batch(texts);
          },
          unlocked())
      .def("batch", [](const Model& model,
                       const std::vector<std::vector<int>>& ids) { return model.batch(ids); })
      .def("text", &Model::text, unlocked())
      .def("run",
           [](const Model& model, const Tokens& tokens, std::vector<std::string> keep,
              std::vector<Patch> patches, bool streams, std::size_t threads,
              const py::object& progress) {
             const RunOptions options =
                 options_of(std::move(keep), std::move(patches), streams, threads, progress);
             return without_lock([&] { return model.run(tokens, options); });
           })
      .def("stream", &stream_model)
      .def("layer",
           [](const Model& model, const std::string& layer, const std::optional<Tokens>& tokens,
              std::size_t threads, const py::object& progress) {
             const RunOptions options = options_of({}, {}, true, threads, progress);
             return without_lock([&] {
               return tokens ? model.layer(layer, *tokens, options) : model.layer(layer);
             });
           })
      .def("weight",
           [](const Model& model, const std::string& name) {
             return array_of(without_lock([&] { return model.weight(name); }));
           })
      .def("with_", [](const Model& model, const std::string& name, const Array& weight) {
        Tensor tensor = tensor_of(weight);
        return without_lock([&] { return model.with(name, std::move(tensor)); });
      });
}

} // namespace mha::python
