#pragma once
// Keys of config.json that nothing reads: known to change no number, or told.

#include <mha/load/families/family.hpp>
#include <mha/system/note.hpp>

#include <string>
#include <vector>

namespace mha::naming {

/// A warning that names the keys, with their values, that nothing of the group's family asked for
/// and that are not known to change no number; another for a quantisation. Throws Error for one
/// that is known to change numbers. Of a lone layer (not
/// `whole`) the keys that only a whole model needs are not told.
std::vector<Note> unread_settings(const Found& layer, const Description& said, bool whole);

/// The same of a lone layer, where its family's whole model is known.
void note_unread_settings(const Found& layer, std::vector<Note>& notes);

/// Whether a key is known to change no number: whatever its value, or at this one.
bool is_ignored_setting(std::string_view key, std::string_view value);

/// What a class or a model_type calls its model, in small letters: "xlmroberta" of
/// XLMRobertaForMaskedLM and of xlm-roberta, "gemma3" of gemma3_text.
std::string model_of_name(std::string_view name);

/// A warning for the rotary base and the norms' eps of config.json where the group's description
/// neither reads nor says them, so that another number would be computed with.
std::vector<Note> unread_by_description(const Group& group);

} // namespace mha::naming
