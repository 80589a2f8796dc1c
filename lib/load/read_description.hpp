#pragma once
// A model's description in JSON (docs/describing.md): --naming FILE.json.

#include <mha/load/families/description.hpp>

#include <memory>
#include <string>

namespace mha {

/// Whether what --naming says is a file, not a family.
bool is_description(std::string_view naming);
/// The family that a name chooses; nullptr: none is said. Throws Error with the choices.
const naming::FamilyRow* chosen_family(std::string_view naming);
/// A file under the names that its layers are looked for by, where they share their weights;
/// nothing: they have their own.
std::optional<io::Contents> presented(const io::Contents& file, const naming::Config& config);
/// What the user's file says: of one model under its names; or of a family, which it is "like", or
/// whose layers are found by names that each "needs". A family lives as long as the program.
struct UserNaming {
  std::shared_ptr<const naming::Description> description; ///< of one model; else null
  const naming::FamilyRow* family = nullptr;
};
/// Throws Error with line and column for what is no JSON, for a key that is not known, for a value
/// of another type, and for a description that contradicts itself.
UserNaming read_naming(const std::string& path);
/// The same of what a family's file says for a layer, without its cases.
std::shared_ptr<const naming::Description> described_family(const JsonTree& tree,
                                                            const naming::FamilyRow& family);
/// A JSON schema of what it takes, as `info --schema` prints it.
std::string description_schema();

} // namespace mha
