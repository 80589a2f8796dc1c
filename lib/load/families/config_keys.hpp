#pragma once
// Keys of config.json under their other names: spellings of sizes, which families call hidden_size,
// n_embd, d_model or dim, and the keys of files whose metadata is read as a config.json
// (files/own_keys.hpp).

#include <mha/load/families/family.hpp>
#include <mha/system/note.hpp>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mha::naming {

/// All spellings of the size that `key` is a spelling of, `key` among them; empty where it is no
/// size of this table. Every family reads every spelling, so that a second one with another value
/// is an error, and one alone is read.
std::span<const std::string_view> size_spellings(std::string_view key);

/// Throws Error where the file says what no layer of it is computed with, by the key's name.
void require_computed(const Group& group);

/// What the file calls a key of the config; nothing of one that was made for it, where its metadata
/// has keys of its own, and of one that says 0 or false, which switches nothing on there.
std::optional<std::string> name_in_file(const Group& group, std::string_view key,
                                        std::string_view value);

/// What of the file's keys the user must settle.
std::vector<Note> doubts_of(const Group& group);

} // namespace mha::naming
