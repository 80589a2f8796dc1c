#pragma once
// The conditions in a family's file, which select some of its entries.

#include <mha/load/families/family.hpp>
#include <mha/load/json_tree.hpp>

namespace mha::naming {

/// A family's file and the files that it is like, the most general first.
using Levels = std::vector<const JsonTree*>;

/// Evaluates the conditions of a file for one layer. A condition is an object whose members must
/// all hold:
///
///     {"model": "qwen3 qwen3_moe"}            config.json's model_type is one of these
///     {"says": "rope_theta"}                  config.json has the key, even with null
///     {"configured": "model_type"}            it has the key, with a value
///     {"config": "alibi", "default": false}   its value is true, or it is absent and the default
///                                             is true
///     {"config": "attn_type", "is": "a b"}    its value is one of these words
///     {"has": "q_norm.weight"}                attention's module has the tensor
///     {"beside": "ln_mlp.weight", "above": 1} the module `above` levels up has the tensor
///     {"in_file": "lm_head.weight"}           the file has a tensor of this whole name
///     {"within": "decoder. crossattention"}   one of the words is part of the module's name
///     {"ends": ".attn. attention."}           the module's whole name ends with one of these
///     {"is_prefix": "attn."}                  the module's whole name is this
///     {"format": "gguf"}                      the container has this format
///     {"number": 0}                           the layer has this number
///     {"test": "grouped"}                     one of the file's "tests", or a function of
///                                             steps.hpp
///     {"not": {…}}, {"all": [{…}, …]}, {"any": [{…}, …]}
class Conditions {
public:
  Conditions(const Group& group, const Levels& levels) : group_(group), levels_(levels) {}

  /// Throws Error for an unknown condition.
  bool hold(const JsonTree& condition);
  bool is_model(const JsonTree& words);
  /// Whether a test of the file, or a function of steps.hpp, is passed.
  bool passes(const JsonTree& name);
  const Group& group() const { return group_; }

private:
  const Group& group_;
  const Levels& levels_;
  std::size_t depth_ = 0; ///< of tests that use other tests
  std::optional<std::vector<std::string>>
      types_; ///< of the model, read once a condition needs them
};

/// Throws Error if a condition has an unknown word.
void require_condition(const JsonTree& condition);

} // namespace mha::naming
