#pragma once
// A model's description in JSON (docs/describing.md): --naming FILE.json.

#include <mha/load/families/description.hpp>

#include <memory>
#include <string>

namespace mha {

/// Whether what --naming says is a file, not a family.
bool is_description(std::string_view naming);
/// Throws Error with line and column for what is no JSON, for a key that is not known, for a value
/// of another type, and for a description that contradicts itself.
std::shared_ptr<const naming::Description> read_description(const std::string& path);
/// The same of what a family's file says for a layer, without its cases.
std::shared_ptr<const naming::Description> described_family(const JsonTree& tree,
                                                            const naming::Family& family);
/// A JSON schema of what it takes, as `info --schema` prints it.
std::string description_schema();

} // namespace mha
