#include "analysis/explain.hpp"

#include "commands/commands.hpp"
#include "io/writer.hpp"
#include "options.hpp"
#include "render/explain.hpp"

#include <memory>

namespace mha::app {

namespace {

struct Options {
  Request request;
  Selection selection;
  Common common;
  render::ExplainStyle style;
  std::string format = "text", output = "-";
};

/// The one index that a list means. Explanations are of one token.
std::size_t single(const IndexList& list, std::size_t count, std::string_view what) {
  const std::vector<std::size_t> indices = list.resolve(count, what).indices;
  if (indices.size() != 1)
    throw UsageError(fmt::format("{} {} means {} {}; explain tells of one at a time", list.option(),
                                 list.text(), indices.size(), what));
  return indices.front();
}

ExplainRequest request_for(const Layer& layer, const Selection& selection) {
  const Dims& dims = layer.dims;
  ExplainRequest request;
  if (selection.query)
    request.query = single(*selection.query, dims.T, "queries");
  else if (dims.T != 1)
    throw UsageError(fmt::format("which query? --query 0 to {}", dims.T == 0 ? 0 : dims.T - 1));
  if (selection.head) request.head = single(*selection.head, dims.H, "heads");
  if (selection.batch && !dims.batched)
    fail("{} {}: the input is not batched", selection.batch->option(), selection.batch->text());
  if (selection.batch) request.batch = single(*selection.batch, dims.B, "batch items");
  return request;
}

int run(Options& options) {
  const Model model(options.request);
  const bool to_file = options.output != "-";
  options.style.look = to_file ? render::Look{} : look_of_output(options.common.color);
  const bool several = model.chosen().size() > 1;
  std::string text;
  for (const std::string& id : model.chosen()) {
    const LoadedLayer loaded = load_layer(model, id, options.common);
    const Explanation explanation = [&] {
      const Stopwatch watch(options.common.compute_s);
      return explain(loaded.layer, request_for(loaded.layer, options.selection),
                     options.common.threads);
    }();
    if (options.format == "json") {
      text += render::explain_json(explanation, id) + "\n";
      continue;
    }
    if (several && !text.empty()) text += "\n";
    options.style.layer = id;
    text += render::explain_text(explanation, options.style);
  }
  {
    const Stopwatch watch(options.common.write_s);
    if (to_file)
      io::write_whole(options.output, text);
    else
      print(text);
  }
  report_timings(options.common);
  return 0;
}

} // namespace

Run declare_explain(Cli& cli) {
  auto options = std::make_shared<Options>();
  cli.about("Walks one query token through the layer, step by step with its numbers: with --head "
            "one head in "
            "full, without it every head in brief and how they are joined.");
  add_layer(cli, options->request);
  add_selection(cli, options->selection,
                {.batch = true, .head = true, .query = true, .key = false});
  cli.group("Output");
  cli.value("--top", "N", options->style.top, "keys that a long row lists; default: 10");
  cli.value("--precision", "N", options->style.digits, "significant digits; default: 4");
  cli.choice("--format,-f", {"text", "json"}, options->format,
             "text for eyes, or one JSON object with every number in full; default: text");
  cli.value("--output,-o", "PATH", options->output, "write to a file; default: standard output")
      .offers(Completes::files);
  add_common(cli, options->common);
  cli.example("explain data/quickstart.json --query 2 --head 0",
              "one head, from x to its part of the output");
  cli.example("explain data/quickstart.json --query 2", "every head in brief");
  cli.example("explain data/induction --layer 1 X=data/induction/hidden.npz:layers.1 --causal "
              "--tokens data/induction/tokens.json --query 17 --head 0 --top 3",
              "a long row: the three keys with the largest weights, the others summed up");
  cli.example("explain data/quickstart.json --query 2 --head 0 -f json",
              "the same numbers for a program");
  return [options] { return run(*options); };
}

} // namespace mha::app
