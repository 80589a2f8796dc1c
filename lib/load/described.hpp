#pragma once
// Reads a checkpoint by a naming description, a file that maps its tensor names to this project's.

#include <mha/load/families/description.hpp>

#include <memory>
#include <vector>

namespace mha {

/// Whether the file has at least one tensor that the description names.
bool has_described_tensors(const naming::Description& description, const io::Contents& file);

/// The file's tensors as "described.layers.N.W_q", "described.layers.N.mlp.in.weight",
/// "described.embed.token.weight" and so on. They are transposed, stacked, split or merged with
/// batch norm statistics only when read. A tensor that the description does not name keeps its
/// name; one that it ignores is left out. Layers with shared weights refer to the same memory.
/// `options` override the description's settings. `reads` records the settings and tensors that are
/// asked for. Throws Error that names the description's line whose tensor is missing or has another
/// shape.
io::Contents described_contents(const naming::Description& description, const io::Contents& file,
                                const naming::Config& config, const naming::Options& options,
                                const std::shared_ptr<naming::Reads>& reads);

/// The layers in the result of described_contents. They refer to `contents`; no tensor is read.
std::vector<naming::Found>
described_layers(const std::shared_ptr<const naming::Description>& description,
                 const io::Contents& contents, const naming::Config& config,
                 const std::shared_ptr<naming::Reads>& reads);

/// The prefix of the layer's tensor names in the file.
std::string prefix_in_file(const naming::Group& group);

/// A warning that lists the tensors the description does not name; empty if there are none.
std::vector<Note> unclaimed_tensors(const naming::Group& group);

} // namespace mha
