#include <mha/render/predict.hpp>

#include <mha/render/numbers.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace mha::render {

namespace {

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
Table grid_of_all(const PredictView& view, const TextStyle& text_style) {
  std::vector<Table::Column> columns;
  if (view.batched) columns.push_back({"text", true});
  // In a narrow window titles are short, and long tokens are cut.
  const bool narrow = text_style.width < 64;
  columns.push_back({narrow ? "at" : "position", true}), columns.push_back({"token", false, true});
  if (view.lens) columns.push_back({"layer", true});
  columns.insert(columns.end(),
                 {{"predicted", false, true}, {narrow ? "p" : "p(predicted)", true}});
  if (view.causal)
    columns.insert(columns.end(),
                   {{"came", false, true}, {narrow ? "p" : "p(came)", true}, {"rank", true}});
  return Table(std::move(columns));
}

/// The titles of CSV and TSV.
std::vector<std::string> titles_of(const PredictView& view) {
  if (view.all)
    return {"batch",        "position",  "layer",
            "id",           "token",     "piece",
            "predicted_id", "predicted", "predicted_probability",
            "came_id",      "came",      "came_probability",
            "came_rank",    "loss"};
  return {"batch", "position", "layer", "rank", "id", "token", "piece", "probability", "logit"};
}

/// What CSV says of a position in a line of --all, behind batch, position and layer.
void add_cells_of_all(const Prediction& one, const PredictView& view, const TokenNames& names,
                      std::vector<std::string>& cells) {
  const int id = (*view.ids)[one.batch][one.position];
  const auto csv = [&](double value) { return exact(value, Dialect::csv, view.precision); };
  cells.insert(cells.end(), {fmt::format("{}", id), names.text(id), names.piece(id)});
  if (!one.candidates.empty()) {
    const Candidate& predicted = one.candidates[0];
    cells.insert(cells.end(), {fmt::format("{}", predicted.id), names.text(predicted.id),
                               csv(predicted.probability)});
  } else {
    cells.insert(cells.end(), 3, "");
  }
  if (one.actual)
    cells.insert(cells.end(), {fmt::format("{}", one.actual->id), names.text(one.actual->id),
                               csv(one.actual->probability), fmt::format("{}", one.actual->rank),
                               csv(one.actual->surprise)});
  else
    cells.insert(cells.end(), 5, "");
}

} // namespace

void PredictionLoss::add(const Prediction& one) {
  if (one.layer > last_) sum_ = 0, tokens_ = 0, last_ = one.layer;
  if (one.actual && one.layer == last_) sum_ += one.actual->surprise, ++tokens_;
}

PredictionText::PredictionText(PredictView view, TokenNames names, TextStyle text_style)
    : view_(std::move(view)),
      names_(std::move(names)),
      text_style_(std::move(text_style)),
      grid_(grid_of_all(view_, text_style_)),
      json_(view_.precision) {}

void PredictionText::add_to_grid(const Prediction& one) {
  std::vector<std::string> cells;
  if (view_.batched) cells.push_back(fmt::format("{}", one.batch));
  cells.push_back(fmt::format("{}", one.position));
  cells.push_back(visible(names_.label((*view_.ids)[one.batch][one.position])));
  if (view_.lens) cells.push_back(fmt::format("{}", *one.layer));
  const bool some = !one.candidates.empty();
  cells.push_back(some ? visible(names_.label(one.candidates[0].id)) : "");
  cells.push_back(some ? chance(one.candidates[0].probability) : "");
  if (view_.causal) {
    cells.push_back(one.actual ? visible(names_.label(one.actual->id)) : "–");
    cells.push_back(one.actual ? chance(one.actual->probability) : "–");
    cells.push_back(one.actual ? fmt::format("{}", one.actual->rank) : "–");
  }
  grid_.add(std::move(cells));
}

void PredictionText::add_block(const Prediction& one, std::string& out) {
  Table grid({{"token"}, {"id", true}, {"probability", true}, {"logit", true}, {""}});
  for (const Candidate& next : one.candidates)
    grid.add({visible(names_.label(next.id)), fmt::format("{}", next.id), chance(next.probability),
              rounded(next.logit, 4), share_bar(next.probability)});
  out += (is_first_ ? "" : "\n") +
         text_style_.bold(in_lines(place_text(one, view_, names_), text_style_.width)) + "\n\n" +
         grid.text(text_style_);
  is_first_ = false;
}

void PredictionText::add_line(const Prediction& one, std::string& out) const {
  const char separator = separator_of(view_.form);
  const std::vector<std::string> at{fmt::format("{}", one.batch), fmt::format("{}", one.position),
                                    one.layer ? fmt::format("{}", *one.layer) : ""};
  if (view_.all) {
    std::vector<std::string> cells = at;
    add_cells_of_all(one, view_, names_, cells);
    out += separated_line(cells, separator);
    return;
  }
  for (std::size_t i = 0; i < one.candidates.size(); ++i) {
    const Candidate& next = one.candidates[i];
    std::vector<std::string> cells = at;
    cells.insert(cells.end(),
                 {fmt::format("{}", i + 1), fmt::format("{}", next.id), names_.text(next.id),
                  names_.piece(next.id), exact(next.probability, Dialect::csv, view_.precision),
                  exact(next.logit, Dialect::csv, view_.precision)});
    out += separated_line(cells, separator);
  }
}

void PredictionText::add_json_token(int id) {
  json_.member("id", id).member("token", names_.text(id));
  json_.key("piece").words_or_null(names_.piece(id));
}

void PredictionText::add_object(const Prediction& one) {
  json_.open_object();
  if (view_.batched) json_.member("batch", one.batch);
  json_.member("position", one.position);
  if (one.layer) json_.member("layer", *one.layer);
  add_json_token((*view_.ids)[one.batch][one.position]);
  if (one.actual)
    json_.key("came").object([&] {
      add_json_token(one.actual->id);
      json_.member("probability", one.actual->probability)
          .member("rank", one.actual->rank)
          .member("loss", one.actual->surprise);
    });
  json_.key("next").list(one.candidates, [&](const Candidate& next) {
    json_.object([&] {
      add_json_token(next.id);
      json_.member("probability", next.probability).member("logit", next.logit);
    });
  });
  json_.close();
}

std::string PredictionText::begin() {
  if (std::exchange(is_begun_, true) || view_.form == "table") return "";
  if (view_.form != "json") return separated_line(titles_of(view_), separator_of(view_.form));
  json_.open_object(indented);
  json_.key("predictions").open_list({"\n    ", "\n    ", "\n  "});
  return "";
}

std::string PredictionText::add(const std::vector<Prediction>& predictions) {
  std::string out = begin();
  for (const Prediction& one : predictions) {
    loss_.add(one);
    if (view_.form == "json")
      add_object(one);
    else if (view_.form != "table")
      add_line(one, out);
    else if (view_.all)
      add_to_grid(one);
    else
      add_block(one, out);
  }
  return out + json_.take();
}

std::string PredictionText::finish() {
  std::string out = begin();
  const bool known = loss_.tokens() > 0;
  const double mean = known ? loss_.mean() : 0, perplexity = std::exp(mean);
  if (view_.form == "json") {
    json_.close();
    json_.key("loss").value_or_null(known ? std::optional(mean) : std::nullopt);
    json_.key("perplexity").value_or_null(known ? std::optional(perplexity) : std::nullopt);
    json_.close();
    json_.end_line();
    return json_.take();
  }
  if (view_.form != "table" || !view_.all) return out;
  out += grid_.text(text_style_);
  if (known)
    out += "\n" +
           in_lines(fmt::format("mean loss {} nats over {} · perplexity {}", rounded(mean, 5),
                                counted(loss_.tokens(), "tokens"), rounded(perplexity, 5)),
                    text_style_.width) +
           "\n";
  return out;
}

} // namespace mha::render
