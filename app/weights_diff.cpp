#include "weights_diff.hpp"

#include "console.hpp"
#include <mha/compare/weights.hpp>
#include <mha/render/diff.hpp>

namespace mha::app {

namespace {

/// What says something of a layer says nothing of two files' weights.
void require_two_files(const RunRequest& request, const std::vector<std::string>& against) {
  if (!against.empty())
    throw UsageError("--weights compares two sources, A and B: leave out --against");
  if (request.sources.size() != 2)
    throw UsageError(
        fmt::format("--weights compares two sources, A and B, not {}", request.sources.size()));
  for (const std::string& source : request.sources)
    if (!io::parse_source(source).name.empty())
      throw UsageError(fmt::format("{}: --weights compares two files or folders", source));
  if (request.has_text() || !request.settings.empty() || !request.layer.empty() ||
      !request.prefix.empty() || request.patches || request.dtype)
    throw UsageError("--weights compares all tensors of two files: a text, a layer, a patch or a "
                     "setting changes nothing; leave them out");
}

} // namespace

int diff_two_checkpoints(const RunRequest& request, const std::vector<std::string>& against,
                         const OutputOptions& output, const Common& common) {
  require_two_files(request, against);
  const WeightOptions options{request.naming, request.config, request.gguf_order};
  const auto [a, b] = open_weights(request.sources[0], request.sources[1], options);
  if (request.gguf_order && a.format != "gguf" && b.format != "gguf")
    report_notes({idle_gguf_order()}, common);
  const WeightsDiff diff = diff_weights(a, b);
  const render::TextStyle text_style =
      output.to_standard_output() ? text_style_of_output(common.color) : render::TextStyle{};
  write_text(output.path, render::weights_text(diff, form_of(output), text_style));
  return diff.same() ? 0 : 1;
}

} // namespace mha::app
