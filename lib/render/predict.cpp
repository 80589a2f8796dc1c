#include <mha/render/predict.hpp>

#include <mha/render/numbers.hpp>
#include <mha/render/rounding.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace mha::render {

namespace {

std::string place_text(const Prediction& one, const PredictView& view, const TokenNames& names) {
  std::string text = view.batched ? fmt::format("text {} · ", one.batch) : "";
  text += view.causal ? "after position " : "at position ";
  text += fmt::format("{} '{}'", one.position,
                      visible(names.label((*view.ids)[one.batch][one.position])));
  if (one.layer) text += fmt::format(" · stream of layer {}", *one.layer);
  return text;
}

/// A candidate of a prediction.
struct Ranked {
  const Prediction* of = nullptr;
  std::size_t rank = 0; ///< from 0
  const Candidate& candidate() const { return of->candidates[rank]; }
};

std::vector<Ranked> ranked(const std::vector<Prediction>& predictions) {
  std::vector<Ranked> list;
  for (const Prediction& one : predictions)
    for (std::size_t i = 0; i < one.candidates.size(); ++i) list.push_back({&one, i});
  return list;
}

/// "' king' has rank 14: probability 0.002, logit 3.10; …": the line below the candidates.
std::string followed_text(const Prediction& one, const TokenNames& names) {
  std::string text;
  for (const FollowedToken& token : one.followed)
    text += fmt::format("{}'{}' has rank {}: probability {}, logit {}", text.empty() ? "" : "; ",
                        visible(names.label(token.id)), token.rank, chance(token.probability),
                        rounded(token.logit));
  if (one.followed.size() == 2)
    text += fmt::format("; the first logit less the second: {}",
                        rounded(one.followed[0].logit - one.followed[1].logit));
  return text;
}

/// The columns of tokens that are followed: of each row the prediction that `of` gives.
template <class Row, class Of> void add_followed(ColumnsOf<Row>& columns, const PredictView& view,
                                                 const TokenNames& names, const Of& of) {
  using In = Table::In;
  const auto add = [&](std::string name, std::string eyes, auto get) {
    columns.push_back({{.title = std::move(name), .in = In::fields}, get});
    if (view.all && !eyes.empty())
      columns.push_back({{.title = std::move(eyes),
                          .right = true,
                          .follows = true,
                          .in = In::eyes,
                          .eyes = chance},
                         get});
  };
  for (std::size_t i = 0; i < view.followed.size(); ++i) {
    const std::string& name = view.followed[i];
    const auto token = [of, i](const Row& row) { return of(row).followed[i]; };
    add(name + "_id", "",
        [token](const Row& row) { return Cell::count(static_cast<std::size_t>(token(row).id)); });
    add(name, "",
        [token, &names](const Row& row) { return Cell::words(names.text(token(row).id)); });
    add(name + "_probability", fmt::format("p({})", name),
        [token](const Row& row) { return Cell::number(token(row).probability); });
    add(name + "_logit", "", [token](const Row& row) { return Cell::number(token(row).logit); });
    add(name + "_rank", fmt::format("rank({})", name),
        [token](const Row& row) { return Cell::count(token(row).rank); });
  }
  if (view.followed.size() == 2)
    columns.push_back({{.title = "logit_difference", .right = true}, [of](const Row& row) {
                         return Cell::number(of(row).followed[0].logit - of(row).followed[1].logit);
                       }});
}

/// One line per candidate: for programs with its place, for readers with a bar.
Table candidates_table(const std::vector<Prediction>& predictions, const PredictView& view,
                       const TokenNames& names) {
  using In = Table::In;
  const auto spelled = [](const std::function<std::string(int)>& spell) {
    return [&spell](const Ranked& one) { return Cell::words(spell(one.candidate().id)); };
  };
  ColumnsOf<Ranked> columns{
      {field_column("batch"), [](const Ranked& one) { return Cell::count(one.of->batch); }},
      {field_column("position"), [](const Ranked& one) { return Cell::count(one.of->position); }},
      {field_column("layer"), [](const Ranked& one) { return Cell::count(one.of->layer); }},
      {field_column("rank"), [](const Ranked& one) { return Cell::count(one.rank + 1); }},
      {{.title = "token", .in = In::eyes}, spelled(names.label)},
      {{.title = "id", .right = true},
       [](const Ranked& one) { return Cell::count(static_cast<std::size_t>(one.candidate().id)); }},
      {field_column("token"), spelled(names.text)},
      {field_column("piece"), spelled(names.piece)},
      {{.title = "probability", .right = true, .eyes = chance},
       [](const Ranked& one) { return Cell::number(one.candidate().probability); }},
      {{.title = "logit", .right = true},
       [](const Ranked& one) { return Cell::number(one.candidate().logit); }},
      {{.title = "", .in = In::eyes},
       [](const Ranked& one) { return Cell(bar(one.candidate().probability, 10, false)); }}};
  if (!is_for_eyes(view.form))
    add_followed(columns, view, names,
                 [](const Ranked& one) -> const Prediction& { return *one.of; });
  return table_of(ranked(predictions), std::move(columns), view.form);
}

/// The cells of positions_table. The view and the names outlive it.
struct PositionColumns {
  using One = Prediction;
  using Get = std::function<Cell(const One&)>;
  using Id = std::optional<int> (*)(const One&, const PredictView&);

  static std::optional<int> own(const One& one, const PredictView& view) {
    return (*view.ids)[one.batch][one.position];
  }
  static std::optional<int> predicted(const One& one, const PredictView&) {
    return one.candidates.empty() ? std::nullopt : std::optional(one.candidates[0].id);
  }
  static std::optional<int> came(const One& one, const PredictView&) {
    return one.actual ? std::optional(one.actual->id) : std::nullopt;
  }
  Get id(Id of) const {
    return [of, &the_view = view](const One& one) {
      const std::optional<int> number = of(one, the_view);
      return number ? Cell::count(static_cast<std::size_t>(*number)) : Cell();
    };
  }
  Get spelled(Id of, const std::function<std::string(int)>& spell) const {
    return [of, &spell, &the_view = view](const One& one) {
      const std::optional<int> number = of(one, the_view);
      return number ? Cell::words(spell(*number)) : Cell();
    };
  }
  /// A cell of the actual next token; "–" where there is none.
  static Get of_came(Get get) {
    return [get = std::move(get)](const One& one) {
      return one.actual ? get(one) : Cell().shown_as("–");
    };
  }
  static Cell p_predicted(const One& one) {
    return one.candidates.empty() ? Cell() : Cell::number(one.candidates[0].probability);
  }
  static Cell p_came(const One& one) { return Cell::number(one.actual->probability); }
  static Cell rank_came(const One& one) { return Cell::count(one.actual->rank); }
  static Cell loss(const One& one) { return Cell::number(one.actual->surprise); }
  static Cell batch(const One& one) { return Cell::count(one.batch); }
  static Cell position(const One& one) { return Cell::count(one.position); }
  static Cell layer(const One& one) { return Cell::count(one.layer); }

  const PredictView& view;
  const TokenNames& names;
};

/// One line per position: the token there, the most probable one, the one that came. In a narrow
/// window titles are short, and long tokens are cut.
Table positions_table(const std::vector<Prediction>& predictions, const PredictView& view,
                      const TokenNames& names, std::size_t width) {
  using In = Table::In;
  using Of = PositionColumns;
  const Of cells{view, names};
  const bool narrow = view.form == "table" && width < 64;
  const auto eyes = [](std::string title, bool shown = true) {
    return Table::Column{.title = std::move(title),
                         .right = true,
                         .in = shown ? In::eyes : In::none,
                         .eyes = chance};
  };
  const auto token = [](std::string title, bool shown = true) {
    return Table::Column{
        .title = std::move(title), .shrinks = true, .in = shown ? In::eyes : In::none};
  };
  const auto of_came = [](Of::Get get) { return Of::of_came(std::move(get)); };
  ColumnsOf<Prediction> columns{
      {field_column("batch"), Of::batch},
      {field_column("position"), Of::position},
      {field_column("layer"), Of::layer},
      {field_column("id"), cells.id(Of::own)},
      {field_column("token"), cells.spelled(Of::own, names.text)},
      {field_column("piece"), cells.spelled(Of::own, names.piece)},
      {field_column("predicted_id"), cells.id(Of::predicted)},
      {field_column("predicted"), cells.spelled(Of::predicted, names.text)},
      {field_column("predicted_probability"), Of::p_predicted},
      {field_column("came_id"), cells.id(Of::came)},
      {field_column("came"), cells.spelled(Of::came, names.text)},
      {field_column("came_probability"), of_came(Of::p_came)},
      {field_column("came_rank"), of_came(Of::rank_came)},
      {field_column("loss"), of_came(Of::loss)},
      {eyes("text", view.batched), Of::batch},
      {eyes(narrow ? "at" : "position"), Of::position},
      {token("token"), cells.spelled(Of::own, names.label)},
      {eyes("layer", view.lens), Of::layer},
      {token("predicted"), cells.spelled(Of::predicted, names.label)},
      {eyes(narrow ? "p" : "p(predicted)"), Of::p_predicted},
      {token("came", view.causal), of_came(cells.spelled(Of::came, names.label))},
      {eyes(narrow ? "p" : "p(came)", view.causal), of_came(Of::p_came)},
      {eyes("rank", view.causal), of_came(Of::rank_came)}};
  add_followed(columns, view, names,
               [](const Prediction& one) -> const Prediction& { return one; });
  return table_of(predictions, std::move(columns), view.form);
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
      rows_(view_.form, view_.precision),
      json_(view_.precision) {}

Table PredictionText::table_of_some(const std::vector<Prediction>& predictions) const {
  return view_.all ? positions_table(predictions, view_, names_, text_style_.width)
                   : candidates_table(predictions, view_, names_);
}

void PredictionText::add_block(const Prediction& one, std::string& out) {
  const std::string place = place_text(one, view_, names_);
  out += (is_first_ ? "" : "\n") +
         (view_.form == "markdown" ? place : text_style_.bold(in_lines(place, text_style_.width))) +
         "\n\n" + table_of_some({one}).as(view_.form, text_style_);
  if (!one.followed.empty())
    out += "\n" +
           (view_.form == "markdown" ? markdown_text(followed_text(one, names_))
                                     : in_lines(followed_text(one, names_), text_style_.width)) +
           "\n";
  is_first_ = false;
}

void PredictionText::add_json_token(int id) {
  json_.member("id", id).member("token", names_.text(id));
  json_.key("piece").words_or_null(names_.piece(id));
}

void PredictionText::add_json_followed(const Prediction& one) {
  for (std::size_t i = 0; i < view_.followed.size(); ++i)
    json_.key(view_.followed[i]).object([&] {
      const FollowedToken& token = one.followed[i];
      add_json_token(token.id);
      json_.member("probability", token.probability).member("logit", token.logit);
      json_.member("rank", token.rank);
    });
  if (view_.followed.size() == 2)
    json_.member("logit_difference", one.followed[0].logit - one.followed[1].logit);
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
  add_json_followed(one);
  json_.key("next").list(one.candidates, [&](const Candidate& next) {
    json_.object([&] {
      add_json_token(next.id);
      json_.member("probability", next.probability).member("logit", next.logit);
    });
  });
  json_.close();
}

void PredictionText::begin_json() {
  if (std::exchange(is_begun_, true)) return;
  json_.open_object(indented);
  json_.key("predictions").open_list({"\n    ", "\n    ", "\n  "});
}

std::string PredictionText::add(const std::vector<Prediction>& predictions) {
  for (const Prediction& one : predictions) loss_.add(one);
  if (view_.form == "json") {
    begin_json();
    for (const Prediction& one : predictions) add_object(one);
    return json_.take();
  }
  if (!is_for_eyes(view_.form)) return rows_.add(table_of_some(predictions));
  std::string out;
  if (view_.all)
    kept_.insert(kept_.end(), predictions.begin(), predictions.end());
  else
    for (const Prediction& one : predictions) add_block(one, out);
  return out;
}

std::string PredictionText::finish() {
  const bool known = loss_.tokens() > 0;
  const double mean = known ? loss_.mean() : 0, perplexity = std::exp(mean);
  if (view_.form == "json") {
    begin_json();
    json_.close();
    json_.key("loss").value_or_null(known ? std::optional(mean) : std::nullopt);
    json_.key("perplexity").value_or_null(known ? std::optional(perplexity) : std::nullopt);
    json_.close();
    json_.end_line();
    return json_.take();
  }
  if (!is_for_eyes(view_.form)) return rows_.is_begun() ? "" : rows_.add(table_of_some({}));
  if (!view_.all) return "";
  Table table = table_of_some(kept_);
  if (known)
    table.note(fmt::format("mean loss {} nats over {} · perplexity {}", rounded(mean, 5),
                           counted(loss_.tokens(), "tokens"), rounded(perplexity, 5)));
  return table.as(view_.form, text_style_);
}

} // namespace mha::render
