// stages: lists every stage, with the shapes of a layer if one is given.

#include "commands/commands.hpp"
#include "describe.hpp"
#include "output.hpp"
#include <mha/render/stages.hpp>

namespace mha::app {

namespace {

struct Stages {
  RunRequest request;
  OutputOptions output;
  Common common;

  int run();
};

int Stages::run() {
  const render::TextStyle text_style = text_style_of_output(common.color);
  std::string text;
  std::optional<LoadedLayer> loaded;
  const std::string form = form_of(output);
  if (request.sources.empty() && !request.settings.empty())
    throw UsageError(
        fmt::format("{} applies to a layer, but none is given: give its SOURCE, or leave it out",
                    request.settings[0].first));
  if (!request.sources.empty()) {
    OpenedModel model = open_model(request, common);
    if (model.chosen().size() > 1)
      fail("stages shows the shapes of a single layer; choose one with --layer");
    loaded.emplace(load_layer(model, model.chosen()[0], common));
    if (form == "table") text = headline(model, *loaded, text_style) + "\n";
  }
  const Layer* layer = loaded ? &loaded->layer : nullptr;
  write_text(output.path, text + render::stages_text(layer, form, text_style));
  return 0;
}

} // namespace

Run declare_stages(Cli& cli) {
  const auto stages = std::make_shared<Stages>();
  cli.about("Lists every stage of multi-head attention in the order of the computation: its name, "
            "shape and formula, when a layer has it, and its names in other tools. With SOURCEs, "
            "also the shapes in that layer.");
  add_output(cli, stages->output, result_formats(), "write to a file");
  const std::size_t first = cli.options().size();
  add_layer(cli, stages->request, false);
  cli.unused(cli.names_from(first), [stages] {
    return stages->request.sources.empty()
               ? std::string(
                     "applies to a layer, but none is given: give its SOURCE, or leave it out")
               : "";
  });
  add_common(cli, stages->common, false);
  cli.example("stages", "list all stages");
  cli.example("stages data/quickstart.json", "list them with the shapes of a layer");
  cli.example("stages --format markdown", "print the page docs/stages.md in Markdown");
  return [stages] { return stages->run(); };
}

} // namespace mha::app
