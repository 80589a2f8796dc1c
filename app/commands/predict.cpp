// predict: what a whole model predicts for a text.

#include "commands/commands.hpp"
#include "output.hpp"
#include <mha/model/predict.hpp>
#include <mha/render/predict.hpp>

#include <algorithm>

namespace mha::app {

namespace {

struct Predict {
  Request request;
  Selection selection;
  OutputOptions output;
  std::optional<std::size_t> top;
  bool all = false, each_layer = false;
  Common common;

  int run();

private:
  std::vector<std::size_t> positions(const ModelPass& text) const;
  std::vector<std::size_t> queries_in(std::size_t length) const;
  bool asks_for(const ModelPass& text, const Prediction& one) const;
};

/// The positions of --query in a text, counted from its own end.
std::vector<std::size_t> Predict::queries_in(std::size_t length) const {
  return selection.query->resolve(length, "tokens").indices;
}

/// Of several texts each has its own last position, its own hidden ones, its own --query.
bool Predict::asks_for(const ModelPass& text, const Prediction& one) const {
  if (!selection.query) return all || text.is_asked(one.batch, one.position);
  const std::vector<std::size_t> own = queries_in(text.lengths()[one.batch]);
  return std::ranges::find(own, one.position) != own.end();
}

/// --query, or every position; else the last one of each text, and of a masked model the hidden
/// ones.
std::vector<std::size_t> Predict::positions(const ModelPass& text) const {
  const std::size_t T = text.ids()[0].size();
  std::vector<std::size_t> list;
  if (selection.query) {
    for (std::size_t length : text.lengths())
      for (std::size_t position : queries_in(length)) list.push_back(position);
  } else if (all)
    for (std::size_t t = 0; t < T; ++t) list.push_back(t);
  else if (text.model().causal())
    for (std::size_t length : text.lengths()) list.push_back(length - 1);
  else
    for (const auto& [batch, position] : text.hidden_positions()) list.push_back(position);
  if (list.empty())
    fail("the text hides no token (as [MASK] does), and the model predicts hidden ones; hide one, "
         "or choose positions with --query or --all");
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

int Predict::run() {
  const std::string form = output.is_json() ? "json" : text_form(output);
  if (!request.has_text())
    throw UsageError("predict needs a text: --text \"…\", --text-file FILE or --ids N,N…");
  if (!request.layer.empty())
    throw UsageError("predict tells what the whole model predicts: --layer chooses nothing; "
                     "--each-layer tells it of every layer");
  request.stages = {"logits"};
  std::optional<Model> model;
  {
    const Stopwatch watch(common.read_s);
    model.emplace(request);
  }
  auto& text = dynamic_cast<ModelPass&>(*request.inputs);
  text.threads = common.threads;
  tell_notes(text.notes(), common);
  PredictRequest asked;
  asked.positions = positions(text);
  asked.each_layer = each_layer, asked.threads = common.threads;
  asked.top = top.value_or(all ? 1 : each_layer ? 3 : 10);
  std::vector<Prediction> predictions;
  {
    const Stopwatch watch(common.compute_s);
    predictions = predict(*model, text, asked);
  }
  tell_warnings_on_the_way(text, common);
  std::erase_if(predictions, [&](const Prediction& one) { return !asks_for(text, one); });
  const render::PredictView view{all, text.batched(), text.model().causal(), &text.ids()};
  const render::TokenNames names{[&](int id) { return text.label(id); },
                                 [&](int id) { return text.plain(id); }};
  const Stopwatch watch(common.write_s);
  TextFile file(output.path);
  render::Look look = look_of_output(common.color);
  if (!output.to_standard_output()) look.color = common.color == Color::always;
  if (form == "json")
    file.sink()(render::predict_json(predictions, view, names));
  else if (form == "table")
    file.sink()(render::predict_table(predictions, view, names, look));
  else
    file.sink()(render::predict_csv(predictions, view, names, form == "tsv" ? '\t' : ','));
  file.finish();
  report_timings(common);
  return 0;
}

} // namespace

Run declare_predict(Cli& cli) {
  const auto predict = std::make_shared<Predict>();
  cli.about(
      "Runs a whole model (a checkpoint folder with its config) on a text and tells the most "
      "probable next tokens at the last position, with probability and logit; of a model that "
      "fills in hidden words, those at every [MASK]. It is how to see at once that a model "
      "was understood.");
  cli.group("Predictions");
  cli.flag("--all", predict->all,
           "a line a position: probability and rank of the token that came; mean loss, perplexity");
  cli.value("--top", "N", predict->top, "how many tokens; default: 10");
  cli.flag("--each-layer", predict->each_layer,
           "what the stream of each layer would predict (the logit lens)");
  add_selection(cli, predict->selection,
                {.batch = false, .head = false, .query = true, .key = false});
  add_output(cli, predict->output, {"table", "csv", "tsv", "json"}, "write to a file");
  add_layer(cli, predict->request);
  add_common(cli, predict->common);
  cli.example("predict data/bard-llama --text 'To be, or not to'",
              "the ten most probable next tokens");
  cli.example("predict data/bard-llama --text 'To be, or not to be' --all",
              "how well each token was foretold");
  cli.example("predict data/bard-llama --text 'To be, or not to' --each-layer --top 1",
              "what each layer's stream would predict");
  cli.example("predict data/bard-bert --text 'to be, or not to [MASK].' -f json",
              "a hidden word, for another program");
  return [predict] { return predict->run(); };
}

} // namespace mha::app
