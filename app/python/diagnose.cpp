// mha::diagnose for Python. What users see of it is in mha/diagnose.py.

#include "arrays.hpp"

#include <mha/diagnose.hpp>

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <string>
#include <utility>
#include <vector>

namespace mha::python {

namespace {

using Arrays = std::vector<std::pair<std::string, Array>>;

Saved saved_of(std::vector<std::string> files, const Arrays& arrays) {
  Saved saved;
  saved.files = std::move(files);
  for (const auto& [name, array] : arrays) saved.tensors.emplace_back(name, tensor_of(array));
  return saved;
}

py::list causes_of(const std::vector<FoundCause>& causes) {
  py::list list;
  for (const FoundCause& one : causes)
    list.append(py::make_tuple(one.id, std::string(name_of(one.stage)), one.change, one.cure,
                               one.option, one.settings));
  return list;
}

py::tuple place_of(const Finding& finding) {
  py::list stages;
  for (const ComparedStage& one : finding.stages)
    stages.append(py::make_tuple(std::string(name_of(one.stage)), one.before, one.after));
  return py::make_tuple(finding.place, finding.layer, finding.equal, finding.explained,
                        causes_of(finding.causes), finding.same_numbers,
                        finding.unexplained
                            ? py::object(py::str(std::string(name_of(*finding.unexplained))))
                            : py::none(),
                        finding.at, finding.hints, stages);
}

/// The members of Findings, in their order.
py::tuple tuple_of(const Findings& found) {
  py::list places;
  for (const Finding& one : found.places) places.append(place_of(one));
  return py::make_tuple(places, found.equal, found.explained, found.compared, found.not_compared,
                        notes_of(found.notes));
}

py::tuple of_model(const Model& model, const Tokens& tokens, std::vector<std::string> files,
                   const Arrays& arrays, std::size_t threads, const py::object& progress) {
  RunOptions options;
  options.threads = threads;
  if (!progress.is_none())
    options.progress = [progress = progress.ptr()](double share) {
      const Call call;
      py::reinterpret_borrow<py::object>(progress)(share);
    };
  const Saved saved = saved_of(std::move(files), arrays);
  Findings found;
  {
    const Unlocked free;
    found = diagnose(model, tokens, saved, options);
  }
  return tuple_of(found);
}

py::tuple of_layer(const Layer& layer, std::vector<std::string> files, const Arrays& arrays,
                   const std::string& id, std::size_t threads) {
  const Saved saved = saved_of(std::move(files), arrays);
  Findings found;
  {
    const Unlocked free;
    found = diagnose(layer, saved, id, threads);
  }
  return tuple_of(found);
}

} // namespace

void add_diagnose(py::module_& module) {
  module.def("diagnose_model", &of_model);
  module.def("diagnose_layer", &of_layer);
}

} // namespace mha::python
