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

Reference read_reference(const Layer& layer, const ReferenceFiles& sources,
                         const std::string& layer_id, const WholeModelOfLayer* model) {
  Reader reader(layer, layer_id, model);
  std::vector<std::pair<io::Source, bool>> files; // and whether it is this layer's own
  for (const std::string& text : sources.texts()) {
    const io::Source source = io::parse_source(text), here = io::with_layer(source, layer_id);
    const bool own = io::mentions_layer(source);
    if (own && layer_id.empty() && model) continue; // of no layer
    if (own && layer_id.empty())
      fail("<against> {}: {{layer}} stands for a number, and this layer has none", io::shown(text));
    if (source.name.empty())
      files.emplace_back(here, own);
    else
      reader.bind(here, own);
  }
  for (const auto& [file, own] : files) reader.read(*sources.open(file.path), own);
  return reader.finish(sources.texts());
}

Reference read_reference(const Layer& layer, const std::vector<std::string>& sources,
                         const std::string& layer_id, const WholeModelOfLayer* model) {
  return read_reference(layer, ReferenceFiles(sources), layer_id, model);
}

} // namespace mha
