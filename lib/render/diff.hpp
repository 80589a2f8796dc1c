#pragma once
// Results of `diff`: a table for eyes with the first difference marked, and JSON.

#include <mha/compare/diff.hpp>
#include <mha/render/text.hpp>

namespace mha::render {

/// The table, what the other rows mean, and what was not compared. `next` is the sentence that says
/// what to look at, or "".
std::string diff_table(const Layer& layer, const Diff& diff, const Reference& reference,
                       const std::string& next, const TextStyle& text_style);
/// "query 17 't9'", "head 2 query 17 key 4": the place of an element of a stage.
std::string place_text(const Layer& layer, Stage stage, const std::vector<std::size_t>& at);

/// A layer's number, and its object by diff_json.
struct LayerDiff {
  std::string layer; ///< "" where the layer has no number
  std::string json;
};
/// One object; of several layers one keyed by layers.N.
std::string diff_json(const Diff& diff, const Reference& reference);
std::string diff_json(const std::vector<LayerDiff>& layers);

} // namespace mha::render
