#pragma once
// The families, each defined in the file of its name.

#include "naming/family.hpp"

namespace mha::naming {

extern const Family llama, pytorch;

} // namespace mha::naming
