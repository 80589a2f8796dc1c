#pragma once
// A model's description in JSON (docs/describing.md): --naming FILE.json.

#include <mha/load/families/description.hpp>

#include <memory>
#include <string>

namespace mha {

/// Whether the value of --naming is a file, not a family.
bool is_description(std::string_view naming);
/// The family of this name; nullptr for "". Throws Error with the choices.
const naming::FamilyRow* chosen_family(std::string_view naming);
/// The file with a name for every layer's tensors, where layers share their weights; nothing where
/// they have their own.
std::optional<io::Contents> presented(const io::Contents& file, const naming::Config& config);
/// The user's file: a description of one model under its own names, or a family, which is "like"
/// another one or has "needs", the names that its layers are found by. A family lives as long as
/// the program.
struct UserNaming {
  std::shared_ptr<const naming::Description> description; ///< of one model; else null
  const naming::FamilyRow* family = nullptr;
};
/// Throws Error with line and column for invalid JSON, for an unknown key, for a value of another
/// type, and for a description that contradicts itself.
UserNaming read_naming(const std::string& path);
/// The description in a family's file for a layer, with its cases resolved.
std::shared_ptr<const naming::Description> described_family(const JsonTree& tree,
                                                            const naming::FamilyRow& family);
/// The JSON schema of a description, as `info --schema` prints it.
std::string description_schema();

} // namespace mha
