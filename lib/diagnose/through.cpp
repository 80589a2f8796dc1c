#include <mha/diagnose/through.hpp>

#include <mha/compare/streams.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>
#include <mha/diagnose/trials.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace mha {

namespace {

/// What is seen at the end, and how far a stream behind the last layer is from it.
class EndOfModel {
public:
  EndOfModel(const Layer& ends, const ReferenceStage& known, std::size_t threads)
      : ends_(ends), stage_(known.stage), threads_(threads) {
    ends_.dims.batched = true;
    theirs_ = with_given(ends_, stage_, known.value).given[index_of(stage_)];
    tolerance_ = std::max(tolerance_of(ends_.dtype), tolerance_of(known.stored));
    // The layers before round every step, of which the end shows the last only.
    constexpr double steps = 3;
    if (known.stored == DType::f16 || known.stored == DType::bf16)
      rounding_ = steps * storing_error(known.stored);
  }

  Agreement behind(const Tensor& stream) const {
    return agreement_of(value_of(with_stream(ends_, stream), stage_, threads_), theirs_,
                        tolerance_);
  }
  /// The same under a change of the end itself.
  Agreement behind(const Tensor& stream, const Change& change) const {
    return agreement_of(value_of(changed(with_stream(ends_, stream), {&change}), stage_, threads_),
                        theirs_, tolerance_);
  }
  Stage stage() const { return stage_; }
  /// What rounding of the layers before may leave, relative to the stage.
  double rounding() const { return rounding_; }
  const Layer& ends() const { return ends_; }

private:
  Layer ends_;
  Stage stage_;
  Tensor theirs_;
  double tolerance_ = 0, rounding_ = 0;
  std::size_t threads_;
};

/// Rounding grows through the layers: what is left must be small beside what was there.
bool explains_end(const Agreement& before, const Agreement& after, double rounding) {
  const bool less = after.error < 0.5 * before.error; // else it agrees by the chance of rounding
  if (after.error < rounding && after.error < 0.2 * before.error) return true;
  return (after.agrees && less) || (after.error < 1e-4 && after.error < 0.02 * before.error);
}

/// The best of what explains, as a diagnosis.
class BestCause {
public:
  BestCause(const EndOfModel& end, const Tensor& as_it_is)
      : end_(end), before_(end.behind(as_it_is)) {}

  void take(const Change& change, const Tensor& stream) { take(std::vector{change}, stream); }
  void take(const std::vector<Change>& changes, const Tensor& stream) {
    take(changes, end_.behind(stream));
  }
  void take(const std::vector<Change>& changes, const Agreement& after) {
    const Change& change = changes[0];
    if (!explains_end(before_, after, end_.rounding())) return;
    if (!best_ || after.error < 0.5 * best_->error_after) {
      if (best_) also(best_->changes[0].id);
      Diagnosis found;
      found.stages.push_back({end_.stage(), before_, after, {}});
      found.stages.back().after.agrees = true;
      found.explained = true, found.changes = changes;
      found.error_before = before_.error, found.error_after = after.error;
      if (best_ && best_->error_after < 4 * after.error) found.same_numbers = best_->same_numbers;
      best_ = std::move(found);
      return;
    }
    if (after.error < 4 * best_->error_after && change.id != best_->changes[0].id) also(change.id);
  }
  std::optional<Diagnosis> found() { return std::move(best_); }

private:
  void also(const std::string& id) {
    if (std::ranges::find(best_->same_numbers, id) == best_->same_numbers.end())
      best_->same_numbers.push_back(id);
  }

  const EndOfModel& end_;
  Agreement before_;
  std::optional<Diagnosis> best_;
};

Tensor handed_on(const Layer& layer, std::size_t threads) {
  return value_of(layer, Stage::resid_post, threads);
}

Layer on_stream(const Layer& layer, const Tensor& stream) {
  Layer own = with_stream(layer, stream);
  own.settings.columns = false, own.dims.batched = true;
  return own;
}

/// A whole pass, with each layer as `edited` makes it of itself.
template <class F>
Tensor pass(const std::vector<Layer>& layers, Tensor stream, std::size_t threads, const F& edited) {
  for (std::size_t i = 0; i < layers.size(); ++i)
    stream = handed_on(edited(on_stream(layers[i], stream), i), threads);
  return stream;
}

bool is_same(const Change& a, const Change& b) {
  return a.id == b.id && a.did == b.did;
}

StageSet everything() {
  return StageSet().set();
}

Change change_of_order(std::string id, std::string did, std::string cure) {
  Change change;
  change.id = std::move(id), change.did = std::move(did), change.cure = std::move(cure);
  change.touches = set_of({Stage::resid_post});
  change.edit = [](Layer&) {};
  return change;
}

} // namespace

std::optional<Diagnosis> explain_through(const Layer& last, const Layer& ends,
                                         const ReferenceStage& known,
                                         const DiagnoseContext& context) {
  const EndOfModel end(ends, known, context.threads);
  Layer plain = last;
  plain.settings.columns = false, plain.dims.batched = true;
  BestCause best(end, handed_on(plain, context.threads));
  const std::vector<Change> all = changes_for({plain, everything(), context.fused, context.model});
  if (context.likely && context.likely->size() > 1) { // several causes of the layer before
    std::vector<Change> likely;
    for (const Change& change : all)
      if (std::ranges::any_of(*context.likely,
                              [&](const Change& cause) { return is_same(cause, change); }))
        likely.push_back(change);
    Changes made;
    for (const Change& change : likely) made.push_back(&change);
    if (!made.empty()) try {
        best.take(likely, handed_on(changed(plain, sorted(made)), context.threads));
      } catch (const Error&) { // a change that this layer does not allow
      }
    if (std::optional<Diagnosis> found = best.found()) return found;
  }
  const Tensor as_it_is = handed_on(plain, context.threads);
  for (const Change& change : changes_for({end.ends(), everything(), false, context.model}))
    if (!contains(change.touches, Stage::embed)) try {
        best.take(std::vector{change}, end.behind(as_it_is, change));
      } catch (const Error&) { // a change that this end does not allow
      }
  for (const Change& change : all) try {
      best.take(change, handed_on(changed(plain, {&change}), context.threads));
    } catch (const Error&) { // a change that this layer does not allow
    }
  return best.found();
}

std::optional<Diagnosis> explain_embedding(const Layer& ends, const Layer& first,
                                           const std::vector<ReferenceStage>& known,
                                           const DiagnoseContext& context) {
  Layer own = ends;
  own.settings.columns = false, own.dims.batched = true;
  /// How the stages agree behind a stream, up to the first that does not.
  const auto behind = [&](const Tensor& stream, const std::vector<Diagnosis::Compared>* before) {
    const Layer layer = on_stream(first, stream);
    std::vector<Diagnosis::Compared> stages;
    for (const ReferenceStage& one : known) {
      const Tensor theirs = with_given(layer, one.stage, one.value).given[index_of(one.stage)];
      const double tolerance = std::max(tolerance_of(layer.dtype), tolerance_of(one.stored));
      const Agreement now =
          agreement_of(value_of(layer, one.stage, context.threads), theirs, tolerance);
      stages.push_back({one.stage, before ? (*before)[stages.size()].before : now, now, {}});
      constexpr double steps = 3; // of a layer that rounds each, where the type is short
      const bool half = one.stored == DType::f16 || one.stored == DType::bf16;
      if (before && !now.agrees &&
          !explains_end(stages.back().before, now, half ? steps * storing_error(one.stored) : 0))
        break;
    }
    return stages;
  };
  const std::vector<Diagnosis::Compared> as_it_is = behind(own.ends->embed, nullptr);
  std::optional<Diagnosis> best;
  for (const Change& change : changes_for({own, everything(), false, context.model})) {
    if (!contains(change.touches, Stage::embed)) continue;
    std::vector<Diagnosis::Compared> stages =
        behind(changed(own, {&change}).ends->embed, &as_it_is);
    const Agreement& last = stages.back().after;
    const bool all = stages.size() == known.size() &&
                     (last.agrees || last.error < 0.2 * stages.back().before.error);
    if (!all || (best && best->error_after <= 2 * last.error)) continue;
    best.emplace();
    best->explained = true, best->changes = {change};
    best->error_before = stages.back().before.error, best->error_after = last.error;
    for (Diagnosis::Compared& one : stages) one.after.agrees = true;
    best->stages = std::move(stages);
  }
  return best;
}

std::optional<Diagnosis> explain_everywhere(const std::vector<Layer>& layers, const Layer& ends,
                                            const ReferenceStage& known,
                                            const DiagnoseContext& context) {
  const std::size_t threads = context.threads, L = layers.size();
  const EndOfModel end(ends, known, threads);
  const Tensor embed = ends.ends->embed;
  const auto as_it_is = [](Layer layer, std::size_t) { return layer; };
  BestCause best(end, pass(layers, embed, threads, as_it_is));
  std::vector<std::vector<Change>> changes(L);
  for (std::size_t i = 0; i < L; ++i)
    changes[i] = changes_for({on_stream(layers[i], embed), everything(), context.fused, nullptr});
  std::vector<const Change*> tried; // windows and norms may be those of some layers alone
  for (const std::vector<Change>& of_layer : changes)
    for (const Change& change : of_layer) {
      if (std::ranges::any_of(tried, [&](const Change* one) { return is_same(*one, change); }))
        continue;
      tried.push_back(&change);
      try {
        best.take(change, pass(layers, embed, threads, [&](Layer layer, std::size_t i) {
                    for (const Change& own : changes[i])
                      if (is_same(own, change)) return changed(std::move(layer), {&own});
                    return layer;
                  }));
      } catch (const Error&) { // a change that some layer does not allow
      }
    }
  for (const Change& change : changes_for({end.ends(), everything(), false, context.model}))
    if (contains(change.touches, Stage::embed))
      best.take(change,
                pass(layers, changed(end.ends(), {&change}).ends->embed, threads, as_it_is));
  std::vector<Layer> order;
  const auto run = [&](const std::vector<std::size_t>& numbers, Change change) {
    order.clear();
    for (std::size_t number : numbers) order.push_back(layers[number]);
    best.take(change, pass(order, embed, threads, as_it_is));
  };
  std::vector<std::size_t> in_order(L);
  std::iota(in_order.begin(), in_order.end(), 0);
  for (const bool earlier : {true, false}) {
    std::vector<std::size_t> moved = in_order;
    if (L > 1 && earlier)
      std::rotate(moved.begin(), moved.end() - 1, moved.end()), moved[0] = 0;
    else if (L > 1)
      std::rotate(moved.begin(), moved.begin() + 1, moved.end()), moved[L - 1] = L - 1;
    run(moved, change_of_order("block.weights.other",
                               fmt::format("runs in each layer the weights of the {} one",
                                           earlier ? "previous" : "next"),
                               "load each layer's own weights"));
  }
  for (std::size_t n = 0; n < L; ++n) {
    std::vector<std::size_t> without, twice, exchanged;
    for (std::size_t i = 0; i < L; ++i) {
      if (i != n) without.push_back(i);
      twice.push_back(i);
      if (i == n) twice.push_back(i);
      exchanged.push_back(i == n && n + 1 < L ? i + 1 : i == n + 1 ? i - 1 : i);
    }
    run(without, change_of_order("block.skipped", fmt::format("leaves out layer {}", n),
                                 fmt::format("run layer {}", n)));
    run(twice, change_of_order("block.twice", fmt::format("runs layer {} twice", n),
                               fmt::format("run layer {} once", n)));
    for (std::size_t other : {n - 1, n + 1}) {
      if (other >= L) continue; // n − 1 of 0 is none, too
      std::vector<std::size_t> replaced = in_order;
      replaced[n] = other;
      run(replaced, change_of_order("block.weights.other",
                                    fmt::format("runs layer {}'s weights in layer {}", other, n),
                                    "load each layer's own weights"));
    }
    if (n + 1 < L)
      run(exchanged, change_of_order("block.weights.other",
                                     fmt::format("exchanges layers {} and {}", n, n + 1),
                                     "load each layer's own weights"));
  }
  return best.found();
}

} // namespace mha
