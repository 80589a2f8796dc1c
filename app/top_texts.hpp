#pragma once
// stats --top-texts: the texts, and their positions, in which a head adds the most to the stream.

#include "stats_texts.hpp"

#include <memory>

namespace mha::app {

/// Computes the texts some at a time and writes those with the longest vectors of one head.
int write_top_texts(const OpenedModel& model, const TextStatsRequest& asked,
                    const std::string& form, Common& common);

} // namespace mha::app
