#pragma once
// Keys of config.json that nothing reads: they change no number, or are reported.

#include <mha/load/families/family.hpp>
#include <mha/system/note.hpp>

#include <string>
#include <vector>

namespace mha::naming {

/// Warns about keys, with their values, that the family did not read and that are not known to be
/// harmless, and about a quantisation. Throws Error for a key that is known to change numbers. For
/// a lone layer (not `whole`), keys that only a whole model needs are not reported.
std::vector<Note> unread_settings(const Found& layer, const Description& description, bool whole);

/// The same for a lone layer whose family has a description of the whole model.
void note_unread_settings(const Found& layer, std::vector<Note>& notes);

/// Whether a key is known to change no number, whatever its value or with this one.
bool is_ignored_setting(std::string_view key, std::string_view value);

/// The name of the model in the name of a class or a model_type, in lower case: "xlmroberta" for
/// XLMRobertaForMaskedLM and xlm-roberta, "gemma3" for gemma3_text.
std::string model_of_name(std::string_view name);

/// Warns about a rotary base or a norm's eps in config.json that the group's description neither
/// reads nor gives, because another number would be used.
std::vector<Note> unread_by_description(const Group& group);

} // namespace mha::naming
