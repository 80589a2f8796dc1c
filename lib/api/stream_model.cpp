// A pass through a whole model that keeps nothing.

#include <mha/api/in_order.hpp>
#include <mha/api/model_state.hpp>
#include <mha/api/visit.hpp>
#include <mha/api/wishes.hpp>
#include <mha/observe/compute.hpp>
#include <mha/observe/several.hpp>

namespace mha {

namespace {

using UseRows = std::function<void(const At& at, Place place, Tensor rows)>;

/// Passes rows of stages to a function, in order within a stage, one layer after the other.
class RowsInOrder {
public:
  RowsInOrder(std::size_t layers, const UseRows& use) : layers_(layers), use_(use) {}

  /// The observer of a layer, or of the model's end; null where nothing is wanted.
  Observer* of(const Layer& layer, std::size_t n, const StageSet& wanted) {
    all_ = Several();
    if (wanted.none()) return nullptr;
    for (const Stage stage : wanted) {
      At at{.stage = stage};
      if (n < layers_) at.layer = n;
      rows_.push_back(
          std::make_unique<api::InOrder>(layer, stage, [this, at](Place place, Tensor rows) {
            const std::lock_guard one_at_a_time(lock_);
            use_(at, place, std::move(rows));
          }));
      all_.add(*rows_.back());
    }
    return &all_;
  }
  /// Passes what is left of that layer once it is computed.
  void finish() {
    for (const std::unique_ptr<api::InOrder>& rows : rows_) rows->finish();
    rows_.clear();
  }

private:
  std::size_t layers_;
  const UseRows& use_;
  std::mutex lock_;
  std::vector<std::unique_ptr<api::InOrder>> rows_;
  Several all_;
};

/// One pass of a run, up to the last layer that is needed.
void stream_pass(const Run::State& run, const api::Wishes& wishes, RowsInOrder& rows,
                 const RunOptions& options) {
  const std::size_t layers = run.model->layers();
  (void)api::first_patched(*run.model, run.patches); // throws Error for no such layer
  std::vector<api::PutPatch> put;
  const auto of_model = [&](const Tensor& x, const StageSet& wanted) {
    if (wanted.none()) return;
    Layer ends = run.layers->ends(x);
    api::patch_layer(run, ends, layers, put);
    Observer& shown = *rows.of(ends, layers, wanted);
    compute(ends, make_plan(ends, shown.wants()), shown, options.threads);
    rows.finish();
  };
  Advance pass;
  pass.threads = options.threads;
  pass.patch = [&](Layer& layer, std::size_t n) { api::patch_layer(run, layer, n, put); };
  pass.observer = [&](const Layer& layer, std::size_t n) {
    return rows.of(layer, n, wishes.any(n) ? wishes.of(n, layer) : StageSet());
  };
  pass.arrived = [&](const Residual& at) {
    rows.finish();
    if (options.progress)
      options.progress(static_cast<double>(at.layer) / static_cast<double>(layers));
  };
  const Residual embedded = run.layers->embedded();
  StageSet after_last;
  if (wishes.any(layers)) after_last = wishes.of(layers, run.layers->ends(embedded.x));
  of_model(embedded.x, after_last & StageSet{Stage::embed});
  after_last.remove(Stage::embed);
  std::size_t needed = layers;
  if (after_last.none())
    while (needed > 0 && !wishes.any(needed - 1)) --needed;
  const Residual last = advance(*run.layers, embedded, needed, pass);
  of_model(last.x, after_last);
  api::require_read(run, put, 0);
}

} // namespace

void Model::stream(const Tokens& tokens, const std::vector<std::string>& stages,
                   const std::function<void(const At& at, Place place, Tensor rows)>& use,
                   const RunOptions& options) const {
  api::visiting(options, [&] {
    if (stages.empty()) fail("stream: no stage is named");
    if (!use) fail("stream: there is no function that gets the rows");
    if (!options.keep.empty())
      fail("stream keeps nothing: stages are its second argument; leave options.keep empty");
    Run::State run;
    run.model = state_.get(), run.tokens = tokens, run.patches = options.patches;
    run.layers = state_->layers_for(tokens);
    run.take_values();
    RowsInOrder rows(state_->layers(), use);
    stream_pass(run, api::Wishes(stages, state_->layers()), rows, options);
  });
}

} // namespace mha
