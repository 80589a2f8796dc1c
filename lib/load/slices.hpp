#pragma once
// Parts of tensors in bindings: q=q.npy[0:20], k=kv.pt:k[0], w=w.npz:w[..., 2].

#include <mha/files/contents.hpp>

#include <string>
#include <string_view>

namespace mha::io {

/// The part of a tensor that a slice names: for each axis from the first on `i`, which drops the
/// axis, or `a:b` or `a:b:step`, negative from the end; `...` is all axes between. Throws
/// Error for more than the axes, and positions out of range; `where` begins messages.
Entry sliced(const Entry& entry, std::string_view slice, const std::string& where);

} // namespace mha::io
