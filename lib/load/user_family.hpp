#pragma once
// A family that a user's file says, --naming FILE.json with "like" or "needs".

#include <mha/load/families/family.hpp>
#include <mha/load/json_tree.hpp>

namespace mha {

/// The family of a file that was parsed, one however often it is read, which lives as long as the
/// program. Throws Error with line and column for a word that is not known, or of another type.
const naming::FamilyRow* user_family(const io::Bytes& file, const JsonTree& tree);

} // namespace mha
