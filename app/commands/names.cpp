// names: the table of every tensor and setting that a layer may have.

#include "commands/commands.hpp"
#include "output.hpp"
#include <mha/render/stages.hpp>

namespace mha::app {

Run declare_names(Cli& cli) {
  struct Names {
    OutputOptions output;
    Common common;
  };
  const auto names = std::make_shared<Names>();
  cli.about("Lists every tensor of a layer with its name, shape, meaning and other accepted names "
            "in files and bindings, followed by every setting. The tensor names of model families "
            "are also recognised, as `info` shows.");
  add_output(cli, names->output, result_formats(), "write to a file");
  add_common(cli, names->common, false);
  cli.example("names", "list all names");
  cli.example("names --format markdown", "print the table of docs/formats.md");
  return [names] {
    const std::string form = form_of(names->output);
    write_text(names->output.path,
               render::names_text(form, text_style_of_output(names->common.color)));
    return 0;
  };
}

} // namespace mha::app
