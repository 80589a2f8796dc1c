#pragma once
// A layer cut to the length of one text of its batch.

#include <mha/layer/layer.hpp>

namespace mha {

/// The layer with the first `count` queries and current keys of every batch item alone; the items
/// keep their numbers. For a picture or a page of one text without the padding behind it, which
/// has the bits of the text alone. The layer has no keys but the current ones (others are returned
/// as they are).
Layer first_tokens(const Layer& layer, std::size_t count);

/// The layer that tells of one item: cut to its length, where it is a batch of texts of several.
Layer without_padding_of(const Layer& layer, std::size_t batch);

} // namespace mha
