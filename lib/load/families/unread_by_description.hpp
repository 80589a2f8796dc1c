#pragma once
// Numbers of config.json that a description of a model leaves out.

#include <mha/load/families/family.hpp>
#include <mha/system/note.hpp>

#include <vector>

namespace mha::naming {

/// A warning for the rotary base and the norms' eps of config.json where the group's description
/// neither reads nor says them, so that another number would be computed with.
std::vector<Note> unread_by_description(const Group& group);

} // namespace mha::naming
