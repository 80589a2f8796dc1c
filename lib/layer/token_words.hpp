#pragma once
// Tokens found by their text.

#include <string>
#include <vector>

namespace mha {

/// Every position of a token among labels, in which a blank may be shown as ␣ and a line's end as
/// ⏎; with a blank before it where there is none without.
std::vector<std::size_t> places_of_token(const std::string& word,
                                         const std::vector<std::string>& labels);

} // namespace mha
