// Logits, losses and predictions of a run's last stream, made when they are asked for.

#include <mha/api/model_state.hpp>
#include <mha/api/visit.hpp>
#include <mha/model/predict.hpp>
#include <mha/observe/compute.hpp>
#include <mha/observe/trace.hpp>
#include <mha/tensor/precision.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

namespace {

/// −log p of the token that follows each row of logits. No tensor of T × vocabulary is kept.
class Losses : public Observer {
public:
  explicit Losses(const Tokens& tokens) : tokens_(tokens) {
    for (std::size_t b = 0; b < tokens.count(); ++b) of_texts.emplace_back(tokens.length(b) - 1);
  }
  StageSet wants() const override { return StageSet{Stage::logits}; }
  void observe(const Slice& block) override {
    by_precision(block.values.dtype, [&]<class T>(T) {
      for (std::size_t i = 0; i < block.values.shape[0]; ++i)
        add(block.batch, block.token + i,
            reinterpret_cast<const T*>(block.values.data) +
                static_cast<std::size_t>(block.values.strides[0]) * i,
            block.values.shape[1]);
    });
  }
  /// Adds the losses of logits that are already computed: (B,) T, vocabulary.
  void add_all(const Tensor& logits) {
    const std::size_t vocabulary = logits.shape().back(),
                      rows = logits.count() / (tokens_.count() * vocabulary);
    by_precision(logits.dtype(), [&]<class T>(T) {
      for (std::size_t b = 0; b < tokens_.count(); ++b)
        for (std::size_t t = 0; t < of_texts[b].size(); ++t)
          add(b, t, logits.as<T>().data() + (b * rows + t) * vocabulary, vocabulary);
    });
  }
  std::vector<std::vector<double>> of_texts;

private:
  template <class T>
  void add(std::size_t text, std::size_t position, const T* row, std::size_t vocabulary) {
    std::vector<double>& losses = of_texts[text];
    if (position >= losses.size()) return;
    const Prediction of = prediction_of(row, vocabulary, 0, tokens_.ids(text)[position + 1]);
    losses[position] = of.actual ? of.actual->surprise : std::nan("");
  }
  const Tokens& tokens_;
};

Layer patched_ends(const Run::State& run) {
  Layer ends = run.ends();
  std::vector<api::PutPatch> put;
  api::patch_layer(run, ends, run.model->layers(), put);
  return ends;
}

/// The logits at one position of a text: vocabulary.
Tensor logits_at(const Run::State& run, std::size_t text, std::size_t position) {
  const Tensor known = [&] {
    const std::lock_guard hold(run.once);
    return run.known_logits();
  }();
  if (!known.empty()) return (run.tokens.batched() ? known.at(text) : known).at(position);
  const Layer ends = patched_ends(run);
  Selection selection;
  selection.query = IndexList::of_indices({position}, "position");
  if (ends.dims.batched) selection.batch = IndexList::of_indices({text}, "text");
  return trace(ends, {Stage::logits}, selection, run.threads).value(Stage::logits);
}

void require_head(const Run::State& run) {
  if (!run.model->weights->model().head().present())
    fail("{}: the model has no head, so it predicts no tokens: its layers were saved alone",
         run.model->folder);
}

} // namespace

Tensor Run::logits() const {
  return api::visiting([&] {
    if (has("logits")) return tensor("logits");
    require_head(*state_);
    const std::lock_guard hold(state_->once);
    if (state_->logits.empty())
      state_->logits =
          trace(patched_ends(*state_), {Stage::logits}, {}, state_->threads).value(Stage::logits);
    return state_->logits.read_only();
  });
}

std::vector<std::vector<double>> Run::losses() const {
  return api::visiting([&] {
    require_head(*state_);
    if (!state_->model->weights->model().causal())
      fail("{}: the model predicts hidden tokens, not the next ones: it has no loss over a text",
           state_->model->folder);
    const std::lock_guard hold(state_->once);
    if (state_->losses) return *state_->losses;
    Losses losses(state_->tokens);
    std::size_t longest = 0;
    for (const std::vector<double>& text : losses.of_texts)
      longest = std::max(longest, text.size());
    if (const Tensor known = state_->known_logits(); !known.empty()) {
      losses.add_all(known);
    } else if (longest > 0) {
      const Layer ends = patched_ends(*state_);
      Selection selection;
      selection.query = IndexList(fmt::format("0-{}", longest - 1), "positions");
      compute(ends, make_plan(ends, losses.wants(), selection), losses, state_->threads);
    }
    state_->losses = std::move(losses.of_texts);
    return *state_->losses;
  });
}

double Run::loss() const {
  double sum = 0;
  std::size_t count = 0;
  for (const std::vector<double>& text : losses())
    for (const double loss : text) sum += loss, ++count;
  if (count == 0) fail("no position has a next token: the loss needs a text of two tokens");
  return sum / static_cast<double>(count);
}

std::vector<Predicted> Run::predictions(std::int64_t position, std::size_t top,
                                        std::size_t text) const {
  return api::visiting([&] {
    require_head(*state_);
    const auto length = static_cast<std::int64_t>(state_->tokens.length(text));
    if (position >= length || position < -length)
      fail("predictions({}): text {} has {}", position, text,
           counted(static_cast<std::size_t>(length), "tokens"));
    const auto t = static_cast<std::size_t>(position < 0 ? position + length : position);
    const Tensor row = logits_at(*state_, text, t);
    const std::size_t vocabulary = row.count();
    const Prediction found = row.dtype() == DType::f64
                                 ? prediction_of(row.as<double>().data(), vocabulary, top, -1)
                                 : prediction_of(row.as<float>().data(), vocabulary, top, -1);
    if (!found.finite) fail("the logits at position {} are not numbers", t);
    const Weights& weights = *state_->model->weights;
    const tokenizers::Tokenizer* const tokenizer =
        weights.has_tokenizer() ? &weights.tokenizer() : nullptr;
    std::vector<Predicted> list;
    for (const Candidate& one : found.candidates)
      list.push_back({one.id, tokenizer ? tokenizer->text_in_utf8(one.id) : std::to_string(one.id),
                      one.logit, one.probability});
    return list;
  });
}

} // namespace mha
