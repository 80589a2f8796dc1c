// A pass over a whole model that keeps nothing.

#include <mha/api/in_order.hpp>
#include <mha/api/model_state.hpp>
#include <mha/api/visit.hpp>
#include <mha/api/wishes.hpp>
#include <mha/forward/attention.hpp>
#include <mha/observe/several.hpp>

namespace mha {

namespace {

/// One pass whose stages are handed out in order as they appear.
class Streamed {
public:
  using Use = std::function<void(const At& at, Place place, Tensor rows)>;
  Streamed(const Run::State& run, const std::vector<std::string>& stages, const Use& use,
           const RunOptions& options)
      : run_(run), use_(use), options_(options), wishes_(stages, run.model->layers()) {}

  void compute() {
    const std::size_t layers = run_.model->layers();
    (void)api::first_patched(*run_.model, run_.patches); // throws Error for no such layer
    Advance way;
    way.threads = options_.threads;
    way.patch = [this](Layer& layer, std::size_t n) { api::put_patches(run_, layer, n, put_); };
    way.observer = [this](const Layer& layer, std::size_t n) {
      return begin(layer, n, wishes_.any(n) ? wishes_.of(n, layer) : StageSet());
    };
    way.arrived = [&](const Residual& at) {
      finish();
      if (options_.progress)
        options_.progress(static_cast<double>(at.layer) / static_cast<double>(layers));
    };
    const Residual embedded = run_.layers->embedded();
    StageSet behind; // what stands behind the last layer
    if (wishes_.any(layers)) behind = wishes_.of(layers, run_.layers->ends(embedded.x));
    if (behind.contains(Stage::embed)) of_model(embedded.x, {Stage::embed});
    behind.remove(Stage::embed);
    std::size_t last = layers; // the last layer that is needed
    if (behind.none())
      while (last > 0 && !wishes_.any(last - 1)) --last;
    const Residual at = advance(*run_.layers, embedded, last, way);
    if (behind.any()) of_model(at.x, behind);
    api::require_read(run_, put_, 0);
  }

private:
  /// Stages that are of no layer, of a stream.
  void of_model(const Tensor& x, const StageSet& wanted) {
    const std::size_t layers = run_.model->layers();
    Layer ends = run_.layers->ends(x);
    api::put_patches(run_, ends, layers, put_);
    Observer& shown = *begin(ends, layers, wanted);
    mha::compute(ends, make_plan(ends, shown.wants()), shown, options_.threads);
    finish();
  }
  Observer* begin(const Layer& layer, std::size_t n, const StageSet& wanted) {
    rows_.clear();
    all_ = Several();
    if (wanted.none()) return nullptr;
    for (const Stage stage : wanted) {
      At at{.stage = stage};
      if (n < run_.model->layers()) at.layer = n;
      rows_.push_back(
          std::make_unique<api::InOrder>(layer, stage, [this, at](Place place, Tensor rows) {
            const std::lock_guard one_at_a_time(lock_);
            use_(at, place, std::move(rows));
          }));
      all_.add(*rows_.back());
    }
    return &all_;
  }
  void finish() {
    for (const std::unique_ptr<api::InOrder>& rows : rows_) rows->finish();
    rows_.clear();
  }

  const Run::State& run_;
  const Use& use_;
  const RunOptions& options_;
  api::Wishes wishes_;
  std::mutex lock_;
  std::vector<std::unique_ptr<api::InOrder>> rows_;
  Several all_;
  std::vector<api::PutPatch> put_;
};

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
    run.clean = std::make_shared<UnpatchedPass>(run.layers);
    Streamed(run, stages, use, options).compute();
  });
}

} // namespace mha
