// predict: what a whole model predicts for a text.

#include "commands/commands.hpp"
#include "output.hpp"
#include "predicted_places.hpp"
#include <mha/load/source.hpp>
#include <mha/model/predict.hpp>
#include <mha/render/part_logits.hpp>
#include <mha/render/predict.hpp>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>

namespace mha::app {

namespace {

struct Predict {
  Request request;
  Selection selection;
  OutputOptions output;
  std::optional<std::size_t> top;
  bool all = false, each_layer = false;
  std::string of;
  Common common;

  int run();

private:
  std::vector<std::size_t> positions(const ModelPass& text) const;
  bool asks_for(const ModelPass& text, std::size_t batch, std::size_t position) const;
  void write_part(const Sources& model, const std::shared_ptr<ModelPass>& text);
  void write(const std::string& path,
             const std::function<std::string(const std::string& form)>& text);
  std::vector<std::pair<std::string, std::vector<Prediction>>>
  files_of(std::vector<Prediction> predictions) const;
};

/// Of several texts each has its own last position, its own hidden ones, its own --query.
bool Predict::asks_for(const ModelPass& text, std::size_t batch, std::size_t position) const {
  if (!selection.query) return all || text.is_asked(batch, position);
  const std::vector<std::size_t> own = positions_in(*selection.query, text, batch);
  return std::ranges::find(own, position) != own.end();
}

render::TokenNames names_of(const ModelPass& text) {
  return {[&](int id) { return text.label(id); }, [&](int id) { return text.plain(id); },
          [&](int id) { return text.piece(id); }};
}

/// --query, or every position; else the last one of each text, and of a masked model the hidden
/// ones.
std::vector<std::size_t> Predict::positions(const ModelPass& text) const {
  const std::size_t T = text.ids()[0].size();
  std::vector<std::size_t> list;
  if (selection.query) {
    for (std::size_t b = 0; b < text.lengths().size(); ++b)
      std::ranges::copy(positions_in(*selection.query, text, b), std::back_inserter(list));
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

/// What each file gets: everything, unless the path has placeholders.
std::vector<std::pair<std::string, std::vector<Prediction>>>
Predict::files_of(std::vector<Prediction> predictions) const {
  if (mentions(output.path, "{layer}") && !each_layer)
    fail("{}: {{layer}} needs --each-layer: else there are predictions of the whole model alone",
         output.path);
  std::vector<std::pair<std::string, std::vector<Prediction>>> files;
  std::map<std::string, std::size_t> places;
  if (predictions.empty()) files.push_back({output.path, {}});
  for (Prediction& one : predictions) {
    const std::string layer = one.layer ? std::to_string(*one.layer) : "",
                      path = with_batch(with_layer(output.path, layer), one.batch);
    const auto [place, is_new] = places.try_emplace(path, files.size());
    if (is_new) files.push_back({path, {}});
    files[place->second].second.push_back(std::move(one));
  }
  return files;
}

/// The form of the output, and its text in a file.
void Predict::write(const std::string& path,
                    const std::function<std::string(const std::string& form)>& text) {
  TextFile file(path);
  file.sink()(text(output.is_json() ? "json" : text_form(output)));
  file.finish();
}

/// --of: what one part of the model writes at the chosen positions, or what a file's vector would.
void Predict::write_part(const Sources& model, const std::shared_ptr<ModelPass>& text) {
  if (all || each_layer)
    throw UsageError("--of shows what one part writes: --all and --each-layer change nothing");
  const TextLayers layers(model, text);
  render::PartView view;
  view.part = of, view.top = top.value_or(10);
  std::vector<PartLogits> parts;
  const io::Source source = io::parse_source("vector=" + of);
  {
    const Stopwatch watch(common.compute_s);
    std::error_code ignored;
    if (std::filesystem::is_regular_file(source.path, ignored)) {
      view.norm = PartNorm::gain;
      parts.push_back(
          {{0, 0}, std::nullopt, vector_logits(layers, io::bound_entry(source).read())});
    } else {
      PatchText place = parse_patch(of + " = zero");
      place.text = "--of " + of;
      view.norm = norm_of_part(place);
      std::vector<TextPosition> places = predicted_places(*text, selection.query);
      std::ranges::sort(places);
      parts = part_logits(layers, place, places, common.threads);
    }
  }
  const render::TokenNames names = names_of(*text);
  const Stopwatch watch(common.write_s);
  write(output.path, [&](const std::string& form) {
    if (form == "json") return render::part_logits_json(parts, view, names);
    if (form == "table")
      return render::part_logits_table(parts, view, names, look_of(output, common.color));
    return render::part_logits_csv(parts, view, names, form == "tsv" ? '\t' : ',');
  });
}

int Predict::run() {
  if (!request.has_text())
    throw UsageError("predict needs a text: --text \"…\", --text-file FILE or --ids N,N…");
  if (!request.layer.empty())
    throw UsageError("predict tells what the whole model predicts: --layer chooses nothing; "
                     "--each-layer tells it of every layer");
  if (!request.tokens.empty() || !request.key_tokens.empty())
    throw UsageError("predict shows the tokens as the checkpoint's tokenizer does: --tokens and "
                     "--key-tokens change nothing; leave them out");
  if (all && top && !output.is_json())
    throw UsageError("--all tells of each position the most probable token and the one that came: "
                     "--top changes nothing there; --format json has more");
  request.stages = {"logits"};
  const Sources model = open_sources(request, common);
  const auto pass = pass_of(request);
  ModelPass& text = *pass;
  text.threads = common.threads;
  report_notes(text.notes(), common);
  if (all) text.require_token_numbers("--all");
  if (!of.empty()) {
    write_part(model, pass);
    report_timings(common);
    return 0;
  }
  PredictRequest asked;
  asked.positions = positions(text);
  asked.each_layer = each_layer, asked.threads = common.threads;
  asked.top = top.value_or(all ? 1 : each_layer ? 3 : 10);
  expect_layers(model, common);
  std::vector<Prediction> predictions;
  {
    const Stopwatch watch(common.compute_s);
    predictions = predict(model, text, asked);
  }
  for (const ModelPass::LayerTimes& layer : text.times())
    common.read_s += layer.read, common.compute_s -= layer.read;
  report_warnings_on_the_way(text, common);
  std::erase_if(predictions,
                [&](const Prediction& one) { return !asks_for(text, one.batch, one.position); });
  const render::PredictView view{all, text.batched(), text.model().causal(), &text.ids()};
  const render::TokenNames names = names_of(text);
  const Stopwatch watch(common.write_s);
  for (const auto& [path, some] : files_of(std::move(predictions)))
    write(path, [&, &some = some](const std::string& form) {
      const render::TextStyle look = look_of(output, common.color);
      if (form == "json") return render::predict_json(some, view, names);
      if (form == "table") return render::predict_table(some, view, names, look);
      return render::predict_csv(some, view, names, form == "tsv" ? '\t' : ',');
    });
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
  cli.value("--of", "PART", predict->of,
            "the tokens that a part promotes and suppresses most: layers.3.head_result[5], "
            "layers.2.mlp_out, layers.1.resid_post, or a FILE with a vector of d_model numbers");
  add_selection(cli, predict->selection,
                {.batch = false, .head = false, .query = true, .key = false});
  add_output(cli, predict->output, {"table", "csv", "tsv", "json"},
             "write to a file; {batch} in PATH writes one a text, {layer} with --each-layer one a "
             "layer",
             std::span(all_placeholders).first(2));
  add_layer(cli, predict->request);
  add_common(cli, predict->common);
  cli.example("predict data/bard-llama --text 'To be, or not to'",
              "the ten most probable next tokens");
  cli.example("predict data/bard-llama --text 'To be, or not to be' --all",
              "how well each token was foretold");
  cli.example("predict data/bard-llama --text 'To be, or not to' --each-layer --top 1",
              "what each layer's stream would predict");
  cli.example("predict data/bard-gpt2 --text 'The king is' --of 'layers.3.head_result[5]' --top 3",
              "what one head writes at the last position");
  cli.example("predict data/bard-bert --text 'to be, or not to [MASK].' -f json",
              "a hidden word, for another program");
  return [predict] { return predict->run(); };
}

} // namespace mha::app
