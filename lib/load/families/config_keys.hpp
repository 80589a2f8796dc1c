#pragma once
// Keys and lists of config.json: the spellings of sizes, which families call hidden_size, n_embd,
// d_model or dim, and the keys of files whose metadata is read as a config.json
// (files/contents.hpp).

#include <mha/load/families/family.hpp>
#include <mha/system/note.hpp>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mha::naming {

/// All spellings of the size that `key` names, including `key`; empty if it is not a size. Every
/// family reads every spelling, so that two spellings with different values are an error.
std::span<const std::string_view> size_spellings(std::string_view key);

/// Throws Error if the file has a key that makes its layers uncomputable here.
void require_computed(const Group& group);

/// The file's own name of a key of the config. Returns nothing for a key that was derived from the
/// file's metadata, and for one with 0 or false, which means off there.
std::optional<std::string> name_in_file(const Group& group, std::string_view key,
                                        std::string_view value);

/// Warnings about the file's keys that the user must settle.
std::vector<Note> doubts_of(const Group& group);

/// Element `index` of a list in config.json: "a,b,c".
std::optional<std::string> element(const std::string& list, std::size_t index);

} // namespace mha::naming
