// mha::diff and mha::diagnose for Python. The public interface is in mha/diagnose.py.

#include "arrays.hpp"

#include <mha/diagnose.hpp>
#include <mha/naming/stage_names.hpp>

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace mha::python {

namespace {

using NamedArrays = std::vector<std::pair<std::string, Array>>;

Saved saved_of(std::vector<std::string> files, const NamedArrays& arrays) {
  Saved saved;
  saved.files = std::move(files);
  for (const auto& [name, array] : arrays) saved.tensors.emplace_back(name, tensor_of(array));
  return saved;
}

py::object name_or_none(const std::optional<Stage>& stage) {
  return stage ? py::object(py::str(std::string(name_of(*stage)))) : py::none();
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
                        name_or_none(finding.unexplained), finding.at, finding.hints, stages);
}

/// The members of Findings, in their order.
py::tuple tuple_of(const Findings& found) {
  py::list places;
  for (const Finding& one : found.places) places.append(place_of(one));
  return py::make_tuple(places, found.equal, found.explained, found.compared, found.not_compared,
                        notes_of(found.notes));
}

py::tuple place_of(const PlaceDifferences& found) {
  py::list stages;
  for (const StageDifference& one : found.stages)
    stages.append(py::make_tuple(std::string(name_of(one.stage)), one.status, one.max_abs,
                                 one.max_rel, one.mismatched, one.count, one.cosine, one.at,
                                 one.ours, one.theirs, one.own));
  return py::make_tuple(found.place, found.layer, found.verdict, name_or_none(found.first), stages);
}

/// The members of Differences, in their order.
py::tuple tuple_of(const Differences& found) {
  py::list places;
  for (const PlaceDifferences& one : found.places) places.append(place_of(one));
  return py::make_tuple(found.verdict, places, found.compared, found.not_compared,
                        notes_of(found.notes));
}

/// The options of a comparison: names of stages, and tolerances.
using Asked = std::tuple<std::vector<std::string>, std::optional<double>, std::optional<double>>;

DiffOptions diff_options_of(const Asked& asked) {
  DiffOptions options;
  const auto& [stages, absolute, relative] = asked;
  for (const std::string& name : stages) options.stages.push_back(stage_named(name));
  options.absolute = absolute, options.relative = relative;
  return options;
}

RunOptions run_options_of(std::size_t threads, const py::object& progress) {
  RunOptions options;
  options.threads = threads;
  options.progress = progress_of(progress);
  return options;
}

py::tuple differences_of_model(const Model& model, const Tokens& tokens,
                               std::vector<std::string> files, const NamedArrays& arrays,
                               const Asked& asked, std::size_t threads,
                               const py::object& progress) {
  const RunOptions options = run_options_of(threads, progress);
  const DiffOptions of_diff = diff_options_of(asked);
  const Saved saved = saved_of(std::move(files), arrays);
  return tuple_of(without_lock([&] { return diff(model, tokens, saved, of_diff, options); }));
}

py::tuple differences_of_layer(const Layer& layer, std::vector<std::string> files,
                               const NamedArrays& arrays, const std::string& id, const Asked& asked,
                               std::size_t threads) {
  const DiffOptions of_diff = diff_options_of(asked);
  const Saved saved = saved_of(std::move(files), arrays);
  return tuple_of(without_lock([&] { return diff(layer, saved, id, of_diff, threads); }));
}

py::tuple of_model(const Model& model, const Tokens& tokens, std::vector<std::string> files,
                   const NamedArrays& arrays, std::size_t threads, const py::object& progress) {
  const RunOptions options = run_options_of(threads, progress);
  const Saved saved = saved_of(std::move(files), arrays);
  return tuple_of(without_lock([&] { return diagnose(model, tokens, saved, options); }));
}

py::tuple of_layer(const Layer& layer, std::vector<std::string> files, const NamedArrays& arrays,
                   const std::string& id, std::size_t threads) {
  const Saved saved = saved_of(std::move(files), arrays);
  return tuple_of(without_lock([&] { return diagnose(layer, saved, id, threads); }));
}

} // namespace

void add_diagnose(py::module_& module) {
  module.def("diff_model", &differences_of_model);
  module.def("diff_layer", &differences_of_layer);
  module.def("diagnose_model", &of_model);
  module.def("diagnose_layer", &of_layer);
}

} // namespace mha::python
