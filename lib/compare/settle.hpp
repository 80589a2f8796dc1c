#pragma once
// Choice among the readings of a reference that names and shapes leave open, by the numbers.

#include <mha/compare/reference.hpp>

namespace mha {

/// The reference with every ambiguous name and every doubtful order of axes decided, the best
/// reading first, then others that leave as few steps wrong (at most 4). Never empty.
///
/// A reading that agrees is taken. If none does, the implementation has a mistake, and the nearest
/// reading may mislead. Then the reading is taken under which the fewest steps are wrong by
/// themselves, computed from the reference's own earlier stages, and among equals the one with the
/// most similar direction. Axes are those that agree or have a similar direction, else those of the
/// reference's other stages. A stage that the reference has by its own name is not a candidate.
std::vector<Reference> settled(const Layer& layer, Reference reference, std::size_t threads = 0);

/// The best reading of settled().
void settle(const Layer& layer, Reference& reference, std::size_t threads = 0);

} // namespace mha
