#pragma once
// Which values of a pickle are a model's tensors, and under which names.

#include <mha/formats/pickle.hpp>
#include <mha/system/message.hpp>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace mha::io {

struct StateDict {
  /// Tensors, arrays, storages and NumPy's numbers, by the names that a state_dict has.
  std::vector<std::pair<std::string, Pickle::Ref>> tensors;
  /// Python's numbers and texts beside them.
  std::vector<std::pair<std::string, std::string>> scalars;
  std::vector<std::pair<std::string, std::vector<std::string>>> labels;
  /// The model's configuration, where the checkpoint has it: "n_head" → "12".
  std::map<std::string, std::string> config;
  /// What was not taken as a tensor (views, objects of other classes, other dictionaries).
  std::vector<Message> notes;
};

/// Looks for the state dictionary: the pickled object itself, or what a checkpoint keeps under
/// "state_dict", "model" and the like. A module's _parameters, _buffers and _modules are names; a
/// value that several share is visited once. `stem`: the name of a tensor that stands alone.
StateDict find_state_dict(const Pickle& pickle, const std::string& stem);

} // namespace mha::io
