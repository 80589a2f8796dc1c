#pragma once
// Unicode's normal forms, each character with the place that it came from.

#include <mha/tokenizers/aligned_text.hpp>

namespace mha::tokenizers {

/// NFD; NFKD where `compatible`; NFC or NFKC where also `composed`.
void normalize(AlignedText& text, bool compatible, bool composed);

} // namespace mha::tokenizers
