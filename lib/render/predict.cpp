#include <mha/render/predict.hpp>

#include <mha/render/grid.hpp>
#include <mha/render/numbers.hpp>

#include <algorithm>
#include <cmath>

namespace mha::render {

namespace {

/// The mean of −log probability of the tokens that came, and how many they are.
struct Loss {
  double mean = 0;
  std::size_t tokens = 0;
  double perplexity() const { return std::exp(mean); }
};

/// Of the model's end, or of the stream of the last layer.
Loss loss_of(const std::vector<Prediction>& predictions) {
  Loss loss;
  std::optional<std::size_t> last;
  for (const Prediction& one : predictions) last = std::max(last, one.layer);
  for (const Prediction& one : predictions)
    if (one.came && one.layer == last) loss.mean += one.came->surprise, ++loss.tokens;
  if (loss.tokens > 0) loss.mean /= static_cast<double>(loss.tokens);
  return loss;
}

std::string share_bar(double share) {
  return std::string("██████████████████████████████")
      .substr(0, 3 * static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * 10)));
}

/// A probability for eyes: 0.091, or 1.35e-04.
std::string chance(double p) {
  return p >= 0.0005 ? fmt::format("{:.3f}", p) : rounded(p, 3);
}

std::string place_text(const Prediction& one, const PredictView& view, const TokenNames& names) {
  std::string text = view.batched ? fmt::format("text {} · ", one.batch) : "";
  text += view.causal ? "after position " : "at position ";
  text += fmt::format("{} '{}'", one.position,
                      visible(names.label((*view.ids)[one.batch][one.position])));
  if (one.layer) text += fmt::format(" · stream of layer {}", *one.layer);
  return text;
}

/// A line a position.
std::string table_of_all(const std::vector<Prediction>& predictions, const PredictView& view,
                         const TokenNames& names, const TextStyle& look) {
  std::vector<Grid::Column> columns;
  if (view.batched) columns.push_back({"text", true});
  // In a narrow window titles are short, and long tokens are cut.
  const bool narrow = look.width < 64;
  columns.push_back({narrow ? "at" : "position", true}), columns.push_back({"token", false, true});
  const bool lens = !predictions.empty() && predictions[0].layer;
  if (lens) columns.push_back({"layer", true});
  columns.insert(columns.end(),
                 {{"predicted", false, true}, {narrow ? "p" : "p(predicted)", true}});
  if (view.causal)
    columns.insert(columns.end(),
                   {{"came", false, true}, {narrow ? "p" : "p(came)", true}, {"rank", true}});
  Grid grid(std::move(columns));
  for (const Prediction& one : predictions) {
    std::vector<std::string> cells;
    if (view.batched) cells.push_back(fmt::format("{}", one.batch));
    cells.push_back(fmt::format("{}", one.position));
    cells.push_back(visible(names.label((*view.ids)[one.batch][one.position])));
    if (lens) cells.push_back(fmt::format("{}", *one.layer));
    const bool some = !one.candidates.empty();
    cells.push_back(some ? visible(names.label(one.candidates[0].id)) : "");
    cells.push_back(some ? chance(one.candidates[0].probability) : "");
    if (view.causal) {
      cells.push_back(one.came ? visible(names.label(one.came->id)) : "–");
      cells.push_back(one.came ? chance(one.came->probability) : "–");
      cells.push_back(one.came ? fmt::format("{}", one.came->rank) : "–");
    }
    grid.add(std::move(cells));
  }
  std::string out = grid.text(look);
  if (const Loss loss = loss_of(predictions); loss.tokens > 0)
    out += fmt::format("\nmean loss {} nats over {} · perplexity {}\n", rounded(loss.mean, 5),
                       counted(loss.tokens, "tokens"), rounded(loss.perplexity(), 5));
  return out;
}

} // namespace

std::string predict_table(const std::vector<Prediction>& predictions, const PredictView& view,
                          const TokenNames& names, const TextStyle& look) {
  if (view.all) return table_of_all(predictions, view, names, look);
  std::string out;
  for (const Prediction& one : predictions) {
    Grid grid({{"token"}, {"id", true}, {"probability", true}, {"logit", true}, {""}});
    for (const Candidate& next : one.candidates)
      grid.add({visible(names.label(next.id)), fmt::format("{}", next.id), chance(next.probability),
                rounded(next.logit, 4), share_bar(next.probability)});
    out += (out.empty() ? "" : "\n") + look.bold(place_text(one, view, names)) + "\n\n" +
           grid.text(look);
  }
  return out;
}

std::string predict_csv(const std::vector<Prediction>& predictions, const PredictView& view,
                        const TokenNames& names, char separator) {
  const auto field = [&](const std::string& text) {
    return separator == '\t' ? tsv_field(text) : csv_field(text);
  };
  const NumberWriter numbers(Dialect::csv, std::nullopt);
  const auto number = [&](double value) {
    std::string text;
    numbers.append(text, value);
    return text;
  };
  std::vector<std::string> titles{"batch", "position", "layer",       "rank", "id",
                                  "token", "piece",    "probability", "logit"};
  if (view.all)
    titles = {"batch",        "position",  "layer",
              "id",           "token",     "piece",
              "predicted_id", "predicted", "predicted_probability",
              "came_id",      "came",      "came_probability",
              "came_rank",    "loss"};
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells) {
    for (std::size_t i = 0; i < cells.size(); ++i)
      out += (i == 0 ? std::string() : std::string(1, separator)) + field(cells[i]);
    out += '\n';
  };
  line(titles);
  for (const Prediction& one : predictions) {
    const std::vector<std::string> at{fmt::format("{}", one.batch), fmt::format("{}", one.position),
                                      one.layer ? fmt::format("{}", *one.layer) : ""};
    if (view.all) {
      std::vector<std::string> cells = at;
      const int id = (*view.ids)[one.batch][one.position];
      cells.insert(cells.end(), {fmt::format("{}", id), names.text(id), names.piece(id)});
      if (!one.candidates.empty()) {
        const Candidate& predicted = one.candidates[0];
        cells.insert(cells.end(), {fmt::format("{}", predicted.id), names.text(predicted.id),
                                   number(predicted.probability)});
      } else {
        cells.insert(cells.end(), 3, "");
      }
      if (one.came)
        cells.insert(cells.end(), {fmt::format("{}", one.came->id), names.text(one.came->id),
                                   number(one.came->probability), fmt::format("{}", one.came->rank),
                                   number(one.came->surprise)});
      else
        cells.insert(cells.end(), 5, "");
      line(cells);
      continue;
    }
    for (std::size_t i = 0; i < one.candidates.size(); ++i) {
      const Candidate& next = one.candidates[i];
      std::vector<std::string> cells = at;
      cells.insert(cells.end(),
                   {fmt::format("{}", i + 1), fmt::format("{}", next.id), names.text(next.id),
                    names.piece(next.id), number(next.probability), number(next.logit)});
      line(cells);
    }
  }
  return out;
}

std::string predict_json(const std::vector<Prediction>& predictions, const PredictView& view,
                         const TokenNames& names) {
  const NumberWriter numbers(Dialect::json, std::nullopt);
  const auto number = [&](double value) {
    std::string text;
    numbers.append(text, value);
    return text;
  };
  const auto token = [&](int id) {
    const std::string piece = names.piece(id);
    return fmt::format("\"id\": {}, \"token\": {}, \"piece\": {}", id, json_quoted(names.text(id)),
                       piece.empty() ? "null" : json_quoted(piece));
  };
  std::string list;
  for (const Prediction& one : predictions) {
    list += list.empty() ? "\n    {" : ",\n    {";
    if (view.batched) list += fmt::format("\"batch\": {}, ", one.batch);
    list += fmt::format("\"position\": {}, ", one.position);
    if (one.layer) list += fmt::format("\"layer\": {}, ", *one.layer);
    list += token((*view.ids)[one.batch][one.position]) + ", ";
    if (one.came)
      list += fmt::format("\"came\": {{{}, \"probability\": {}, \"rank\": {}, \"loss\": {}}}, ",
                          token(one.came->id), number(one.came->probability), one.came->rank,
                          number(one.came->surprise));
    list += "\"next\": [";
    for (std::size_t i = 0; i < one.candidates.size(); ++i) {
      const Candidate& next = one.candidates[i];
      list += fmt::format("{}{{{}, \"probability\": {}, \"logit\": {}}}", i == 0 ? "" : ", ",
                          token(next.id), number(next.probability), number(next.logit));
    }
    list += "]}";
  }
  const Loss loss = loss_of(predictions);
  const bool known = loss.tokens > 0;
  return fmt::format(
      "{{\n  \"predictions\": [{}\n  ],\n  \"loss\": {},\n  \"perplexity\": {}\n}}\n", list,
      known ? number(loss.mean) : "null", known ? number(loss.perplexity()) : "null");
}

} // namespace mha::render
