#pragma once
// A checkpoint that a description names, under the names of the description's record.

#include <mha/load/families/description.hpp>

#include <memory>
#include <vector>

namespace mha {

/// Whether a tensor that the description names is in the file.
bool has_described_tensors(const naming::Description& description, const io::Contents& file);

/// The file's tensors as "described.layers.N.W_q", "described.layers.N.mlp.in.weight",
/// "described.embed.token.weight" …: turned, stacked, split, batch norms folded, all when they are
/// read. What the description does not name keeps its name; what it ignores is left out. Layers
/// that share their weights are layers of one memory. `options`: settings that win over the
/// description's. Throws Error that says which line of the description wants what is missing or has
/// another shape.
io::Contents described_contents(const naming::Description& description, const io::Contents& file,
                                const naming::Config& config, const naming::Options& options,
                                const std::shared_ptr<naming::Reads>& reads);

/// The layers of such contents, which stay where they are.
std::vector<naming::Found>
described_layers(const std::shared_ptr<const naming::Description>& description,
                 const io::Contents& contents, const naming::Config& config,
                 const std::shared_ptr<naming::Reads>& reads);

/// What stands before the names of a layer's tensors in the file itself.
std::string prefix_in_file(const naming::Group& group);

/// A warning that lists the tensors that the description does not name, or nothing.
std::vector<Note> unclaimed_tensors(const naming::Group& group);

} // namespace mha
