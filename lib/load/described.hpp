#pragma once
// The layers of a checkpoint that a user's description names, --naming FILE.json.

#include <mha/load/families/description.hpp>
#include <mha/load/read_description.hpp>

#include <memory>
#include <vector>

namespace mha {

/// Whether the file has at least one tensor that the description names.
bool has_described_tensors(const naming::Description& description, const io::Contents& file);

/// The layers of the file, which refer to it. Checks every tensor that the description names
/// against the others without reading large ones. `options` override the description's settings.
/// `reads` records the settings and tensors that are asked for. Throws Error with the line of the
/// description whose tensor is missing or has another shape.
std::vector<naming::Found>
described_layers(const std::shared_ptr<const naming::Description>& description,
                 const io::Contents& file, const naming::Config& config,
                 const naming::Options& options, const std::shared_ptr<naming::Reads>& reads);

/// The layers of a file by the user's description or family, else by any family; none where the
/// file has none of their tensors.
std::vector<naming::Found> layers_by(const UserNaming& by, const io::Contents& file,
                                     const naming::Config& config, const naming::Options& options,
                                     const std::shared_ptr<naming::Reads>& reads);

/// The prefix of the layer's tensor names in the file.
std::string prefix_in_file(const naming::Group& group);

/// Whether the user's description lists a tensor under "ignore".
bool is_ignored(const naming::Description& description, const std::string& name);

/// A warning that lists the tensors the description does not name; empty if there are none.
std::vector<Note> unclaimed_tensors(const naming::Group& group);

} // namespace mha
