#pragma once
// The conditions in a family's file, under which some of its words hold.

#include <mha/load/families/family.hpp>
#include <mha/load/json_tree.hpp>

namespace mha::naming {

/// A family's file and those that it is like, the most general first.
using Levels = std::vector<const JsonTree*>;

/// The conditions of a file for one layer. A condition is an object, of whose members each must
/// hold:
///
///     {"model": "qwen3 qwen3_moe"}            config.json's model_type is one of these
///     {"says": "rope_theta"}                  config.json has the key, if only to say null
///     {"configured": "model_type"}            it has the key, with a value
///     {"config": "alibi", "default": false}   it says true, or is silent and the default is true
///     {"config": "attn_type", "is": "a b"}    its value is one of these words
///     {"has": "q_norm.weight"}                attention's module has the tensor
///     {"beside": "ln_mlp.weight", "above": 1} so many modules above it is the tensor
///     {"in_file": "lm_head.weight"}           the file has a tensor of this whole name
///     {"within": "decoder. crossattention"}   one of the words is part of the module's name
///     {"ends": ".attn. attention."}           the module's whole name ends with one of these
///     {"is_prefix": "attn."}                  it is this
///     {"format": "gguf"}                      the container
///     {"number": 0}                           the layer's
///     {"test": "grouped"}                     one of the file's "tests", or a function of
///     steps.hpp
///     {"not": {…}}, {"all": [{…}, …]}, {"any": [{…}, …]}
class Conditions {
public:
  Conditions(const Group& group, const Levels& levels) : group_(group), levels_(levels) {}

  /// Throws Error for what is no condition.
  bool hold(const JsonTree& condition);
  /// Whether the model is one of these; whether a test of the file, or a function's, is passed.
  bool is_model(const JsonTree& words);
  bool passes(const JsonTree& name);
  const Group& group() const { return group_; }

private:
  const Group& group_;
  const Levels& levels_;
  std::size_t depth_ = 0;                         ///< of tests that ask other tests
  std::optional<std::vector<std::string>> types_; ///< of the model, once a condition asks
};

/// Throws Error where a word of a condition is not known.
void require_condition(const JsonTree& condition);

} // namespace mha::naming
