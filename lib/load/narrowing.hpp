#pragma once
// Computing in float32 what was said in more: what it loses is told, or refused.

#include <mha/layer/settings.hpp>
#include <mha/system/note.hpp>
#include <mha/tensor/tensor.hpp>

#include <string>
#include <vector>

namespace mha {

/// The numbers of a tensor in `dtype`. Where finite ones become infinite, or others 0, `notes` gets
/// a line that says how many, and the first; −inf in a mask (`is_mask`) masks as what it was.
Tensor narrowed(const Tensor& tensor, DType dtype, const std::string& source, bool is_mask,
                std::vector<Note>& notes);

/// Throws Error for a number among the settings that is computed with in `dtype` and is infinite
/// there, or 0 where it was not: "--softcap is 1e39: float32 ends at 3.4e38; …".
void require_settings_within(const Settings& settings, DType dtype);

} // namespace mha
