// The native part of the Python module `mha`: passes NumPy arrays without a copy, and runs the
// library without the interpreter's lock. The public interface is in mha/__init__.py.

#include "arrays.hpp"

#include <mha/api/cache.hpp>
#include <mha/api/visit.hpp>
#include <mha/layer/graph.hpp>
#include <mha/layer/settings.hpp>
#include <mha/layer/stage_place.hpp>
#include <mha/load/families/family.hpp>
#include <mha/load/load.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/observe/not_finite.hpp>
#include <mha/observe/overflow.hpp>
#include <mha/observe/several.hpp>
#include <mha/observe/trace.hpp>
#include <mha/system/limits.hpp>
#include <mha/system/one_of.hpp>

#include <pybind11/stl.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

using mha::python::Array;
using mha::python::array_of;
using mha::python::class_of;
using mha::python::in_python;
using mha::python::tensor_of;
using Arrays = std::vector<std::pair<std::string, Array>>;

/// A caller's dictionary, which is read like a file.
struct Memory {
  std::string name;
  Arrays tensors;
  std::vector<std::pair<std::string, std::string>> scalars;
  std::vector<std::pair<std::string, std::vector<std::string>>> labels;
  std::map<std::string, std::string> config;
};

mha::io::Contents contents_of(const Memory& memory) {
  mha::io::Contents contents;
  contents.name = memory.name, contents.format = "memory";
  contents.scalars = memory.scalars, contents.labels = memory.labels;
  contents.config = memory.config;
  for (const auto& [name, array] : memory.tensors) {
    const mha::Tensor tensor = tensor_of(array);
    contents.tensors.push_back({name, tensor.dtype(), tensor.shape(), array.second == "weak",
                                [tensor] { return tensor; }});
  }
  return contents;
}

/// The computed stages of one layer.
struct Computed {
  std::string id, naming;
  std::vector<std::pair<std::string, mha::Tensor>> stages;
  mha::python::Notes notes; ///< whether each is a warning, and its text
};

std::vector<mha::Stage> stages_wanted(const mha::Layer& layer, const std::string& id,
                                      const std::vector<std::string>& names) {
  const mha::StageSet available = mha::available_stages(layer);
  if (available.none())
    mha::fail("no stage can be computed: there is no input; give X, or a stage to start from{}",
              layer.missing_X);
  std::vector<mha::Stage> wanted;
  for (const mha::StageInfo& info : mha::stages())
    if (names.empty() && contains(available, info.stage)) wanted.push_back(info.stage);
  for (const std::string& name : names) {
    const mha::Stage stage = mha::stage_named(name);
    const mha::PlaceLayers named = mha::layers_of_place(name, name);
    mha::require_of_model(name, stage, named);
    if (mha::is_of_model(stage) != (layer.ends != nullptr)) continue; // another layer has the stage
    if (id.empty() && !layer.ends && named.names_layer() && !named.every_layer)
      mha::fail("{}: the only layer has no number; use the name {}", name, mha::name_of(stage));
    const std::optional<std::size_t> number = mha::naming::layer_number(name);
    if (number && !id.empty() && number != mha::naming::layer_number(id)) continue;
    mha::require_stage(layer, stage);
    add_once(wanted, stage);
  }
  return wanted;
}

/// The bytes that a run has kept, and the number of layers still to compute.
struct MemoryUse {
  std::size_t kept = 0, layers = 0;

  /// Throws Error if a layer's stages, or those of all remaining layers, would not fit in memory.
  void require(const mha::Layer& layer, const std::vector<mha::Stage>& wanted,
               const std::vector<std::string>& names) {
    const std::size_t bytes = mha::api::bytes_of(layer, mha::StageSet(wanted));
    const bool of_each = std::ranges::none_of(
        names, [](const auto& name) { return mha::naming::layer_number(name).has_value(); });
    mha::require_memory(kept + bytes * (of_each ? layers : 1), "the requested stages",
                        "request fewer with stages=[…], or stream them");
    kept += bytes, --layers;
  }
};

mha::python::Notes notes_of_layer(const mha::Layer& layer, std::vector<mha::Note> notes) {
  if (!layer.block) std::ranges::move(mha::not_finite_inputs(layer), std::back_inserter(notes));
  return mha::python::notes_of(notes);
}

/// Computes stages of a layer whose names contain `id`; `by` computes it.
Computed compute_layer(const mha::Layer& layer, const std::string& id,
                       const std::vector<std::string>& names, std::size_t threads,
                       MemoryUse& memory, const mha::ComputeLayer& by = mha::compute) {
  Computed computed{id, {}, {}, {}};
  const std::vector<mha::Stage> wanted = stages_wanted(layer, id, names);
  memory.require(layer, wanted, names);
  mha::Trace kept(layer, wanted);
  mha::OverflowWatch overflow(layer);
  mha::Several all;
  all.add(kept);
  if (std::any_of(wanted.begin(), wanted.end(),
                  [](auto stage) { return !mha::comes_before(stage, mha::Stage::exp); }))
    all.add(overflow);
  by(layer, mha::make_plan(layer, all.wants()), all, threads);
  for (mha::Stage stage : wanted)
    computed.stages.emplace_back(mha::name_of(stage), kept.value(stage));
  if (const mha::Message warning = overflow.report(layer); !warning.empty())
    computed.notes.emplace_back(true, in_python(warning.in_words(mha::Wording::program)));
  return computed;
}

py::dict arrays_of(const Computed& layer) {
  py::dict stages;
  for (const auto& [name, tensor] : layer.stages) stages[py::str(name)] = array_of(tensor);
  return stages;
}

/// The arguments of run(), sorted by mha/__init__.py.
struct Request {
  std::vector<std::string> sources;
  std::vector<Memory> memory;
  Arrays bound;
  std::vector<std::pair<std::string, std::string>> settings;
  std::string layer, dtype, naming, prefix, config, tokens, key_tokens;
  std::vector<std::string> texts, ids, stages;
  std::optional<bool> bos;
  bool special = true, same_x = false, batch = false;
  std::size_t threads = 0;
};

mha::RunRequest request_of(const Request& given) {
  mha::RunRequest request;
  request.sources = given.sources;
  for (const Memory& memory : given.memory) request.in_memory.push_back(contents_of(memory));
  for (const auto& [name, array] : given.bound) request.bound.emplace_back(name, tensor_of(array));
  request.settings = given.settings;
  request.layer = given.layer, request.naming = given.naming, request.prefix = given.prefix;
  request.config = given.config, request.same_x = given.same_x;
  request.tokens = given.tokens, request.key_tokens = given.key_tokens;
  request.dtype = mha::python::precision_named(given.dtype);
  request.text.texts = given.texts, request.text.ids = given.ids;
  request.text.special.bos = given.bos, request.text.special.none = !given.special;
  request.text.batch = given.batch;
  request.stages = given.stages, request.shows_ends = true;
  return request;
}

/// Computes a request. Returns (title, [(id, naming, {stage: array}, [(warning, note)])]).
py::tuple run(const Request& given) {
  mha::RunRequest request = request_of(given);
  std::string title;
  std::vector<Computed> layers;
  {
    const mha::python::Unlocked free;
    mha::api::visiting([&] {
      mha::OpenedModel model(std::move(request));
      model.threads = given.threads;
      title = model.title();
      MemoryUse memory{.layers = model.chosen().size()};
      for (const std::string& id : model.chosen()) {
        mha::LoadedLayer loaded = model.load(id);
        Computed done =
            compute_layer(loaded.layer, id, given.stages, given.threads, memory, model.compute());
        mha::python::Notes notes = notes_of_layer(loaded.layer, std::move(loaded.notes));
        done.naming = loaded.naming,
        done.notes.insert(done.notes.begin(), notes.begin(), notes.end());
        layers.push_back(std::move(done));
      }
    });
  }
  py::list results;
  for (const Computed& layer : layers)
    results.append(py::make_tuple(layer.id, layer.naming, arrays_of(layer), layer.notes));
  return py::make_tuple(title, results);
}

/// Computes stages of a Layer object. Returns ({stage: array}, [(warning, note)]).
py::tuple run_layer(const mha::Layer& layer, const std::string& id,
                    const std::vector<std::string>& stages, std::size_t threads) {
  Computed done;
  {
    const mha::python::Unlocked free;
    mha::api::visiting([&] {
      for (const std::string& name : stages) {
        if (!stages_wanted(layer, id, {name}).empty()) continue;
        mha::require_stage(layer, mha::stage_named(name));
        mha::fail("{}: this is layer {}", name, id);
      }
      MemoryUse memory{.layers = 1};
      done = compute_layer(layer, id, stages, threads, memory);
    });
  }
  return py::make_tuple(arrays_of(done), done.notes);
}

/// Loads one layer of the sources. Returns (title, id, naming, [(warning, note)], layer).
py::tuple load(const Request& given) {
  mha::RunRequest request = request_of(given);
  request.X_is_stream = true;
  std::string title;
  mha::LoadedLayer loaded;
  {
    const mha::python::Unlocked free;
    mha::api::visiting([&] {
      mha::OpenedModel model(std::move(request));
      title = model.title();
      if (model.chosen().size() != 1)
        mha::fail("{}: {} layers are chosen, but load() takes one", title, model.chosen().size());
      loaded = model.load(model.chosen()[0]);
    });
  }
  const auto notes = notes_of_layer(loaded.layer, std::move(loaded.notes));
  return py::make_tuple(title, loaded.id, loaded.naming, notes, std::move(loaded.layer));
}

/// The ids of the layers in the sources.
std::vector<std::string> layers(const Request& given) {
  mha::RunRequest request = request_of(given);
  const mha::python::Unlocked free;
  return mha::api::visiting([&] {
    request.text = {};
    return mha::api::layer_ids(std::move(request));
  });
}

py::list table_of_stages() {
  py::list rows;
  for (const mha::StageInfo& info : mha::stages()) {
    py::list letters;
    for (mha::Dim letter : info.letters) letters.append(std::string(mha::name_of(letter)));
    rows.append(py::make_tuple(std::string(info.name), py::tuple(letters), std::string(info.value),
                               std::string(info.text), std::string(info.part)));
  }
  return rows;
}

} // namespace

PYBIND11_MODULE(_core, module) {
  static py::exception<mha::Error> error(module, "Error", PyExc_ValueError);
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const mha::Error& caught) {
      error(in_python(caught.what()).c_str());
    }
  });
  class_of<Memory>(module, "Memory")
      .def_static("empty", [] { return Memory(); })
      .def_readwrite("name", &Memory::name)
      .def_readwrite("tensors", &Memory::tensors)
      .def_readwrite("scalars", &Memory::scalars)
      .def_readwrite("labels", &Memory::labels)
      .def_readwrite("config", &Memory::config);
  class_of<Request>(module, "Request")
      .def_static("empty", [] { return Request(); })
      .def_readwrite("sources", &Request::sources)
      .def_readwrite("memory", &Request::memory)
      .def_readwrite("bound", &Request::bound)
      .def_readwrite("settings", &Request::settings)
      .def_readwrite("layer", &Request::layer)
      .def_readwrite("dtype", &Request::dtype)
      .def_readwrite("naming", &Request::naming)
      .def_readwrite("prefix", &Request::prefix)
      .def_readwrite("config", &Request::config)
      .def_readwrite("tokens", &Request::tokens)
      .def_readwrite("key_tokens", &Request::key_tokens)
      .def_readwrite("texts", &Request::texts)
      .def_readwrite("ids", &Request::ids)
      .def_readwrite("stages", &Request::stages)
      .def_readwrite("bos", &Request::bos)
      .def_readwrite("special", &Request::special)
      .def_readwrite("same_x", &Request::same_x)
      .def_readwrite("batch", &Request::batch)
      .def_readwrite("threads", &Request::threads);
  mha::python::Computing::watch_for_end();
  mha::python::add_layer(module);
  mha::python::add_model(module);
  mha::python::add_diagnose(module);
  module.def("run", &run);
  module.def("run_layer", &run_layer);
  module.def("load", &load);
  module.def("layers", &layers);
  module.def("stages", &table_of_stages);
  module.def("stage_named", [](const std::string& name) {
    return std::string(mha::name_of(mha::stage_named(name)));
  });
  module.def("require_setting", [](const std::string& name) {
    mha::Settings unused;
    if (!mha::find_setting(name))
      mha::set(unused, name, "", name); // throws Error for the unknown setting
  });
  module.def("is_setting",
             [](const std::string& name) { return mha::find_setting(name) != nullptr; });
  module.attr("__version__") = MHA_VERSION;
}
