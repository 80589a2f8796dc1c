#pragma once
// Readings that names and shapes of a reference leave open, decided by the numbers.

#include <mha/compare/reference.hpp>

namespace mha {

/// The reference with every ambiguous name and every doubtful order of axes decided, the best
/// reading first, then others that leave as few steps wrong (at most 4). Never empty.
///
/// A reading that agrees is taken. Where none does, the implementation has a mistake, and what is
/// nearest may mislead: then that reading is taken under which the fewest steps are wrong by
/// themselves, computed from the reference's own stages before them; of as many, the one of the
/// most alike direction. Axes are those that agree or that point the same way, else those of the
/// reference's other stages. A stage that the reference has by its own name is no candidate.
std::vector<Reference> settled(const Layer& layer, Reference reference, std::size_t threads = 0);

/// The best of them.
void settle(const Layer& layer, Reference& reference, std::size_t threads = 0);

} // namespace mha
