#pragma once
// Families as data: lib/load/families/NAME.json. For one layer, a file becomes a description
// (docs/describing.md) without conditions: the entries of the file that it is like, then its own,
// then those of the cases that hold, where later ones replace earlier ones.

#include <mha/load/families/description.hpp>

#include <memory>
#include <span>
#include <string_view>

namespace mha::naming {

struct FamilyText {
  std::string_view name, text;
};
/// The files, in the order of the list in lib/CMakeLists.txt.
std::span<const FamilyText> family_texts();

/// Whether a group with the family's names fulfils its condition `recognised`.
bool is_recognised(const FamilyRow& family, const Group& group);
/// The value of a key in the family's file, or in the nearest that it is like; "": none has it.
std::string word_in(const FamilyRow& family, std::string_view word);

/// The names of tensors in attention's module, from the family's file and those that it is like.
std::string names_in_module(const FamilyRow& family);

/// The description that a family's file gives for a layer. `whole`: including the whole model,
/// whose cases may need further keys of config.json. The description lives as long as the program.
const Description& description_of(const FamilyRow& family, const Group& group, bool whole);

} // namespace mha::naming
