// Numbers of every head of a run: measures of its maps, and effects of taking it out.

#include <mha/api/model_state.hpp>
#include <mha/api/visit.hpp>
#include <mha/heads/measures.hpp>
#include <mha/model/effects.hpp>
#include <mha/system/named.hpp>

#include <algorithm>
#include <limits>

namespace mha {

namespace {

/// Layers × heads; NaN until a number is known.
class HeadTable {
public:
  explicit HeadTable(const Model::State& model) {
    for (std::size_t n = 0; n < model.layers(); ++n)
      heads_ = std::max(heads_, model.layer_of_one_token(n).dims.H);
    table_ = Tensor(DType::f64, {model.layers(), heads_});
    std::ranges::fill(table_.as_mutable<double>(), std::numeric_limits<double>::quiet_NaN());
  }
  void set(std::size_t layer, std::size_t head, double value) {
    table_.as_mutable<double>()[layer * heads_ + head] = value;
  }
  Tensor table() const { return table_.read_only(); }

private:
  std::size_t heads_ = 0;
  Tensor table_;
};

void require_threads_alone(std::string_view function, const RunOptions& options) {
  if (!options.keep.empty() || !options.patches.empty())
    fail("{}: of the options threads, progress and stop count; leave keep and patches empty",
         function);
}

/// Puts the tokens' texts on a layer of texts that were given as numbers.
void label(Layer& layer, const Tokens& tokens) {
  if (!layer.tokens_of(0).empty()) return;
  if (tokens.count() == 1) {
    layer.tokens = layer.key_tokens = tokens.pieces();
    return;
  }
  std::vector<ItemLabels::List> pieces;
  for (std::size_t b = 0; b < tokens.count(); ++b) pieces.push_back(tokens.pieces(b));
  layer.item_tokens = std::move(pieces);
  layer.item_key_tokens = layer.item_tokens;
}

std::optional<double> Effect::*column_named(std::string_view name) {
  if (const EffectColumn* column = find_named(effect_columns, name)) return column->number;
  fail("effects: '{}' is not a column: kl, loss_change, logit_change, direct, or change of a model "
       "without a head",
       name);
}

/// Throws Error where no position has a next token, whose loss could change.
void require_next_tokens(const Run::State& run, const EffectsRequest& request) {
  if (!run.model->weights->model().causal())
    fail("effects: loss_change is the next token's; this model predicts hidden tokens");
  for (const auto& [text, position] : request.places)
    if (position + 1 < run.tokens.length(text)) return;
  fail("effects: the last token has no next token whose loss could change: give positions "
       "before it, or all of them");
}

} // namespace

Tensor Run::heads(std::string_view measure, const RunOptions& options) const {
  return api::visiting(options, [&] {
    require_threads_alone("heads", options);
    const Measure& asked = measure_named(measure);
    HeadTable table(*state_->model);
    for (std::size_t n = 0; n < state_->model->layers(); ++n) {
      if (state_->streams.empty()) fail("the run kept no streams, which heads are measured on");
      Layer layer = state_->layers->layer(state_->streams[n]);
      std::vector<api::PutPatch> put;
      api::patch_layer(*state_, layer, n, put);
      if (reads_tokens(asked)) label(layer, state_->tokens);
      MeasureRequest request;
      request.threads = options.threads ? options.threads : state_->threads;
      request.projections = is_of_projections(asked);
      for (const HeadMeasures& head : measure_heads(layer, request).heads)
        if (const std::optional<double> value = asked.of(head)) table.set(n, head.head, *value);
      if (options.progress)
        options.progress(static_cast<double>(n + 1) / static_cast<double>(state_->model->layers()));
    }
    return table.table();
  });
}

Tensor Run::effects(std::string_view column, const Indexes& positions,
                    const RunOptions& options) const {
  return api::visiting(options, [&] {
    require_threads_alone("effects", options);
    const auto number = column_named(column);
    if (!state_->patches.empty())
      fail("effects: the run has patches; heads are taken out of a clean run");
    EffectsRequest request;
    request.threads = options.threads ? options.threads : state_->threads;
    request.progress = options.progress;
    for (std::size_t b = 0; b < state_->tokens.count(); ++b) {
      const auto length = static_cast<std::int64_t>(state_->tokens.length(b));
      std::vector<std::int64_t> list = positions.list();
      for (std::int64_t t = 0; positions.all() && t < length; ++t) list.push_back(t);
      for (const std::int64_t t : list) {
        if (t >= length || t < -length)
          fail("effects: text {} has {}, there is no position {}", b,
               counted(static_cast<std::size_t>(length), "tokens"), t);
        request.places.emplace_back(b, static_cast<std::size_t>(t < 0 ? t + length : t));
      }
    }
    if (request.places.empty()) fail("effects: a list of no positions");
    if (number == &Effect::loss_change) require_next_tokens(*state_, request);
    HeadTable table(*state_->model);
    for (const Effect& one : mean_over_places(mha::effects(*state_->layers, request)))
      if (one.part == Component::head && one.*number)
        table.set(*one.layer, *one.head, *(one.*number));
    return table.table();
  });
}

} // namespace mha
