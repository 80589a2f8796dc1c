// predict: predicts the next tokens of a text with a whole model.

#include "commands/commands.hpp"
#include "followed_tokens.hpp"
#include "output.hpp"
#include "predicted_places.hpp"
#include "resume.hpp"
#include "text_groups.hpp"
#include <mha/load/source.hpp>
#include <mha/model/predict.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/render/predict.hpp>
#include <mha/render/studies.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>

namespace mha::app {

namespace {

/// The most tokens computed together, padding included.
constexpr std::size_t most_tokens_predicted = 4096;

struct Predict {
  RunRequest request;
  Selection selection;
  OutputOptions output;
  std::optional<std::size_t> top, precision;
  bool all = false, each_layer = false;
  std::string of;
  FollowedTokens followed;
  std::vector<TokenOfTexts> followed_ids;
  Common common;

  int run();

private:
  std::vector<std::size_t> positions(const Texts& text) const;
  bool is_requested(const Texts& text, std::size_t batch, std::size_t position) const;
  void write_part(const OpenedModel& model);
  void take_all();
  void check();
  std::string form() const { return form_of(output); }
  MissingTokens missing_tokens() const {
    return request.text.each_line ? MissingTokens::skip : MissingTokens::error;
  }
  std::vector<std::string> take_followed(const Texts& text);
  std::vector<Prediction> predictions_of(const OpenedModel& model, const TextGroup& group,
                                         bool first);
  void predict_all(const OpenedModel& model);
};

/// The files of predictions, which are written while texts are computed.
class PredictionFiles {
public:
  PredictionFiles(std::string path, render::PredictView view, render::TokenNames names,
                  render::TextStyle text_style)
      : path_(std::move(path)),
        view_(std::move(view)),
        names_(std::move(names)),
        text_style_(std::move(text_style)) {}

  void add(std::vector<Prediction> predictions);
  void finish();

private:
  struct Growing {
    GrowingFile file;
    render::PredictionText text;
  };
  std::unique_ptr<Growing> opened(const std::string& path) const {
    return std::unique_ptr<Growing>(
        new Growing{GrowingFile(path), render::PredictionText(view_, names_, text_style_)});
  }

  std::string path_;
  render::PredictView view_;
  render::TokenNames names_;
  render::TextStyle text_style_;
  std::map<std::string, std::unique_ptr<Growing>> files_;
};

/// Whether a position of a text is requested. Each text has its own last position, hidden tokens
/// and
/// --query.
bool Predict::is_requested(const Texts& text, std::size_t batch, std::size_t position) const {
  if (!selection.query) return all || text.is_asked(batch, position);
  const std::vector<std::size_t> own =
      positions_in(*selection.query, text, batch, missing_tokens());
  return is_one_of(position, own);
}

render::TokenNames names_of(const Texts& text) {
  return {[&](int id) { return text.label(id); }, [&](int id) { return text.plain(id); },
          [&](int id) { return text.piece(id); }};
}

/// The requested positions of any text: those of --query or all; otherwise the last one of each
/// text, or the hidden ones for a masked model.
std::vector<std::size_t> Predict::positions(const Texts& text) const {
  const std::size_t T = text.ids()[0].size();
  std::vector<std::size_t> list;
  if (selection.query) {
    for (std::size_t b = 0; b < text.lengths().size(); ++b)
      std::ranges::copy(positions_in(*selection.query, text, b, missing_tokens()),
                        std::back_inserter(list));
  } else if (all)
    for (std::size_t t = 0; t < T; ++t) list.push_back(t);
  else if (text.model().causal())
    for (std::size_t length : text.lengths()) list.push_back(length - 1);
  else
    for (const auto& [batch, position] : text.hidden_positions()) list.push_back(position);
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

void PredictionFiles::add(std::vector<Prediction> predictions) {
  std::map<std::string, std::vector<Prediction>> by_path;
  for (Prediction& one : predictions) {
    const std::string layer = one.layer ? std::to_string(*one.layer) : "";
    by_path[with_batch(with_layer(path_, layer), one.batch)].push_back(std::move(one));
  }
  for (const auto& [path, own] : by_path) {
    std::unique_ptr<Growing>& kept = files_[path];
    if (!kept) kept = opened(path);
    kept->file.write(kept->text.add(own));
  }
  // A file for each text is complete after it, so only few are open at once.
  if (mentions(path_, "{batch}")) finish();
}

void PredictionFiles::finish() {
  for (const auto& [path, kept] : files_) {
    kept->file.write(kept->text.finish());
    kept->file.finish();
  }
  files_.clear();
}

/// Whether a word looks like the name of a file of numbers instead of a stage.
bool is_array_file(const std::string& word) {
  if (word.find('/') != std::string::npos) return true;
  constexpr std::string_view extensions[] = {".npy",         ".npz", ".json",
                                             ".safetensors", ".pt",  ".pth"};
  const std::string path = word.substr(0, word.find(':'));
  return std::ranges::any_of(extensions,
                             [&](std::string_view extension) { return path.ends_with(extension); });
}

/// --of: shows what one part of the model, or a vector from a file, writes at the chosen positions.
void Predict::write_part(const OpenedModel& model) {
  if (each_layer) throw UsageError("--of shows what one part writes: --each-layer has no effect");
  if (followed.any())
    throw UsageError("--of shows the tokens of one part: --answer and --versus have no effect");
  const Texts& text = *model.texts();
  const std::shared_ptr<const TextLayers> made = model.text_layers();
  const TextLayers& layers = *made;
  render::PartView view;
  view.part = of, view.top = top.value_or(10), view.precision = precision;
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
      if (is_array_file(of)) fail("--of {}: no such file", of);
      const StagePlace place = parse_place(of, "--of " + of, stage_of_place_named);
      view.norm = norm_of_part(place);
      std::vector<TextPosition> places = predicted_places(text, selection.query, missing_tokens());
      std::ranges::sort(places);
      parts = part_logits(layers, place, places, common.threads);
      report_warnings(layers.layer_warnings(), common);
    }
  }
  const render::TokenNames names = names_of(text);
  const Stopwatch watch(common.write_s);
  const std::string form = this->form();
  std::map<std::string, std::vector<PartLogits>> files;
  for (PartLogits& part : parts)
    files[with_batch(output.path, part.at.first)].push_back(std::move(part));
  for (const auto& [path, own] : files)
    write_text(path, render::part_logits_text(own, view, form, names,
                                              text_style_of(output, common.color)));
}

/// Interprets "all" in --query: one line for each position; "all,17-31": only for those.
void Predict::take_all() {
  if (!selection.query) return;
  std::vector<std::string> words = words_of<std::string>(selection.query->text(), ",");
  const bool has_all = std::erase(words, "all") > 0;
  if (!has_all || (!of.empty() && words.empty())) return;
  all = of.empty();
  if (words.empty())
    selection.query.reset();
  else
    selection.query = IndexList::of_tokens(joined_texts(words, ","), "--query");
}

void Predict::check() {
  take_all();
  if (top == std::size_t{0}) throw UsageError("--top is 0: at least 1 expected");
  if (!request.has_text() && is_array_file(of))
    request.text.ids = {"0"}; // a vector promotes the same tokens for every text
  if (!request.has_text())
    throw UsageError("predict needs a text: --text \"…\", --text-file FILE or --ids N,N…");
  if (!request.layer.empty())
    throw UsageError("predict runs the whole model: --layer has no effect; --each-layer shows the "
                     "prediction of every layer");
  if (!request.tokens.empty() || !request.key_tokens.empty())
    throw UsageError("predict shows the tokens of the checkpoint's tokenizer: --tokens and "
                     "--key-tokens have no effect; leave them out");
  if (all && top && form() != "json")
    throw UsageError("--query all shows the most probable and the actual token at each position: "
                     "--top has no effect; --format json lists more");
  if (mentions(output.path, "{layer}") && !each_layer)
    fail("{}: {{layer}} needs --each-layer; without it there are only predictions of the whole "
         "model",
         output.path);
}

/// Sets the tokens that are shown. Returns those given of "answer" and "versus".
std::vector<std::string> Predict::take_followed(const Texts& text) {
  const auto [answer, versus] = followed.ids(text);
  if (versus && !answer)
    throw UsageError("--versus is subtracted from an answer: give also --answer");
  std::vector<std::string> names;
  if (answer) names.emplace_back("answer"), followed_ids.push_back(answer);
  if (versus) names.emplace_back("versus"), followed_ids.push_back(versus);
  return names;
}

/// The predictions for one group; texts are numbered as among all texts.
std::vector<Prediction> Predict::predictions_of(const OpenedModel& model, const TextGroup& group,
                                                bool first) {
  const Texts& text = *group.texts;
  PredictRequest asked;
  asked.positions = positions(text);
  asked.each_layer = each_layer, asked.threads = common.threads, asked.first_text = group.first;
  asked.top = top.value_or(all ? 1 : each_layer ? 3 : 10);
  asked.followed = followed_ids;
  if (asked.positions.empty()) return {}; // these texts of a masked model hide no token
  OpenedModel of_group(model, group.texts);
  Predictions found;
  {
    const Stopwatch watch(common.compute_s);
    found = predict(of_group, asked);
  }
  for (const LayerTimes& layer : of_group.times())
    common.read_s += layer.made_s, common.compute_s -= layer.made_s;
  report_warnings(found.warnings, common_of_group(common, first));
  std::erase_if(found.list, [&](const Prediction& one) {
    return !is_requested(text, one.batch, one.position);
  });
  for (Prediction& one : found.list) one.batch += group.first;
  return std::move(found.list);
}

/// Predicts for some texts at a time, but for all at once with a patch, which may depend on all
/// texts.
void Predict::predict_all(const OpenedModel& model) {
  const Texts& text = *model.texts();
  PredictionFiles files(output.path,
                        {form(), all, each_layer, text.batched(), text.model().causal(),
                         &text.ids(), precision, take_followed(text)},
                        names_of(text), text_style_of(output, common.color));
  const auto predict_group = [&](const TextGroup& group, bool first) {
    std::vector<Prediction> predictions = predictions_of(model, group, first);
    const Stopwatch watch(common.write_s);
    files.add(std::move(predictions));
  };
  if (text.lengths().size() < 2 || request.patches) {
    expect_layers(model, common);
    predict_group({0, model.texts()}, true);
  } else {
    const TextGroups groups(text, most_tokens_predicted, text.layers().size() + 1, common);
    for (std::size_t n = 0; n < groups.count(); ++n) predict_group(groups.group(n), n == 0);
  }
  const Stopwatch watch(common.write_s);
  files.finish();
}

int Predict::run() {
  check();
  request.stages = {"logits"};
  OpenedModel model = open_model(request, common);
  const Texts& text = *model.texts();
  report_notes(text.notes(), common);
  if (all) text.require_token_numbers("--query all");
  if (request.text.each_line) note_skipped_lines(selection.query, text, common);
  if (!of.empty()) {
    write_part(model);
    return 0;
  }
  if (positions(text).empty()) // reported before hours of work
    fail("the model predicts hidden tokens, but the text hides none; write [MASK] for one, or "
         "choose positions with --query");
  predict_all(model);
  return 0;
}

} // namespace

Run declare_predict(Cli& cli) {
  const auto predict = std::make_shared<Predict>();
  cli.about(
      "Runs a whole model (a checkpoint folder with its config) on a text and prints the most "
      "probable next tokens at the last position with probability and logit; for a masked language "
      "model, those at every [MASK]. This is a quick check that a model is read correctly. --query "
      "all prints one line for each position (all,17-31: only for those) with the probability and "
      "rank of the actual token, and the mean loss and perplexity.");
  cli.group("Predictions");
  cli.value("--top", "N", predict->top, "number of tokens; default: 10");
  cli.flag("--each-layer", predict->each_layer,
           "show what the residual stream of each layer would predict (the logit lens)");
  add_followed_tokens(cli, predict->followed,
                      "a token to show at any rank: probability, logit, rank",
                      "another token; its logit is subtracted from the answer's");
  cli.value("--of", "PART", predict->of,
            "show the tokens that a part promotes and suppresses most: layers.3.head_result[5], "
            "layers.2.mlp_out, layers.1.resid_post, or a FILE with a vector of d_model numbers");
  add_selection(cli, predict->selection,
                {.batch = false, .head = false, .query = true, .key = false});
  cli.option("--query").formerly("--all", "all");
  add_output(cli, predict->output, result_formats(),
             "write to a file; {batch} in PATH writes one for each text, {layer} with --each-layer "
             "one for each layer",
             std::span(all_placeholders).first(2));
  add_precision(cli, predict->precision, [predict] { return form_of(predict->output); });
  add_layer(cli, predict->request);
  add_common(cli, predict->common);
  cli.example("predict data/bard-llama --text 'To be, or not to'",
              "print the ten most probable next tokens");
  cli.example("predict data/bard-llama --text 'To be, or not to be' --query all",
              "show how well each token is predicted");
  cli.example("predict data/bard-llama --text 'To be, or not to' --each-layer --top 1",
              "show what each layer's stream would predict");
  cli.example("predict data/bard-gpt2 --text 'The king is' --of 'layers.3.head_result[5]' --top 3",
              "show what one head writes at the last position");
  cli.example("predict data/bard-bert --text 'to be, or not to [MASK].' -f json",
              "predict a hidden word; output for another program");
  return [predict] { return predict->run(); };
}

} // namespace mha::app
