#pragma once
// Files whose metadata has keys of its own and is read as a config.json (files/contents.hpp).

#include <mha/load/families/family.hpp>
#include <mha/system/note.hpp>

#include <optional>
#include <string>
#include <vector>

namespace mha::naming {

/// Throws Error where the file says what no layer of it is computed with, by the key's name.
void require_computed(const Group& group);

/// What the file calls a key of the config; nothing of one that was made for it, where its metadata
/// has keys of its own, and of one that says 0 or false, which switches nothing on there.
std::optional<std::string> name_in_file(const Group& group, std::string_view key,
                                        std::string_view value);

/// What of the file's keys the user must settle.
std::vector<Note> doubts_of(const Group& group);

} // namespace mha::naming
