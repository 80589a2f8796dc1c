#pragma once
// The norm before attention, by a family's file or a user's description.

#include <mha/load/described_file.hpp>
#include <mha/load/families/description.hpp>
#include <mha/load/families/family.hpp>

namespace mha::naming {

/// Takes the norm before attention with its settings, or notes that there is none. `width` is that
/// of the stream; 0: unknown.
void take_input_norm(const Description& description, const Group& group, const DescribedFile& file,
                     std::size_t width, LayerReading& to);
/// Takes the norm's tensors alone.
void take_norm_tensors(const DescribedNorm& norm, const Description& description,
                       const DescribedFile& file, std::size_t width, LayerReading& to);

} // namespace mha::naming
