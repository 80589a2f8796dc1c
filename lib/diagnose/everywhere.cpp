// A cause in all layers at once, seen at the model's end alone.

#include <mha/diagnose/end_of_model.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>
#include <mha/diagnose/some_tokens.hpp>
#include <mha/diagnose/through.hpp>
#include <mha/diagnose/trials.hpp>
#include <mha/system/parallel.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace mha {

namespace {

/// What the whole model may do otherwise.
struct WholeChange {
  Change change;
  enum class Kind : std::uint8_t { of_layers, of_embedding, of_order } kind = Kind::of_layers;
  std::vector<std::size_t> order = {}; ///< which layers' weights run, one after the other
  std::optional<Change> at_end = {};   ///< the same of the model's end, made with it

  /// How an end agrees behind the stream that the change makes.
  Agreement behind(const EndOfModel& end, const Tensor& stream) const {
    return at_end ? end.behind(stream, *at_end) : end.behind(stream);
  }
};

std::vector<std::size_t> up_to(std::size_t count) {
  std::vector<std::size_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

/// A model on a text, or on its first tokens, with the changes that each layer allows.
class PassesOfModel {
public:
  PassesOfModel(std::vector<Layer> layers, Tensor embed, bool fused, std::size_t threads)
      : layers_(std::move(layers)), embed_(std::move(embed)), threads_(threads) {
    for (Layer& layer : layers_) {
      layer = on_stream(layer, embed_);
      changes_.push_back(changes_for({layer, StageSet::all(), fused, nullptr}));
    }
  }
  /// The same of the first tokens; nothing where the layers have no shorter form.
  static std::optional<PassesOfModel> of_first(const PassesOfModel& whole, std::size_t tokens,
                                               bool fused) {
    std::vector<Layer> layers;
    for (const Layer& layer : whole.layers_) {
      std::optional<Layer> some = of_first_tokens(layer, tokens);
      if (!some) return std::nullopt;
      layers.push_back(std::move(*some));
    }
    return PassesOfModel(std::move(layers), token_rows(whole.embed_, up_to(tokens)), fused, 1);
  }

  std::size_t layers() const { return layers_.size(); }
  std::size_t tokens() const { return embed_.shape()[1]; }
  const std::vector<std::vector<Change>>& changes() const { return changes_; }

  /// What enters each layer and leaves the last one, as the model is.
  std::vector<Tensor> streams() const {
    std::vector<Tensor> list{embed_};
    for (const Layer& layer : layers_)
      list.push_back(handed_on(on_stream(layer, list.back()), threads_));
    return list;
  }
  /// What layer n hands on under a change, or as it is.
  Tensor behind_layer(std::size_t n, const Tensor& stream, const Change* change) const {
    Layer layer = on_stream(layers_[n], stream);
    if (change)
      if (const Change* own = own_change(n, *change)) layer = changed(std::move(layer), {own});
    return handed_on(layer, threads_);
  }
  /// The stream behind the last layer under a change; `embed`: the changed embedding of all tokens.
  Tensor behind_all(const WholeChange& tried, const Tensor& embed) const {
    if (tried.kind == WholeChange::Kind::of_embedding) {
      Tensor stream = embed.shape()[1] == tokens() ? embed : token_rows(embed, up_to(tokens()));
      for (std::size_t n = 0; n < layers(); ++n) stream = behind_layer(n, stream, nullptr);
      return stream;
    }
    const bool in_order = tried.order.empty();
    Tensor stream = embed_;
    for (std::size_t n : in_order ? up_to(layers()) : tried.order)
      stream = behind_layer(n, stream, in_order ? &tried.change : nullptr);
    return stream;
  }
  /// The first layer that a change is of; their number where it is of none.
  std::size_t first_with(const Change& change) const {
    std::size_t n = 0;
    while (n < layers() && !own_change(n, change)) ++n;
    return n;
  }

private:
  const Change* own_change(std::size_t n, const Change& change) const {
    for (const Change& own : changes_[n])
      if (is_same(own, change)) return &own;
    return nullptr;
  }

  std::vector<Layer> layers_;
  std::vector<std::vector<Change>> changes_;
  Tensor embed_;
  std::size_t threads_;
};

Change change_of_order(std::string id, std::string did, std::string cure) {
  Change change;
  change.id = std::move(id), change.did = std::move(did), change.cure = std::move(cure);
  change.touches = StageSet{Stage::resid_post};
  change.edit = [](Layer&) {};
  return change;
}

/// One layer left out, run twice, exchanged with the next; each layer with its neighbour's weights.
void add_orders(std::size_t L, std::vector<WholeChange>& list) {
  const auto add = [&](std::vector<std::size_t> order, const char* id, std::string did,
                       std::string cure) {
    list.push_back({change_of_order(id, std::move(did), std::move(cure)),
                    WholeChange::Kind::of_order, std::move(order)});
  };
  const std::string own = "load each layer's own weights";
  for (const bool earlier : {true, false}) {
    std::vector<std::size_t> moved = up_to(L);
    if (L > 1 && earlier)
      std::rotate(moved.begin(), moved.end() - 1, moved.end()), moved[0] = 0;
    else if (L > 1)
      std::rotate(moved.begin(), moved.begin() + 1, moved.end()), moved[L - 1] = L - 1;
    add(std::move(moved), "block.weights.other",
        fmt::format("runs in each layer the weights of the {} one", earlier ? "previous" : "next"),
        own);
  }
  std::vector<std::size_t> reversed = up_to(L);
  std::ranges::reverse(reversed);
  if (L > 2)
    add(std::move(reversed), "block.weights.other", "runs the layers in the reverse order", own);
  for (std::size_t n = 0; L > 2 && n < L; n += L - 1)
    add(std::vector<std::size_t>(L, n), "block.weights.other",
        fmt::format("runs layer {}'s weights in every layer", n), own);
  for (std::size_t n = 0; n < L; ++n) {
    std::vector<std::size_t> without = up_to(L), twice = without, exchanged = without;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(n));
    twice.insert(twice.begin() + static_cast<std::ptrdiff_t>(n), n);
    add(std::move(without), "block.skipped", fmt::format("leaves out layer {}", n),
        fmt::format("run layer {}", n));
    add(std::move(twice), "block.twice", fmt::format("runs layer {} twice", n),
        fmt::format("run layer {} once", n));
    for (std::size_t other : {n - 1, n + 1}) {
      if (other >= L) continue; // n − 1 of 0 is none, too
      std::vector<std::size_t> replaced = up_to(L);
      replaced[n] = other;
      add(std::move(replaced), "block.weights.other",
          fmt::format("runs layer {}'s weights in layer {}", other, n), own);
    }
    if (n + 1 == L) continue;
    std::swap(exchanged[n], exchanged[n + 1]);
    add(std::move(exchanged), "block.weights.other",
        fmt::format("exchanges layers {} and {}", n, n + 1), own);
  }
}

/// What all norms of the layers have otherwise, the last norm has, too.
void add_with_end(const std::vector<Change>& of_ends, std::vector<WholeChange>& list) {
  const std::string every = "every norm of the layer", last = "the last norm";
  for (std::size_t i = 0, count = list.size(); i < count; ++i) {
    std::string did = list[i].change.did;
    const std::size_t at = did.find(every);
    if (at == std::string::npos) continue;
    did.replace(at, every.size(), last);
    const auto same = std::ranges::find(of_ends, did, &Change::did);
    if (same == of_ends.end()) continue;
    WholeChange both = list[i];
    both.at_end = *same;
    list.push_back(std::move(both));
  }
}

/// Each change in every layer that it is of (windows and norms may be those of some alone), of the
/// embedding, and of the layers' order.
std::vector<WholeChange> all_changes(const PassesOfModel& model, const EndOfModel& end,
                                     const ModelAround* around) {
  std::vector<WholeChange> list;
  for (const std::vector<Change>& of_layer : model.changes())
    for (const Change& change : of_layer)
      if (std::ranges::none_of(list,
                               [&](const WholeChange& one) { return is_same(one.change, change); }))
        list.push_back({change});
  std::vector<Change> of_ends = changes_for({end.ends(), StageSet::all(), false, around});
  add_with_end(of_ends, list);
  for (Change& change : of_ends)
    if (contains(change.touches, Stage::embed))
      list.push_back({std::move(change), WholeChange::Kind::of_embedding});
  add_orders(model.layers(), list);
  return list;
}

/// The first tokens of a text, which show at a part of the cost what most changes do: under those
/// that see no later token, their rows are those of the whole text.
class FirstTokens {
public:
  /// Nothing where the model sees later tokens, or its first ones do not show the difference.
  static std::optional<FirstTokens> of(const PassesOfModel& whole, const EndOfModel& end,
                                       const Agreement& before, bool fused) {
    constexpr std::size_t least = 16;
    constexpr double shown = 0.25; // of the difference
    for (std::size_t tokens = least; 3 * tokens <= whole.tokens(); tokens *= 2) {
      FirstTokens first(end.of_tokens(up_to(tokens)).on_threads(1));
      first.model_ = PassesOfModel::of_first(whole, tokens, fused);
      first.fewer_ = PassesOfModel::of_first(whole, tokens / 2, fused);
      if (!first.model_ || !first.fewer_) return std::nullopt;
      first.streams_ = first.model_->streams();
      if (first.sees_later(nullptr, 0)) return std::nullopt;
      if (first.end_.saved_tokens(tokens).size() < tokens) return std::nullopt;
      first.before_ = first.end_.behind(first.streams_.back());
      if (!first.before_.agrees && first.before_.error >= shown * before.error) return first;
    }
    return std::nullopt;
  }

  /// Whether they tell what the change does to the whole text.
  bool tell(const WholeChange& tried) const {
    if (tried.kind != WholeChange::Kind::of_layers) return true;
    const std::size_t n = model_->first_with(tried.change);
    const bool by_length = tried.change.id.starts_with("rope.scaling");
    if (by_length || n == model_->layers() || fewer_->first_with(tried.change) != n) return false;
    try {
      return !sees_later(&tried.change, n);
    } catch (const Error&) { // a change that this layer does not allow
      return false;
    }
  }
  /// How far the end is under the change; nothing where it cannot explain the end.
  std::optional<double> likely_error(const WholeChange& tried, const Tensor& embed) const {
    const Agreement after = tried.behind(end_, model_->behind_all(tried, embed));
    if (!may_explain(before_, after, end_.rounding())) return std::nullopt;
    return after.error;
  }

private:
  explicit FirstTokens(EndOfModel end) : end_(std::move(end)) {}

  /// Whether half of the tokens have other rows behind a layer without the other half.
  bool sees_later(const Change* change, std::size_t n) const {
    constexpr double same = 1e-4;
    const std::vector<std::size_t> half = up_to(fewer_->tokens());
    const Tensor& stream = streams_[n];
    const Tensor of_all = token_rows(model_->behind_layer(n, stream, change), half),
                 alone = fewer_->behind_layer(n, token_rows(stream, half), change);
    return !(agreement_of(alone, of_all, 0).error < same);
  }

  EndOfModel end_;
  std::optional<PassesOfModel> model_, fewer_;
  std::vector<Tensor> streams_;
  Agreement before_;
};

/// The search: what the first tokens tell is tried on them; the rest, and what they make likely, on
/// the whole text, whose end is looked at in some rows first.
class Everywhere {
public:
  Everywhere(const std::vector<Layer>& layers, const Layer& ends, const ReferenceStage& known,
             const DiagnoseContext& context)
      : threads_(context.threads),
        end_(ends, known, context.threads),
        whole_(layers, ends.ends->embed, context.fused, context.threads),
        changes_(all_changes(whole_, end_, context.model)),
        as_it_is_(whole_.streams().back()),
        best_(end_, end_.behind(as_it_is_)) {
    constexpr std::size_t screened = 16;
    tokens_ = end_.saved_tokens(screened);
    some_.emplace(end_.of_tokens(tokens_));
    some_before_ = some_->behind(token_rows(as_it_is_, tokens_));
    first_ = FirstTokens::of(whole_, end_, best_.before(), context.fused);
  }

  std::optional<Diagnosis> find() {
    std::vector<std::optional<double>> errors(changes_.size());
    std::vector<char> told(changes_.size(), 0); // by several threads: no vector of bits
    if (first_)
      parallel_for(changes_.size(), threads_, [&](std::size_t i) {
        try {
          if ((told[i] = first_->tell(changes_[i]) ? 1 : 0) != 0)
            errors[i] = first_->likely_error(changes_[i], embed_of(changes_[i]));
        } catch (const Error&) { // a change that some layer does not allow
        }
      });
    constexpr std::size_t most_confirmed = 16;
    std::vector<std::size_t> likely, others;
    for (std::size_t i = 0; i < changes_.size(); ++i)
      if (errors[i])
        likely.push_back(i);
      else if (!told[i])
        others.push_back(i);
    std::ranges::stable_sort(likely, {}, [&](std::size_t i) { return *errors[i]; });
    if (likely.size() > most_confirmed) likely.resize(most_confirmed);
    std::ranges::sort(likely);
    for (std::size_t i : likely) try_whole(changes_[i]);
    if (!best_.is_found())
      for (std::size_t i : others) try_whole(changes_[i]);
    return best_.found();
  }

private:
  /// The embedding under a change of it.
  Tensor embed_of(const WholeChange& tried) const {
    if (tried.kind != WholeChange::Kind::of_embedding) return {};
    return changed(end_.ends(), {&tried.change}).ends->embed;
  }

  void try_whole(const WholeChange& tried) {
    try {
      const Tensor stream = whole_.behind_all(tried, embed_of(tried));
      const Agreement some = tried.behind(*some_, token_rows(stream, tokens_));
      if (!may_explain(some_before_, some, end_.rounding())) return;
      std::vector<Change> changes{tried.change};
      if (tried.at_end) changes.push_back(*tried.at_end);
      best_.take(changes, tried.behind(end_, stream));
    } catch (const Error&) { // a change that some layer does not allow
    }
  }

  std::size_t threads_;
  EndOfModel end_;
  PassesOfModel whole_;
  std::vector<WholeChange> changes_;
  Tensor as_it_is_; ///< the stream behind the last layer
  BestCause best_;
  std::vector<std::size_t> tokens_;
  std::optional<EndOfModel> some_; ///< of those tokens
  Agreement some_before_;
  std::optional<FirstTokens> first_;
};

} // namespace

std::optional<Diagnosis> explain_everywhere(const std::vector<Layer>& layers, const Layer& ends,
                                            const ReferenceStage& known,
                                            const DiagnoseContext& context) {
  return Everywhere(layers, ends, known, context).find();
}

} // namespace mha
