// Finds a cause in all layers, in some of them or in one, from the model's end alone.

#include <mha/diagnose/end_of_model.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/fitted_changes.hpp>
#include <mha/diagnose/passes_of_model.hpp>
#include <mha/diagnose/search.hpp>
#include <mha/diagnose/some_tokens.hpp>
#include <mha/diagnose/stream_causes.hpp>
#include <mha/diagnose/thresholds.hpp>
#include <mha/diagnose/trials.hpp>
#include <mha/system/parallel.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mha {

namespace {

/// The first tokens of a text, which show the effect of most changes at a fraction of the cost.
/// Under a change that sees no later tokens, their rows are those of the whole text.
class FirstTokens {
public:
  /// Nothing if the model sees later tokens, or if its first tokens do not show the difference.
  static std::optional<FirstTokens> of(const PassesOfModel& whole, const EndOfModel& end,
                                       const Agreement& before, bool fused) {
    for (std::size_t tokens = thresholds::fewest_first_tokens; 3 * tokens <= whole.tokens();
         tokens *= 2) {
      FirstTokens first(end.of(end.part(up_to(tokens))).on_threads(1));
      first.model_ = PassesOfModel::of_first(whole, tokens, fused);
      first.fewer_ = PassesOfModel::of_first(whole, tokens / 2, fused);
      if (!first.model_ || !first.fewer_) return std::nullopt;
      first.streams_ = first.model_->streams();
      if (first.sees_later(nullptr, 0)) return std::nullopt;
      if (first.end_.saved_tokens(tokens).size() < tokens) return std::nullopt;
      first.before_ = first.end_.after(first.streams_.back());
      if (!first.before_.agrees &&
          first.before_.error >= thresholds::shown_by_first_tokens * before.error)
        return first;
    }
    return std::nullopt;
  }

  const EndOfModel& end() const { return end_; }
  std::size_t tokens() const { return model_->tokens(); }
  void keep_streams() { model_->keep_streams(); }
  /// The saved stage of the end under a change.
  Tensor shown(const WholeChange& tried, const Tensor& embed) const {
    return end_.shown(model_->after_all(tried, embed));
  }
  /// Whether the first tokens show the effect of a change on the whole text.
  bool show(const WholeChange& tried) const {
    if (tried.kind != WholeChange::Kind::of_layers) return true;
    if (!tried.in.empty() || tried.alone) return true; // it is also tried in all layers
    const std::size_t n = model_->first_with(tried.change);
    const bool by_length = tried.change.id.starts_with("rope.scaling");
    if (by_length || n == model_->layers() || fewer_->first_with(tried.change) != n) return false;
    return !if_allowed([&] { return sees_later(&tried.change, n); }).value_or(true);
  }
  /// The error of the end under a change; nothing if the change cannot explain the end.
  std::optional<double> likely_error(const WholeChange& tried, const Tensor& embed) const {
    const Agreement after = end_.after(model_->after_all(tried, embed), tried.of_end());
    if (!may_explain(before_, after, end_.rounding())) return std::nullopt;
    return after.error;
  }

private:
  explicit FirstTokens(EndOfModel end) : end_(std::move(end)) {}

  /// Whether the first half of the tokens changes after layer n if the second half is missing.
  bool sees_later(const Change* change, std::size_t n) const {
    const std::vector<std::size_t> half = up_to(fewer_->tokens());
    const Tensor& stream = streams_[n];
    const Tensor of_all = token_rows(model_->after_layer(n, stream, change), half),
                 alone = fewer_->after_layer(n, token_rows(stream, half), change);
    return !(agreement_of(alone, of_all, 0).error < thresholds::same_rows);
  }

  EndOfModel end_;
  std::optional<PassesOfModel> model_, fewer_;
  std::vector<Tensor> streams_;
  Agreement before_;
};

/// The number under which the end is closest to the saved stage: the best of a grid, refined by
/// Newton's method. Nothing if no number removes much of the difference.
std::optional<double> fitted_number(const WholeNumber& number,
                                    const std::function<std::optional<Tensor>(double)>& shown,
                                    const EndOfModel& end) {
  constexpr int places = 16, rounds = 6;
  constexpr double step = 1e-3, settled = 1e-7;
  const double low = std::log(number.low), high = std::log(number.high);
  double best = 0, least = std::numeric_limits<double>::infinity(), most = 0;
  for (int i = 0; i <= places; ++i) {
    const double value = std::exp(low + (high - low) * i / places);
    const std::optional<Tensor> here = shown(value);
    if (!here) continue;
    const double error = end.of_shown(*here).error;
    most = std::max(most, error);
    if (error < least) least = error, best = value;
  }
  if (!(least < thresholds::worth_fitting_whole * most)) return std::nullopt;
  double value = best;
  for (int i = 0; i < rounds; ++i) {
    const std::optional<Tensor> here = shown(value), next = shown(value * (1 + step));
    if (!here || !next) return std::nullopt;
    const double error = end.of_shown(*here).error;
    if (error < least) least = error, best = value;
    const double by = step * end.steps_between(*here, *next);
    if (!std::isfinite(by) || std::fabs(by) < settled) break;
    value *= std::exp(std::clamp(by, (low - high) / places, (high - low) / places));
  }
  return least < thresholds::worth_trying_whole * most ? std::optional(best) : std::nullopt;
}

/// The search. Changes whose effect the first tokens show are tried on them. The others, and the
/// likely ones, are tried on the whole text, of whose end some rows are checked first.
class WholeModelSearch {
public:
  WholeModelSearch(const std::vector<Layer>& layers, const Layer& ends, const ReferenceStage& known,
                   const DiagnoseContext& context)
      : threads_(context.threads),
        end_(ends, known, context.threads),
        whole_(layers, ends.ends->embed, context.fused, context.threads),
        changes_(whole_changes(whole_, end_, context.model)),
        around_(context.model),
        unchanged_(whole_.streams().back()),
        screen_(end_, unchanged_),
        search_(end_, unchanged_, &screen_) {
    if (end_.half()) end_.allow_rounding(unchanged_, whole_.streams(end_.half()).back());
    first_ = FirstTokens::of(whole_, end_, search_.before(), context.fused);
  }

  std::optional<Diagnosis> find() {
    const std::vector<std::size_t> others = try_likely(changes_);
    if (!search_.is_found())
      for (std::size_t i : others) try_whole(changes_[i]);
    if (!search_.is_found()) fit_numbers();
    if (!search_.is_found()) try_chunks();
    if (!search_.is_found()) try_each_layer(others);
    if (!search_.is_found() && is_rounding()) return rounded();
    return search_.found();
  }

private:
  /// Whether the end differs by no more than the rounding of the model's pass in a short type.
  bool is_rounding() const { return end_.half() && search_.before().error <= end_.rounding(); }
  Diagnosis rounded() const {
    Diagnosis found;
    found.stages.push_back({end_.stage(), search_.before(), search_.before(), {}});
    found.stages.back().after.agrees = true;
    found.equal = found.explained = true, found.rounded_to = end_.half();
    found.error_before = found.error_after = search_.before().error;
    return found;
  }

  /// Tries on the whole text what is likely by the first tokens. Returns the changes whose effect
  /// the first tokens do not show.
  std::vector<std::size_t> try_likely(const std::vector<WholeChange>& changes) {
    std::vector<std::optional<double>> errors(changes.size());
    std::vector<char> shown(changes.size(), 0); // written by several threads, hence not bool
    if (first_)
      parallel_for(changes.size(), threads_, [&](std::size_t i) {
        if ((shown[i] = first_->show(changes[i]) ? 1 : 0) != 0)
          errors[i] = if_allowed([&] {
                        return first_->likely_error(changes[i], embed_of(changes[i]));
                      }).value_or(std::nullopt);
      });
    std::vector<std::size_t> likely, others;
    for (std::size_t i = 0; i < changes.size(); ++i)
      if (errors[i])
        likely.push_back(i);
      else if (!shown[i])
        others.push_back(i);
    std::ranges::stable_sort(likely, {}, [&](std::size_t i) { return *errors[i]; });
    if (likely.size() > thresholds::most_confirmed) likely.resize(thresholds::most_confirmed);
    std::ranges::sort(likely);
    for (std::size_t i : likely) try_whole(changes[i]);
    return others;
  }

  /// The changes of each single layer without those whose effect the first tokens do not show
  /// (`not_shown`): likely ones first, then those around attention.
  std::vector<WholeChange> changes_of_each(const std::vector<std::size_t>& not_shown) const {
    std::vector<WholeChange> list;
    for (std::size_t n = 0; n < whole_.layers(); ++n)
      for (const Change& change : whole_.changes()[n]) {
        const bool left_out = first_ && std::ranges::any_of(not_shown, [&](std::size_t i) {
                                return is_same(changes_[i].change, change);
                              });
        if (left_out) continue;
        WholeChange alone{change};
        alone.change.reproduction = {}; // an option would apply to every layer
        alone.alone = n, alone.which = fmt::format(", in layer {} alone", n);
        list.push_back(std::move(alone));
      }
    const StageSet around{Stage::x,       Stage::attn_add, Stage::residual, Stage::mlp_x,
                          Stage::mlp_pre, Stage::mlp_act,  Stage::mlp_out,  Stage::mlp_add};
    std::ranges::stable_sort(list, {}, [&](const WholeChange& one) {
      return !one.change.rare ? 0 : (one.change.touches & around).any() ? 1 : 2;
    });
    return list;
  }

  /// Tries causes in a single layer.
  void try_each_layer(const std::vector<std::size_t>& not_shown) {
    std::size_t left = thresholds::most_passes * whole_.layers() *
                       std::max(whole_.tokens(), thresholds::long_text);
    std::vector<WholeChange> list = changes_of_each(not_shown);
    const std::size_t tokens = first_ ? first_->tokens() : whole_.tokens();
    const auto end = std::ranges::find_if(list, [&](const WholeChange& one) {
      const std::size_t cost = (whole_.layers() - *one.alone) * tokens;
      left -= std::min(left, cost);
      return left == 0;
    });
    list.erase(end, list.end());
    if (first_) first_->keep_streams();
    whole_.keep_streams();
    for (std::size_t i : try_likely(list))
      if (!first_) try_whole(list[i]);
  }

  /// The embedding under a change of it, else empty.
  Tensor embed_of(const WholeChange& tried) const {
    if (tried.kind != WholeChange::Kind::of_embedding) return {};
    return changed(end_.ends(), {&tried.change}).ends->embed;
  }

  /// Fits numbers, each on the first tokens or on all of a short text, and tries them on the whole
  /// text.
  void fit_numbers() {
    const std::vector<WholeNumber> numbers = whole_numbers(whole_, around_);
    std::vector<std::optional<double>> fitted(numbers.size());
    const auto fit = [&](std::size_t i) {
      const WholeNumber& number = numbers[i];
      const auto shown = [&](double value) {
        return if_allowed([&] {
          const WholeChange tried = number.change(value);
          const Tensor embed = embed_of(tried);
          return first_ ? first_->shown(tried, embed) : end_.shown(whole_.after_all(tried, embed));
        });
      };
      fitted[i] = fitted_number(number, shown, first_ ? first_->end() : end_);
    };
    if (first_)
      parallel_for(numbers.size(), threads_, fit);
    else
      for (std::size_t i = 0; i < numbers.size(); ++i) fit(i);
    for (std::size_t i = 0; i < numbers.size(); ++i)
      if (fitted[i]) try_whole(numbers[i].change(*fitted[i]));
  }

  /// Tries texts computed in chunks, which begin at the first token whose end differs. If that is
  /// token 0, a prefix without a causal mask is tried.
  void try_chunks() {
    const std::vector<std::size_t> saved = end_.saved_tokens(whole_.tokens());
    const auto first = std::ranges::find_if(saved, [&](std::size_t t) {
      const Agreement here = end_.of(end_.part({t})).after(token_rows(unchanged_, {t}));
      return !here.agrees && here.error > end_.rounding();
    });
    if (first == saved.end()) return;
    if (*first == 0) return try_prefixes();
    const std::vector<Change> changes = chunk_changes(whole_.layer(0), *first);
    for (std::size_t i = 0; i < changes.size(); ++i) {
      WholeChange tried{changes[i]};
      tried.made = [i, n = *first](const Layer& layer) { return chunk_changes(layer, n).at(i); };
      try_whole(tried);
    }
  }

  /// Tries prefixes in which all tokens see each other. Their length is not visible at the end,
  /// where all tokens differ.
  void try_prefixes() {
    for (std::size_t n = 2;
         n <= std::min(whole_.tokens(), thresholds::longest_prefix) && !search_.is_found(); ++n) {
      const std::vector<Change> changes = prefix_changes(whole_.layer(0), n);
      if (changes.empty()) return;
      WholeChange tried{changes[0]};
      tried.made = [n](const Layer& layer) { return prefix_changes(layer, n).at(0); };
      try_whole(tried);
    }
  }

  void try_whole(const WholeChange& tried) {
    StreamCandidate candidate{
        {tried.change}, [&] { return whole_.after_all(tried, embed_of(tried)); }, tried.of_end()};
    candidate.changes[0].did += tried.which;
    if (tried.at_end) candidate.changes.push_back(*tried.at_end);
    search_.try_one(candidate);
  }

  std::size_t threads_;
  EndOfModel end_;
  PassesOfModel whole_;
  std::vector<WholeChange> changes_;
  const ModelAround* around_;
  Tensor unchanged_; ///< the stream after the last layer
  EndScreen screen_;
  Search search_;
  std::optional<FirstTokens> first_;
};

} // namespace

std::optional<Diagnosis> explain_everywhere(const std::vector<Layer>& layers, const Layer& ends,
                                            const ReferenceStage& known,
                                            const DiagnoseContext& context) {
  return WholeModelSearch(layers, ends, known, context).find();
}

} // namespace mha
