#pragma once
// A reference layer as the library's input: canonical tensors by name, settings as text.

#include "support/random_layer.hpp"
#include <mha/load/assemble.hpp>

/// An array as a tensor of the dtype; `batched` false: without its first axis.
mha::Tensor tensor_of(const reference::Array& array, mha::DType dtype, bool batched = true);

mha::NamedTensors parts_of(const reference::Layer& layer, const Form& form);
mha::Settings settings_of(const reference::Layer& layer, const Form& form);
mha::Layer library_layer(const reference::Layer& layer, const Form& form);
