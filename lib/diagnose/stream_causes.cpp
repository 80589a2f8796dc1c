#include <mha/diagnose/stream_causes.hpp>

#include <mha/compare/streams.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>
#include <mha/diagnose/search.hpp>
#include <mha/diagnose/some_tokens.hpp>
#include <mha/diagnose/thresholds.hpp>
#include <mha/diagnose/trials.hpp>

#include <algorithm>

namespace mha {

namespace {

/// The causes of the previous layer, as this layer's changes, to be tried together.
std::vector<Change> likely_causes(const std::vector<Change>& all, const DiagnoseContext& context) {
  std::vector<Change> likely;
  if (!context.likely) return likely;
  for (const Change& cause : *context.likely) {
    const auto own =
        std::ranges::find_if(all, [&](const Change& change) { return is_same(cause, change); });
    if (own != all.end())
      likely.push_back(*own);
    else if (cause.fitted)
      likely.push_back(cause);
  }
  return likely;
}

/// The stream after a changed layer at some tokens, as computing all queries of a long text for
/// every change would be slow.
Tensor rows_after(const Layer& layer, const Change& change, const std::vector<std::size_t>& tokens,
                  std::size_t threads) {
  Layer edited = layer;
  detach_kept_weights(edited);
  change.edit(edited);
  edited = some_queries(edited, tokens, Stage::resid_post);
  if (change.edit_rows) change.edit_rows(edited);
  return stream_after(edited, threads);
}

} // namespace

std::optional<Diagnosis> explain_through(const Layer& last, const Layer& ends,
                                         const ReferenceStage& known,
                                         const DiagnoseContext& context) {
  const EndOfModel end(ends, known, context.threads);
  const Layer layer = plain_form(last);
  const Tensor unchanged = stream_after(layer, context.threads);
  const auto under = [&](const Changes& changes) {
    return stream_after(changed(layer, changes), context.threads);
  };
  const std::vector<Change> of_layer =
      changes_for({layer, StageSet::all(), context.fused, context.model});
  if (const std::vector<Change> likely = likely_causes(of_layer, context); !likely.empty()) {
    Search search(end, unchanged);
    Changes made;
    for (const Change& change : likely) made.push_back(&change);
    search.try_one({likely, [&] { return under(sorted(made)); }});
    if (search.is_found()) return search.found();
  }
  std::optional<EndScreen> screen;
  if (layer.dims.T > thresholds::few_queries && layer.W_c_kv.empty() && layer.lengths.empty())
    screen.emplace(end, unchanged);
  Search search(end, unchanged, screen ? &*screen : nullptr);
  const std::vector<Change> of_end =
      changes_for({end.ends(), StageSet::all(), false, context.model});
  for (const Change& change : of_end)
    if (!contains(change.touches, Stage::embed))
      search.try_one({{change}, [&] { return unchanged; }, &change});
  for (const Change& change : of_layer) {
    StreamCandidate candidate{{change}, [&] { return under({&change}); }};
    if (screen && !change.undo)
      candidate.some_rows = [&] {
        return rows_after(layer, change, screen->tokens(), context.threads);
      };
    search.try_one(candidate);
  }
  return search.found();
}

namespace {

/// The saved stages of the layer that a stream enters.
class StagesOfLayer final : public StreamView {
public:
  StagesOfLayer(const Layer& layer, const std::vector<ReferenceStage>& known, std::size_t threads)
      : layer_(layer), known_(known), threads_(threads) {}

  std::size_t stages() const override { return known_.size(); }
  Stage stage(std::size_t i) const override { return known_[i].stage; }
  /// A program that saves in half precision also rounds its steps, about three of which are between
  /// the stream and a stage.
  double rounding(std::size_t i) const override {
    return is_short(known_[i].stored) ? thresholds::rounded_steps * storing_error(known_[i].stored)
                                      : 0;
  }
  Agreement agreement(std::size_t i, const Tensor& stream, const Change*) const override {
    const ReferenceStage& one = known_[i];
    const Layer own = on_stream(layer_, stream);
    const Tensor theirs = with_given(own, one.stage, one.value).given[index_of(one.stage)];
    return agreement_of(value_of(own, one.stage, threads_), theirs,
                        std::max(tolerance_of(own.dtype), tolerance_of(one.stored)));
  }

private:
  const Layer& layer_;
  const std::vector<ReferenceStage>& known_;
  std::size_t threads_;
};

/// Searches the `wanted` changes of `source` for the one under which the layer's stages agree with
/// the reference; `stream_of` computes the layer's input.
std::optional<Diagnosis>
explain_entering(const Layer& source, const std::function<bool(const Change&)>& wanted,
                 const std::function<Tensor(const Layer&)>& stream_of, const Layer& layer,
                 const std::vector<ReferenceStage>& known, const DiagnoseContext& context) {
  const Layer own = plain_form(source);
  const StagesOfLayer view(layer, known, context.threads);
  Search search(view, stream_of(own));
  for (const Change& change : changes_for({own, StageSet::all(), false, context.model}))
    if (wanted(change))
      search.try_one({{change}, [&] { return stream_of(changed(own, {&change})); }});
  return search.found();
}

} // namespace

std::optional<Diagnosis> explain_embedding(const Layer& ends, const Layer& first,
                                           const std::vector<ReferenceStage>& known,
                                           const DiagnoseContext& context) {
  return explain_entering(
      ends, [](const Change& change) { return contains(change.touches, Stage::embed); },
      [](const Layer& layer) { return layer.ends->embed; }, first, known, context);
}

std::optional<Diagnosis> explain_last_sum(const Layer& before, const Layer& next,
                                          const std::vector<ReferenceStage>& known,
                                          const DiagnoseContext& context) {
  return explain_entering(
      before, [](const Change& change) { return change.touches == StageSet{Stage::resid_post}; },
      [&](const Layer& layer) { return stream_after(layer, context.threads); }, next, known,
      context);
}

} // namespace mha
