#pragma once
// A layer cut to its first tokens, or to one text of its batch.

#include <mha/layer/layer.hpp>

namespace mha {

/// The layer with the first `count` queries and current keys of every batch item alone; the items
/// keep their numbers. They have the bits of texts without padding. The layer has no keys but the
/// current ones (others are returned unchanged).
Layer first_tokens(const Layer& layer, std::size_t count);

/// The layer of one batch item alone, as item 0, without the padding after it: a batch of one,
/// whose masks, given stages and patches are that item's. It shares the memory of what it need not
/// shorten, so that it costs what the item does, whatever the batch. A layer without a batch
/// is returned unchanged.
Layer one_item(const Layer& layer, std::size_t batch);

} // namespace mha
