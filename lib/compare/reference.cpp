#include <mha/compare/reference.hpp>

#include <mha/compare/reader.hpp>
#include <mha/files/text.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mha {

const ReferenceStage* Reference::find(Stage stage) const {
  const auto at = std::find_if(stages.begin(), stages.end(),
                               [&](const ReferenceStage& one) { return one.stage == stage; });
  return at == stages.end() ? nullptr : &*at;
}

bool Reference::has_misshapen() const {
  return std::ranges::any_of(not_compared,
                             [](const NotCompared& one) { return one.misshapen.has_value(); });
}

namespace {

/// The number of heads in a shape of the stage; 0 if it has no axis of heads.
std::size_t heads_in(Stage stage, const Shape& shape) {
  const std::vector<Dim>& letters = info_of(stage).letters;
  const Axis first = axis_of(letters[0]);
  if ((first != Axis::head && first != Axis::kv_head) || shape.size() < letters.size()) return 0;
  return shape[shape.size() - letters.size()];
}

/// The numbers of heads in the reference and in this layer, by misshapen stages that agree on them.
struct HeadCounts {
  std::size_t saved = 0, ours = 0;
  bool differ() const { return saved != 0 && saved != ours; }
  /// Returns false if this stage contradicts the stages before.
  bool add(const NotCompared& tensor) {
    const std::size_t heads = heads_in(*tensor.misshapen, tensor.shape);
    if (heads == 0 || (saved != 0 && saved != heads)) return false;
    saved = heads, ours = heads_in(*tensor.misshapen, tensor.expected);
    return true;
  }
};

} // namespace

std::string Reference::about_heads() const {
  HeadCounts query, key;
  for (const NotCompared& one : not_compared) {
    if (!one.misshapen) continue;
    const bool of_keys = axis_of(info_of(*one.misshapen).letters[0]) == Axis::kv_head;
    if (!(of_keys ? key : query).add(one)) return "";
  }
  const bool of_keys = !query.differ();
  const HeadCounts& counts = of_keys ? key : query;
  if (!counts.differ()) return "";
  return fmt::format("the reference has {} {}head{}, this layer {}: give --num-{}heads {}",
                     counts.saved, of_keys ? "key/value " : "", counts.saved == 1 ? "" : "s",
                     counts.ours, of_keys ? "kv-" : "", counts.saved);
}

std::string NotCompared::text() const {
  return misshapen ? name + " " + reason : fmt::format("{} ({})", name, reason);
}

Reference read_reference(const Layer& layer, const ReferenceFiles& sources,
                         const std::string& layer_id, const WholeModelOfLayer* model) {
  Reader reader(layer, layer_id, model);
  std::vector<std::pair<io::Source, bool>> files; // and whether it is this layer's own
  for (const std::string& text : sources.texts()) {
    const io::Source source = io::parse_source(text), here = io::with_layer(source, layer_id);
    const bool own = io::mentions_layer(source);
    if (own && layer_id.empty() && model) continue; // of no layer
    if (own && layer_id.empty())
      fail("<against> {}: {{layer}} needs a layer number, and this layer has none",
           io::shown(text));
    if (source.name.empty() || (model && !own && sources.file_of(source)))
      files.emplace_back(here, own);
    else
      reader.bind(here, own);
  }
  for (const auto& [file, own] : files) reader.read(*sources.open(*sources.file_of(file)), own);
  return reader.finish(sources.texts());
}

Reference read_reference(const Layer& layer, const std::vector<std::string>& sources,
                         const std::string& layer_id, const WholeModelOfLayer* model) {
  return read_reference(layer, ReferenceFiles(sources), layer_id, model);
}

} // namespace mha
