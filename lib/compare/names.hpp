#pragma once
// Other implementations' names of saved stages: a name means another thing among
// results than among inputs (q_proj: what the projection gave, not its weight).

#include <mha/layer/stage.hpp>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mha {

/// The stages that the name of a result may mean, in the order of the computation; none: it is no
/// stage. Prefixes ("blocks.0.attn.") and what llama.cpp appends ("Qcur-0", "k (view)") are seen
/// through.
std::vector<Stage> result_stages(std::string_view name);

/// Whether the name is the one that the table of stages prints: "weights", not "attn_probs".
bool is_stage_name(std::string_view name);

/// "Qcur-7" → {"Qcur", 7}, as llama.cpp names the nodes of a layer; other names have no number.
std::pair<std::string_view, std::optional<std::size_t>> without_layer_suffix(std::string_view name);

/// The words of the table, for docs and tests: {word, stages it may mean}.
std::vector<std::pair<std::string_view, std::vector<Stage>>> result_words();

} // namespace mha
