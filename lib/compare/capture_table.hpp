#pragma once
// The table of modules' and graph nodes' names, and what each means.

#include <mha/compare/captures.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace mha {

/// The blocks in which a row of the table holds.
enum class When : std::uint8_t { any, sequential, parallel, post, inner, gated, plain, bare };

struct CaptureMeaning {
  When when;
  std::string_view words; ///< the last one to three words of a module's path
  std::vector<Stage> output, input;
  std::string_view why = {};
};

/// What the modules of a layer and of the model's ends mean. The first row that holds wins.
const std::vector<CaptureMeaning>& layer_meanings();
const std::vector<CaptureMeaning>& model_meanings();

/// The last words of a path, with dots.
std::string tail_of(const std::vector<std::string>& words, std::size_t count);
/// The row of a path's last words, longer ones before shorter ones, of at least `fewest` words;
/// null: none.
const CaptureMeaning* meaning_of(const std::vector<CaptureMeaning>& table,
                                 const std::vector<std::string>& words, const Surroundings& model,
                                 std::size_t fewest = 1);

} // namespace mha
