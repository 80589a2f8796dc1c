#pragma once
// Other implementations' names of saved stages. A name means something else among results than
// among inputs: q_proj is the projection's result, not its weight.

#include <mha/layer/stage.hpp>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mha {

/// The stages that the name of a result may mean, in the order of the computation; none if it is
/// not a stage. Ignores prefixes ("blocks.0.attn.") and suffixes of llama.cpp ("Qcur-0", "k
/// (view)").
std::vector<Stage> result_stages(std::string_view name);

/// Whether the name is the one in the stage table: "weights", not "attn_probs".
bool is_stage_name(std::string_view name);

/// "Qcur-7" → {"Qcur", 7}, as llama.cpp names the nodes of a layer; other names have no number.
std::pair<std::string_view, std::optional<std::size_t>> without_layer_suffix(std::string_view name);

/// The words of the table, for docs and tests: {word, stages it may mean}.
std::vector<std::pair<std::string_view, std::vector<Stage>>> result_words();

} // namespace mha
