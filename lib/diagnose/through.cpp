#include <mha/diagnose/through.hpp>

#include <mha/compare/streams.hpp>
#include <mha/diagnose/end_of_model.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>
#include <mha/diagnose/some_queries.hpp>
#include <mha/diagnose/some_tokens.hpp>
#include <mha/diagnose/trials.hpp>

#include <algorithm>
#include <functional>

namespace mha {

namespace {

/// The last layer under changes, compared at the model's end. All queries of a long text would be
/// slow for every change: a change is first tried on a few of them.
class LastLayer {
public:
  LastLayer(const Layer& layer, const EndOfModel& end, std::size_t threads)
      : layer_(layer), end_(end), threads_(threads), as_it_is_(handed_on(layer, threads)) {
    constexpr std::size_t screened = 16, few = 48;
    if (layer.dims.T <= few || !layer.W_c_kv.empty() || !layer.lengths.empty()) return;
    tokens_ = end.saved_tokens(screened);
    some_.emplace(end.of(end.part(tokens_)));
    rows_ = token_rows(as_it_is_, tokens_);
    before_ = some_->behind(rows_);
  }

  const Tensor& as_it_is() const { return as_it_is_; }

  /// A change of the layer, if it may explain the end.
  void try_of_layer(const Change& change, BestCause& best) const {
    if (some_ && !change.undo) {
      Layer edited = layer_;
      set_apart(edited);
      change.edit(edited);
      edited = some_queries(edited, tokens_, Stage::resid_post);
      if (change.edit_rows) change.edit_rows(edited);
      if (!is_likely(some_->behind(handed_on(edited, threads_)))) return;
    }
    best.take(change, handed_on(changed(layer_, {&change}), threads_));
  }
  /// A change of the end.
  void try_of_end(const Change& change, BestCause& best) const {
    if (some_ && !shows(change)) return;
    best.take(std::vector{change}, end_.behind(as_it_is_, change));
  }

private:
  /// Whether some of the end makes a change of it likely.
  bool shows(const Change& change) const {
    const EndSample usual = end_.part(tokens_), part = usual.telling({&change});
    if (part == usual) return is_likely(some_->behind(rows_, change));
    const EndOfModel end = end_.of(part);
    const Tensor& rows = part.tokens.empty() ? as_it_is_ : rows_;
    return may_explain(end.behind(rows), end.behind(rows, change), end_.rounding());
  }
  bool is_likely(const Agreement& after) const {
    return may_explain(before_, after, end_.rounding());
  }

  const Layer& layer_;
  const EndOfModel& end_;
  std::size_t threads_;
  Tensor as_it_is_; ///< what it hands on
  std::vector<std::size_t> tokens_;
  std::optional<EndOfModel> some_; ///< of those tokens
  Tensor rows_;
  Agreement before_;
};

} // namespace

std::optional<Diagnosis> explain_through(const Layer& last, const Layer& ends,
                                         const ReferenceStage& known,
                                         const DiagnoseContext& context) {
  const EndOfModel end(ends, known, context.threads);
  const Layer plain = plain_form(last);
  const LastLayer layer(plain, end, context.threads);
  BestCause best(end, end.behind(layer.as_it_is()));
  const std::vector<Change> all =
      changes_for({plain, StageSet::all(), context.fused, context.model});
  if (context.likely && !context.likely->empty()) { // the layer before has causes: the same ones
    std::vector<Change> likely;
    for (const Change& cause : *context.likely) {
      const auto own =
          std::ranges::find_if(all, [&](const Change& change) { return is_same(cause, change); });
      if (own != all.end())
        likely.push_back(*own);
      else if (cause.fitted)
        likely.push_back(cause);
    }
    Changes made;
    for (const Change& change : likely) made.push_back(&change);
    if (!made.empty()) try {
        best.take(likely, handed_on(changed(plain, sorted(made)), context.threads));
      } catch (const Error&) { // a change that this layer does not allow
      }
    if (std::optional<Diagnosis> found = best.found()) return found;
  }
  for (const Change& change : changes_for({end.ends(), StageSet::all(), false, context.model}))
    if (!contains(change.touches, Stage::embed)) try {
        layer.try_of_end(change, best);
      } catch (const Error&) { // a change that this end does not allow
      }
  for (const Change& change : all) try {
      layer.try_of_layer(change, best);
    } catch (const Error&) { // a change that this layer does not allow
    }
  return best.found();
}

namespace {

/// A change that makes what enters a layer, and the stream that it makes.
struct Entering {
  const Change* change;
  std::function<Tensor()> stream;
};

/// Of changes of what enters a layer, the one under which the layer's stages are the reference's.
std::optional<Diagnosis> best_entering(const Layer& layer, const Tensor& as_it_is,
                                       const std::vector<Entering>& changes,
                                       const std::vector<ReferenceStage>& known,
                                       std::size_t threads) {
  /// How the stages computed from a stream agree, up to the first that does not.
  const auto agreement_after = [&](const Tensor& stream,
                                   const std::vector<Diagnosis::Compared>* before) {
    const Layer own = on_stream(layer, stream);
    std::vector<Diagnosis::Compared> stages;
    for (const ReferenceStage& one : known) {
      const Tensor theirs = with_given(own, one.stage, one.value).given[index_of(one.stage)];
      const double tolerance = std::max(tolerance_of(own.dtype), tolerance_of(one.stored));
      const Agreement now = agreement_of(value_of(own, one.stage, threads), theirs, tolerance);
      stages.push_back({one.stage, before ? (*before)[stages.size()].before : now, now, {}});
      // Saved by a program that rounds its steps to half precision: about three of them lie between
      // the stream and a stage.
      constexpr double steps = 3;
      const bool half = is_short(one.stored);
      if (before && !now.agrees &&
          !explains_end(stages.back().before, now, half ? steps * storing_error(one.stored) : 0))
        break;
    }
    return stages;
  };
  // Rounding of the layers before is left after the right change: it need not agree within the
  // tolerance, but most of the difference must be gone. Errors within a factor of 2 are the same
  // but for rounding: then the change that was tried first stays.
  constexpr double much_less = 0.2, clearly_less = 2;
  const std::vector<Diagnosis::Compared> before = agreement_after(as_it_is, nullptr);
  std::optional<Diagnosis> best;
  for (const Entering& entering : changes) try {
      std::vector<Diagnosis::Compared> stages = agreement_after(entering.stream(), &before);
      const Agreement& last = stages.back().after;
      const bool all = stages.size() == known.size() &&
                       (last.agrees || last.error < much_less * stages.back().before.error);
      if (!all || (best && best->error_after <= clearly_less * last.error)) continue;
      best.emplace();
      best->explained = true, best->changes = {*entering.change};
      best->error_before = stages.back().before.error, best->error_after = last.error;
      for (Diagnosis::Compared& one : stages) one.after.agrees = true;
      best->stages = std::move(stages);
    } catch (const Error&) { // a change that the layer does not allow
    }
  return best;
}

/// The same of those changes of `source` that are `wanted`; `stream_of` is what enters the layer.
std::optional<Diagnosis>
explain_entering(const Layer& source, const std::function<bool(const Change&)>& wanted,
                 const std::function<Tensor(const Layer&)>& stream_of, const Layer& layer,
                 const std::vector<ReferenceStage>& known, const DiagnoseContext& context) {
  const Layer own = plain_form(source);
  const std::vector<Change> all = changes_for({own, StageSet::all(), false, context.model});
  std::vector<Entering> changes;
  for (const Change& change : all)
    if (wanted(change))
      changes.push_back({&change, [&] { return stream_of(changed(own, {&change})); }});
  return best_entering(layer, stream_of(own), changes, known, context.threads);
}

} // namespace

std::optional<Diagnosis> explain_embedding(const Layer& ends, const Layer& first,
                                           const std::vector<ReferenceStage>& known,
                                           const DiagnoseContext& context) {
  return explain_entering(
      ends, [](const Change& change) { return contains(change.touches, Stage::embed); },
      [](const Layer& layer) { return layer.ends->embed; }, first, known, context);
}

std::optional<Diagnosis> explain_handed_on(const Layer& before, const Layer& next,
                                           const std::vector<ReferenceStage>& known,
                                           const DiagnoseContext& context) {
  return explain_entering(
      before, [](const Change& change) { return change.touches == StageSet{Stage::resid_post}; },
      [&](const Layer& layer) { return handed_on(layer, context.threads); }, next, known, context);
}

} // namespace mha
