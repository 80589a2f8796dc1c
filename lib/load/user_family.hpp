#pragma once
// A family that a user's file says, --naming FILE.json with "like" or "needs".

#include <mha/load/families/family.hpp>
#include <mha/load/json_tree.hpp>

#include <string>

namespace mha {

/// The family of a parsed file, which lives as long as the program. Throws Error with line and
/// column for a word that is not known, or of another type.
const naming::FamilyRow* user_family(const JsonTree& tree, const std::string& path);

} // namespace mha
