#pragma once
// Stages by the names that people and other tools give them.

#include <mha/layer/stage.hpp>

#include <optional>
#include <string_view>
#include <vector>

namespace mha {

/// The stage that a name means, aliases and prefixes such as `blocks.0.attn.` included; nothing if
/// it is not a step. Throws Error for a word that means several things, naming the choices.
MHA_API std::optional<Stage> find_stage(std::string_view name);
/// The derived stage with this name, which may have prefixes.
std::optional<Stage> find_derived(std::string_view name);
/// The step or derived stage that a name means; an unknown one throws Error with "did you mean".
MHA_API Stage stage_named(std::string_view name);
/// The stages that an ambiguous word of the field may mean ("attn_weights"); empty for other words.
MHA_API std::vector<Stage> readings_of(std::string_view name);
/// The words that have several.
std::vector<std::string_view> ambiguous_words();

/// The stage that a place's name means, for parse_place(). An unknown name throws Error with "did
/// you mean".
StageOfPlace stage_of_place_named(std::string_view name);

} // namespace mha
