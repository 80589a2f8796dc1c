#pragma once
// Finds a model's tensors among the values of a pickle. Containers may refer to one another in
// cycles, and may repeat a value very often, so each container is entered only once.

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

/// Whether a value is a tensor, an array, a storage or a NumPy number.
bool has_numbers(const Pickle& pickle, Pickle::Ref ref);
/// A dict's key as text: text unchanged, integers in decimal, nullopt for other keys.
std::optional<std::string> key_text(const Pickle& pickle, Pickle::Ref key);
/// A truth value, number or text as the text of a setting; nullopt for other values.
std::optional<std::string> plain_text(const Pickle& pickle, Pickle::Ref ref);
/// The record_parts() of a record. A class with __slots__ has a pair as its state, which is split.
std::vector<Pickle::Ref> split_record_parts(const Pickle& pickle, Pickle::Ref ref);
/// Whether a value is a PyTorch optimizer or its state, which has both param_groups and state.
bool is_optimizer(const Pickle& pickle, Pickle::Ref ref);
/// The members of a dict, list or tuple by name, or the attributes of a record. Of a repeated key,
/// the last value counts.
std::vector<PickleMember> members(const Pickle& pickle, Pickle::Ref ref);

/// Collects named values. A walk enters each container once, even over several calls.
class PickleWalk {
public:
  explicit PickleWalk(const Pickle& pickle) : pickle_(pickle), seen_(pickle.count()) {}

  /// Adds all values below `ref` that have numbers. A name is `prefix` and the keys on the path to
  /// the value, joined by dots. Of a module only _parameters, _buffers and _modules are entered,
  /// and these three words are left out of names.
  void add_numbers(Pickle::Ref ref, const std::string& prefix, std::vector<PickleMember>& to);
  /// Excludes a value, and all values reached only through it, from add_numbers().
  void leave_out(Pickle::Ref ref) { seen_[ref] = true; }
  /// The names of the optimizers that add_numbers() left out.
  const std::vector<std::string>& optimizers() const { return optimizers_; }
  /// Adds all plain values below `ref` (truth values, numbers and texts) with their names.
  void add_plain(Pickle::Ref ref, std::vector<std::pair<std::string, std::string>>& to);
  /// Adds the attributes of pickled modules that describe their computation (heads, epsilons,
  /// activations, norm_first) under the module's name: "layers.0.self_attn.num_heads".
  void add_attributes(Pickle::Ref ref, std::map<std::string, std::string>& to);
  /// The number of values with numbers in `ref`, without those that were counted before.
  std::size_t count_numbers(Pickle::Ref ref);
  /// The number of tensors and arrays that add_numbers() left out because their keys are not names.
  std::size_t unnamed() const { return unnamed_; }
  /// Whether a value is a PyTorch module, which has _parameters.
  bool is_module(Pickle::Ref ref);

private:
  static constexpr std::uint32_t top = 0xffffffff; ///< in place of a NameLink's index: no part
  /// One part of a name and the index of the part before it. Full names are joined only for
  /// results.
  struct NameLink {
    std::uint32_t before = top;
    bool is_index = false;
    std::uint32_t value = 0; ///< a key's Ref, or an item's index
  };
  /// A value to visit next, and the last part of its name.
  struct Visit {
    std::uint32_t name;
    Pickle::Ref ref;
  };
  /// A module's _parameters, _buffers and _modules; 0 for a missing one.
  using ModuleDicts = std::array<Pickle::Ref, 3>;
  bool may_have_results(Pickle::Ref ref) const;
  void push_members(const Visit& container);
  void push(const NameLink& part, Pickle::Ref ref);
  std::string full_name(std::uint32_t part, const std::string& prefix);
  std::optional<std::string> joined_items(Pickle::Ref list) const;
  const ModuleDicts& module_parts(Pickle::Ref dict);

  const Pickle& pickle_;
  std::vector<bool> seen_;
  std::vector<Visit> pending_;
  std::vector<NameLink> parts_;
  std::size_t name_bytes_ = 0; ///< the length of all names so far
  std::size_t unnamed_ = 0;
  std::vector<std::string> optimizers_;
  bool visits_plain_ = false; ///< whether plain values are visited as well
  std::unordered_map<Pickle::Ref, ModuleDicts> modules_;
};

struct StateDict {
  /// Tensors, arrays, storages and NumPy numbers, under the names that a state_dict gives them.
  std::vector<std::pair<std::string, Pickle::Ref>> tensors;
  /// Plain Python numbers and texts next to them.
  std::vector<std::pair<std::string, std::string>> scalars;
  /// Lists of texts next to them.
  std::vector<std::pair<std::string, std::vector<std::string>>> labels;
  /// The model's configuration, if the checkpoint has it: "n_head" → "12".
  std::map<std::string, std::string> config;
  /// Notes about values that are not read as tensors, such as objects of other classes.
  std::vector<Message> notes;
};

/// Finds the state dictionary: the pickled object itself, or a member such as "state_dict" or
/// "model". `stem` becomes the name of a tensor that is pickled alone.
StateDict find_state_dict(const Pickle& pickle, const std::string& stem);

} // namespace mha::io
