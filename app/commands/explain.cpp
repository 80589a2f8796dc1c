// explain: walks one query token through a layer.

#include "commands/commands.hpp"
#include "options.hpp"
#include "output.hpp"
#include <mha/explain/explain.hpp>
#include <mha/observe/overflow.hpp>
#include <mha/render/explain.hpp>

#include <map>
#include <memory>
#include <set>

namespace mha::app {

namespace {

struct Explain {
  RunRequest request;
  Selection selection;
  Common common;
  OutputOptions output;
  render::ExplainStyle style;

  int run();
  bool as_json() const;
  void note_default_query(std::size_t query, std::size_t count);
  void report_non_finite(const Layer& layer, const Explanation& explanation) const;

private:
  std::set<std::string> printed_notes_; ///< so that each is printed once, not for every layer
};

/// The only index in a list. Throws if there are several, since an explanation is of one token.
std::size_t single_index(const IndexList& list, std::size_t count, std::string_view noun) {
  const std::vector<std::size_t> indices = list.resolve(count, noun).indices;
  if (indices.size() != 1)
    throw UsageError(fmt::format("{} {} selects {} {}; explain shows one at a time",
                                 console_text(list.option()), list.text(), indices.size(), noun));
  return indices.front();
}

/// The key whose score is written out: one of one head.
std::optional<std::size_t> key_for(const Layer& layer, const Selection& selection,
                                   const ExplainRequest& request) {
  if (!selection.key) return std::nullopt;
  const std::size_t key = single_index(*selection.key, layer.dims.S_all, "keys");
  if (!request.head)
    throw UsageError(
        fmt::format("--key writes out the score of one head: choose one of the {} with "
                    "--head",
                    layer.dims.H));
  return key;
}

ExplainRequest request_for(const Layer& layer, const Selection& selection) {
  const Dims& dims = layer.dims;
  ExplainRequest request;
  if (dims.T == 0) throw UsageError("there are no queries to explain");
  if (dims.H == 1) request.head = 0; // nothing to join: its steps are the story
  if (selection.head) request.head = single_index(*selection.head, dims.H, "heads");
  if (selection.batch && !dims.batched)
    fail("{} {}: the input is not batched", selection.batch->option(), selection.batch->text());
  if (selection.batch) request.batch = single_index(*selection.batch, dims.B, "batch items");
  request.query = selection.query
                      ? single_index(*selection.query, layer.length_of(request.batch), "queries")
                      : layer.length_of(request.batch) - 1;
  return request;
}

bool Explain::as_json() const {
  return form_of(output) == "json";
}

void Explain::note_default_query(std::size_t query, std::size_t count) {
  const std::string note =
      fmt::format("explaining query {}, the last of {}; --query chooses another", query, count);
  if (printed_notes_.insert(note).second) print_note(note, common);
}

/// Warns about NaN and infinity in a layer of a whole model. Layers of other files are checked when
/// they are loaded.
void Explain::report_non_finite(const Layer& layer, const Explanation& explanation) const {
  if (!layer.block) return;
  for (const HeadExplanation& head : explanation.heads) {
    if (!has_not_finite(explanation, head)) continue;
    const std::string problem_of_layer = not_finite_text(layer);
    const std::optional<Overflow> found =
        problem_of_layer.empty()
            ? find_overflow(layer, explanation.batch, head.head, explanation.query)
            : std::nullopt;
    return report_overflow(found ? overflow_text(layer, *found) : problem_of_layer, common);
  }
}

int Explain::run() {
  OpenedModel model = open_model(request, common);
  if (output.to_standard_output()) style.text_style = text_style_of_output(common.color);
  const bool json = as_json(), several = model.chosen().size() > 1;

  // The texts of each file: all layers one after the other, unless the path has placeholders.
  std::map<std::string, std::vector<std::string>> files;
  for (const std::string& id : model.chosen()) {
    const LoadedLayer loaded = load_layer(model, id, common);
    require_some_stages(loaded.layer); // reports a missing input before an invalid selection
    std::vector<Stage> stages{Stage::weights}; // has a head axis, so {head} in PATH has a meaning
    for (const PlannedFile& file : planned_files(output.path, loaded, selection, stages, false)) {
      const Stopwatch watch(common.compute_s);
      const ExplainRequest asked = request_for(loaded.layer, file.selection);
      if (!selection.query && loaded.layer.dims.T > 1)
        note_default_query(asked.query, loaded.layer.length_of(asked.batch));
      const Explanation explanation = explain(loaded.layer, asked, common.threads, model.compute());
      report_non_finite(loaded.layer, explanation);
      style.layer = id;
      style.key = key_for(loaded.layer, file.selection, asked);
      files[file.path].push_back(json ? render::explain_json(explanation, id)
                                      : render::explain_text(explanation, style));
    }
  }
  const Stopwatch watch(common.write_s);
  for (const auto& [path, texts] : files) {
    TextFile file(path);
    const render::Sink sink = file.sink();
    const bool as_list = json && several && texts.size() > 1;
    if (as_list) sink("[\n");
    for (std::size_t i = 0; i < texts.size(); ++i)
      sink((i == 0 ? "" : json ? ",\n" : "\n") + texts[i]);
    if (json) sink(as_list ? "\n]\n" : "\n");
    file.finish();
  }
  return 0;
}

} // namespace

Run declare_explain(Cli& cli) {
  const auto explain = std::make_shared<Explain>();
  cli.about(
      "Walks one query token through the layer step by step, with its numbers. With --head, or if "
      "there is only one, one head is explained in full; without it, every head in brief and how "
      "the heads are joined. --key writes out how the score of one key becomes its weight. The "
      "share of a head is its contribution projected onto the output; the shares "
      "of all heads and of b_o sum to 1.");
  add_layer(cli, explain->request);
  add_selection(cli, explain->selection, {.batch = true, .head = true, .query = true, .key = true});
  add_output(cli, explain->output, {"text", "json"},
             "write to a file; {layer}, {batch} and {head} in PATH write one file for each; "
             "default: standard output",
             all_placeholders);
  cli.value("--top", "N", explain->style.top, "number of keys listed for a long row; default: 10");
  cli.value("--precision", "DIGITS", explain->style.digits,
            "significant digits in the text; default: 4. JSON has all digits");
  cli.unused({"--top", "--precision", "--key"}, [explain] {
    return form_of(explain->output) == "json"
               ? std::string("applies to the text: JSON has all keys and all digits")
               : "";
  });
  add_common(cli, explain->common);
  cli.example("explain data/quickstart.json --query 2 --head 0",
              "explain one head, from x to what it adds to the output");
  cli.example("explain data/quickstart.json --query 2 --head 0 --key 0",
              "write out one score, and how it becomes a weight");
  cli.example("explain data/quickstart.json --query 2", "explain every head in brief");
  cli.example("explain data/induction --layer 1 X=data/induction/hidden.npz:layers.1 --causal "
              "--tokens data/induction/tokens.json --query 17 --head 0 --top 3",
              "shorten a long row to the three keys with the largest weights");
  cli.example("explain data/quickstart.json --query 2 --head 0 -f json",
              "print the same numbers for a program");
  return [explain] { return explain->run(); };
}

} // namespace mha::app
