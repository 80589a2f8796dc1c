#pragma once
// An axis of a stage or a tensor in one batch item, as places count it.

#include <mha/layer/stage_place.hpp>

namespace mha {

/// An axis of tokens or of keys of a batch item; of features, whose positions all items share.
ItemAxis axis_of_item(const Message& where, const Layer& layer, Dim letter, std::size_t b);

} // namespace mha
