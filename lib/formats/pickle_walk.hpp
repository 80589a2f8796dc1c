#pragma once
// Going through the values of a pickle, which may hold one another in circles, and one value in
// more places than there is time for: each container is entered once.

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

/// A value and what it is called.
using PickleMember = std::pair<std::string, Pickle::Ref>;

/// Whether a value becomes numbers: a tensor, an array, a storage, a NumPy number.
bool is_numbers(const Pickle& pickle, Pickle::Ref at);
/// The text of a key: text as it is, a number in decimal; nothing for any other.
std::optional<std::string> key_text(const Pickle& pickle, Pickle::Ref key);
/// A truth value, number or text as settings write it; nothing for any other.
std::optional<std::string> plain_text(const Pickle& pickle, Pickle::Ref at);
/// The dicts and items of a record: its states, both parts of one with slots.
std::vector<Pickle::Ref> parts_of_record(const Pickle& pickle, Pickle::Ref at);
/// Whether a value is an optimizer of PyTorch or its state, which has param_groups beside a state.
bool is_optimizer(const Pickle& pickle, Pickle::Ref at);
/// What a dict, list or tuple holds by name, of equal keys the last; of a record, its attributes.
std::vector<PickleMember> members(const Pickle& pickle, Pickle::Ref at);

class PickleWalk {
public:
  explicit PickleWalk(const Pickle& pickle) : pickle_(pickle), seen_(pickle.count()) {}

  /// Everything below `at` that becomes numbers, under `prefix` and the names on the way joined by
  /// dots. Of a module's attributes these are its _parameters, _buffers and _modules, which are no
  /// part of a name.
  void add_numbers(Pickle::Ref at, const std::string& prefix, std::vector<PickleMember>& to);
  /// Leaves a value and what it alone holds out of add_numbers().
  void leave_out(Pickle::Ref at) { seen_[at] = true; }
  /// The names of optimizers below, which add_numbers() left out.
  const std::vector<std::string>& optimizers() const { return optimizers_; }
  /// The same for plain values.
  void add_plain(Pickle::Ref at, std::vector<std::pair<std::string, std::string>>& to);
  /// What pickled modules say of their computation: heads, epsilons, activations, the place of
  /// norms, each under the module's name: "layers.0.self_attn.num_heads".
  void add_attributes(Pickle::Ref at, std::map<std::string, std::string>& to);
  /// How many values that become numbers lie in a value and were not counted before.
  std::size_t count_numbers(Pickle::Ref at);
  /// How many tensors and arrays add_numbers() left out, since their keys are no names.
  std::size_t unnamed() const { return unnamed_; }
  /// Whether a value is a module of PyTorch: it has _parameters.
  bool is_module(Pickle::Ref at);

private:
  static constexpr std::uint32_t top = 0xffffffff;
  /// One name and the one before it: whole names are made of what is found alone.
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
  bool plain_ = false; ///< plain values are visited, too
  std::unordered_map<Pickle::Ref, ModuleDicts> modules_;
};

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
