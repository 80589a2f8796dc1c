#pragma once
// Whether the settings fit the layer, once its sizes are known.

#include <mha/layer/layer.hpp>
#include <mha/system/note.hpp>

namespace mha {

/// Throws Error for a setting that does not fit; `head_source` is the tensor that says d_k and
/// `output_source` the one that says the output's width. `notes` gets a line for every option of
/// the command line that changes nothing.
void check_settings(const Layer& layer, const std::string& head_source,
                    const std::string& output_source, std::vector<Note>& notes);

} // namespace mha
