#pragma once
// More mistakes planted into the reference, those of real bug reports: rotary embeddings, norms,
// masks, softmaxes and heads.

#include "support/planted.hpp"

namespace planted {

/// A group each; together they hold every identifier that planted.cpp has not.
std::vector<Mistake> rotary_mistakes();
std::vector<Mistake> norm_mistakes();
std::vector<Mistake> mask_mistakes();
std::vector<Mistake> other_mistakes();
std::vector<Mistake> port_mistakes();
/// Those that a stage with each score or weight shows, and the output does not.
std::vector<Mistake> mistakes_of_maps();

} // namespace planted
