#pragma once
// Float64 numbers that are computed with in float32: losses are noted or refused.

#include <mha/layer/settings.hpp>
#include <mha/system/note.hpp>
#include <mha/tensor/tensor.hpp>

#include <string>
#include <vector>

namespace mha {

/// The numbers of a tensor in `dtype`. Where finite ones become infinite, or others 0, `notes` gets
/// their count and the first. In a mask (`is_mask`) becoming −inf is harmless.
Tensor narrowed(const Tensor& tensor, DType dtype, const std::string& source, bool is_mask,
                std::vector<Note>& notes);

/// Throws Error for a number among the settings that `dtype` turns into infinity, or into 0:
/// "--softcap is 1e39: float32 ends at 3.4e38; …".
void require_settings_within(const Settings& settings, DType dtype);

} // namespace mha
