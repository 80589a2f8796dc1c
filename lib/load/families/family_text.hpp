#pragma once
// Families that are data: lib/load/families/NAME.json. What a file says for a layer is a
// description (docs/describing.md) without conditions: the words of the file that it is like, its
// own, and those of the cases that hold, each over the ones before.

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

/// Whether a group with the family's names is of it.
bool is_recognised(const FamilyRow& family, const Group& group);
/// A word of its file, or of the nearest that it is like; "": none has it.
std::string word_in(const FamilyRow& family, std::string_view word);

/// The names in attention's module of the tensors that its file says, or those that it is like.
std::string names_in_module(const FamilyRow& family);

/// What a family's file says for a layer. `whole`: of the whole model, too, whose cases may ask for
/// further keys of config.json. The description lives as long as the program.
const Description& said_of(const FamilyRow& family, const Group& group, bool whole);

} // namespace mha::naming
