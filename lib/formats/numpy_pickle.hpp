#pragma once
// Arrays and numbers of NumPy in a pickle.

#include <mha/formats/torch_values.hpp>

namespace mha::io {

/// Adds what numpy's _reconstruct, _frombuffer or scalar would make: an array, a list of text, or a
/// number, which is a setting. Throws Error where its state does not fit together.
void add_pickled_array(Contents& contents, const std::shared_ptr<const PickleFile>& file,
                       std::string name, Pickle::Ref value);

} // namespace mha::io
