#pragma once
// Finds a model's tensors among the values of a pickle. Containers may hold one another in cycles,
// or one value very often, so each container is entered once.

#include <mha/formats/pickle.hpp>
#include <mha/system/message.hpp>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace mha::io {

/// A value with its name.
using PickleMember = std::pair<std::string, Pickle::Ref>;

/// Whether a value has numbers: a tensor, an array, a storage, a NumPy number.
bool is_numbers(const Pickle& pickle, Pickle::Ref at);
/// A key as text, numbers in decimal; nothing for other keys.
std::optional<std::string> key_text(const Pickle& pickle, Pickle::Ref key);
/// A truth value, number or text as a setting's text; nothing for other values.
std::optional<std::string> plain_text(const Pickle& pickle, Pickle::Ref at);
/// The parts of a record: its states (for a class with slots, both halves) and items.
std::vector<Pickle::Ref> parts_of_record(const Pickle& pickle, Pickle::Ref at);
/// Whether a value is a PyTorch optimizer or its state, which has both param_groups and state.
bool is_optimizer(const Pickle& pickle, Pickle::Ref at);
/// The members of a dict, list or tuple by name, or the attributes of a record; a repeated key has
/// its last value.
std::vector<PickleMember> members(const Pickle& pickle, Pickle::Ref at);

class PickleWalk {
public:
  explicit PickleWalk(const Pickle& pickle) : pickle_(pickle), seen_(pickle.count()) {}

  /// Adds all values below `at` that have numbers. Their names are `prefix` and the keys on the
  /// way, joined by dots. In a module only _parameters, _buffers and _modules are entered, and
  /// these words are not part of the names.
  void add_numbers(Pickle::Ref at, const std::string& prefix, std::vector<PickleMember>& to);
  /// Excludes a value, and values that only it holds, from add_numbers().
  void leave_out(Pickle::Ref at) { seen_[at] = true; }
  /// The names of the optimizers that add_numbers() left out.
  const std::vector<std::string>& optimizers() const { return optimizers_; }
  /// Like add_numbers() for plain values.
  void add_plain(Pickle::Ref at, std::vector<std::pair<std::string, std::string>>& to);
  /// Adds the attributes of pickled modules that describe their computation (heads, epsilons,
  /// activations, the place of norms) under the module's name: "layers.0.self_attn.num_heads".
  void add_attributes(Pickle::Ref at, std::map<std::string, std::string>& to);
  /// The number of values with numbers in a value that were not counted before.
  std::size_t count_numbers(Pickle::Ref at);
  /// The number of tensors and arrays that add_numbers() left out because their keys are not names.
  std::size_t unnamed() const { return unnamed_; }
  /// Whether a value is a module of PyTorch: it has _parameters.
  bool is_module(Pickle::Ref at);

private:
  static constexpr std::uint32_t top = 0xffffffff;
  /// A name and a link to the one before it, so that full names are made only for results.
  struct NameLink {
    std::uint32_t before = top;
    bool is_index = false;
    std::uint32_t value = 0; ///< a key's Ref, or an item's number
  };
  struct Step {
    std::uint32_t name;
    Pickle::Ref at;
  };
  using ModuleDicts = std::array<Pickle::Ref, 3>; // 0 is none
  bool leads_on(Pickle::Ref at) const;
  void push_members(const Step& of);
  void push(const NameLink& part, Pickle::Ref at);
  std::string name_of(std::uint32_t part, const std::string& prefix);
  std::optional<std::string> joined(Pickle::Ref list) const;
  const ModuleDicts& module_parts(Pickle::Ref dict);

  const Pickle& pickle_;
  std::vector<bool> seen_;
  std::vector<Step> steps_;
  std::vector<NameLink> parts_;
  std::size_t named_ = 0; ///< bytes of all names
  std::size_t unnamed_ = 0;
  std::vector<std::string> optimizers_;
  bool plain_ = false; ///< plain values are visited as well
  std::unordered_map<Pickle::Ref, ModuleDicts> modules_;
};

struct StateDict {
  /// Tensors, arrays, storages and NumPy's numbers, by the names that a state_dict has.
  std::vector<std::pair<std::string, Pickle::Ref>> tensors;
  /// Python's numbers and texts beside them.
  std::vector<std::pair<std::string, std::string>> scalars;
  std::vector<std::pair<std::string, std::vector<std::string>>> labels;
  /// The model's configuration, if the checkpoint has it: "n_head" → "12".
  std::map<std::string, std::string> config;
  /// Remarks on values that are not read as tensors (objects of other classes, other dictionaries).
  std::vector<Message> notes;
};

/// Finds the state dictionary: the pickled object itself, or a member such as "state_dict" or
/// "model". A value that several share is visited once. `stem` is the name of a lone tensor.
StateDict find_state_dict(const Pickle& pickle, const std::string& stem);

} // namespace mha::io
