#pragma once
// The parts of a description in JSON: values, tensors, norms, the embedding, a family's words.
// Only read_description.cpp and its siblings use them.

#include <mha/load/description_keys.hpp>
#include <mha/load/families/description.hpp>
#include <mha/load/families/family.hpp>
#include <mha/load/json_tree.hpp>

#include <span>
#include <string>
#include <string_view>

namespace mha::description {

/// Throws Error where `tree` is not an object, or has a key that is not among `known`.
void require_known(const JsonTree& tree, std::string_view what, std::span<const Key> known);
/// Reads 12, true, "half", "config:KEY", "config:KEY|OTHER" or {"config": KEY, "default": 12}; with
/// `by_layer` also a list of these, one for each layer.
naming::DescribedValue value_of(const JsonTree& tree, std::string_view what, bool by_layer = false);
/// A tensor's name, in which only marks may have braces: {layer}, {head}.
const std::string& name_of(const JsonTree& tree, std::string_view what);
/// The letters of a layout: o, i and h, each once; at most `most`.
std::string layout_of(const JsonTree& tree, std::size_t most);
/// A bias' name, or "" of false; true is refused.
std::string bias_of(const JsonTree& tree);

/// A step of embed that computes the positions' rows. Throws Error for keys that only a table has.
naming::DescribedSinusoid sinusoid_of(const JsonTree& step);

/// Whether `settings` may have this setting; the others follow from norms, split and block.
bool is_setting(std::string_view name);
/// Whether `tensors` may have this key for a tensor (not a norm).
bool is_tensor_key(std::string_view key);
[[noreturn]] void refuse_tensor_key(const JsonTree& tree, std::string_view key);
/// The default layout of a tensor: "oi" for matrices of a linear map, else "".
std::string_view layout_of_key(std::string_view key);

struct Parse {
  const naming::DescribedNorm& form; ///< the norms' default
  /// In a family's file norms without weights may have a name, because some files have one.
  bool may_lack_weights = false;

  /// A name alone.
  naming::DescribedTensor tensor_named(const std::string& key, const JsonTree& name) const;
  /// A name, or an object.
  naming::DescribedTensor tensor(const std::string& key, const JsonTree& tree,
                                 std::string_view layout) const;
  naming::DescribedNorm norm(const std::string& key, const JsonTree& tree) const;
  /// Reads kind, eps, one_plus and affine where the object has them.
  void norm_form(const std::string& key, const JsonTree& tree, naming::DescribedNorm& to) const;
};

/// Reads `embed` into the description's tensors, norms and record. Throws Error, by the step's
/// line, for an unknown step and for an order of steps that is not covered.
void read_embedding(const JsonTree& embed, const Parse& parse, naming::Description& description);

/// Reads the keys that only a family's file has into `to`, whose tensors and norms are already
/// read.
void read_family_words(const JsonTree& tree, naming::Description& to);

} // namespace mha::description

namespace mha {

/// The family of a parsed user's file. The same file gives the same family each time, which lives
/// as long as the program. Throws Error with line and column for an unknown key, or one of another
/// type.
const naming::FamilyRow* user_family(const io::Bytes& file, const JsonTree& tree);

} // namespace mha
