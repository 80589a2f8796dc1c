// Runs of a whole model: what is kept of a pass, and passes that begin where another was changed.

#include <mha/api/model_state.hpp>
#include <mha/api/visit.hpp>
#include <mha/api/wishes.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/observe/compute.hpp>
#include <mha/observe/trace.hpp>
#include <mha/system/limits.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

namespace mha {

namespace {

using api::PutPatch;

/// Throws Error for a run that would not fit, and for stages that a layer lacks, before anything is
/// computed.
void require_room(const Run::State& run, const api::Wishes& wishes, bool streams) {
  const std::size_t layers = run.model->layers();
  const Tensor x = run.layers->embedded().x;
  std::size_t bytes = streams ? (layers + 1) * x.bytes() : 0;
  for (std::size_t n = 0; n <= layers; ++n)
    if (wishes.any(n)) {
      Layer layer = n < layers ? run.layers->sized(n) : run.layers->ends(x);
      layer.misses_rollout = false; // it comes with the stream
      bytes += api::bytes_of(layer, wishes.of(n, layer));
    }
  require_memory(
      bytes, "the stages asked for, and the streams between layers,",
      "keep those that are needed (layers.0.weights), leave out the streams (streams = false), or "
      "stream the stages");
}

/// Computes a run from the first layer that its new patches change.
class Runner {
public:
  Runner(std::shared_ptr<Run::State> run, const Run::State* before, const RunOptions& options)
      : run_(std::move(run)),
        before_(before && !before->streams.empty() ? before : nullptr),
        options_(options),
        wishes_(options.keep, run_->model->layers()) {}

  void compute() {
    const std::size_t layers = run_->model->layers();
    require_room(*run_, wishes_, options_.streams);
    const std::size_t inherited = before_ ? before_->patches.size() : 0;
    std::size_t first = 0;
    if (before_)
      first = api::first_patched(
          *run_->model,
          {run_->patches.begin() + static_cast<std::ptrdiff_t>(inherited), run_->patches.end()});
    else
      (void)api::first_patched(*run_->model, run_->patches); // throws Error for no such layer
    Residual at = before_ ? before_->streams[first] : run_->layers->embedded();
    if (before_)
      streams_.assign(before_->streams.begin(),
                      before_->streams.begin() + static_cast<std::ptrdiff_t>(first));
    keep_before(first, at.rollout);
    streams_.push_back({at.x, at.layer, {}, at.keys});
    at = advance(*run_->layers, at, layers, pass_options());
    // Patches of the model's end are checked even if nothing of it is kept: logits() may read them
    // later.
    Layer ends = run_->layers->ends(at.x);
    std::vector<PutPatch> of_ends;
    api::patch_layer(*run_, ends, layers, of_ends);
    report_doubts(put_), report_doubts(of_ends);
    if (wishes_.any(layers)) {
      keep(ends, layers);
      std::ranges::move(of_ends, std::back_inserter(put_));
    } else {
      keep_nothing();
    }
    api::require_read(*run_, put_, inherited);
    if (options_.streams) run_->streams = std::move(streams_);
  }

private:
  /// Keeps what is asked for of the layers that no new patch changes, and their rollout.
  void keep_before(std::size_t first, Tensor& rollout) {
    for (std::size_t n = 0; n < first; ++n) {
      if (!wishes_.any(n) && !wishes_.roll_out()) {
        keep_nothing();
        continue;
      }
      Layer layer = run_->layers->layer(streams_[n]);
      layer.rollout_before = rollout;
      put(layer, n);
      if (wishes_.any(n))
        keep(layer, n);
      else
        keep_nothing();
      if (contains(wishes_.of(n, layer), Stage::rollout))
        rollout = run_->kept.back()->tensor(Stage::rollout);
      else if (wishes_.roll_out())
        rollout = whole_stage(layer, Stage::rollout, options_.threads);
      report(n + 1);
    }
  }

  Advance pass_options() {
    Advance pass;
    pass.threads = options_.threads, pass.rolls = wishes_.roll_out();
    pass.patch = [this](Layer& layer, std::size_t n) { put(layer, n); };
    pass.observer = [this](const Layer& layer, std::size_t n) -> Observer* {
      trace_.reset();
      if (!wishes_.any(n)) {
        keep_nothing();
        return nullptr;
      }
      state_ = api::empty_cache(layer, wishes_.of(n, layer), name_of_layer(n));
      trace_.emplace(layer, state_->order);
      return &*trace_;
    };
    pass.arrived = [this](const Residual& at) {
      if (trace_) {
        for (const Stage stage : state_->order) state_->kept.emplace(stage, trace_->value(stage));
        run_->kept.emplace_back(Cache(std::exchange(state_, nullptr)));
      }
      // Without kept streams only the last one is needed.
      if (!options_.streams) streams_.clear();
      streams_.push_back({at.x, at.layer, {}, at.keys});
      report(at.layer);
    };
    return pass;
  }

  void report_doubts(const std::vector<PutPatch>& put) {
    for (const PutPatch& one : put)
      if (!one.doubt.empty()) run_->doubts.push_back(warning(one.doubt));
  }

  void report(std::size_t layers_done) const {
    if (options_.progress)
      options_.progress(static_cast<double>(layers_done) /
                        static_cast<double>(run_->model->layers()));
  }

  void put(Layer& layer, std::size_t n) { api::patch_layer(*run_, layer, n, put_); }
  void keep(const Layer& layer, std::size_t n) {
    run_->kept.push_back(
        api::computed(layer, wishes_.of(n, layer), options_.threads, name_of_layer(n)));
  }
  void keep_nothing() { run_->kept.emplace_back(); }
  std::string name_of_layer(std::size_t n) const {
    return n < run_->model->layers() ? fmt::format("layers.{}", n) : "the model";
  }

  std::shared_ptr<Run::State> run_;
  const Run::State* before_; ///< its streams are where this one begins; null: the embedding
  const RunOptions& options_;
  api::Wishes wishes_;
  std::vector<Residual> streams_;
  std::vector<PutPatch> put_;
  std::shared_ptr<Cache::State> state_; ///< of the layer that is computed
  std::optional<Trace> trace_;
};

Run computed_run(std::shared_ptr<Run::State> run, const Run::State* before,
                 const RunOptions& options) {
  run->threads = options.threads;
  Runner(run, before, options).compute();
  std::vector<Note> notes = run->layers->notes();
  for (const std::vector<Note>& more : {run->tokens.notes(), run->model->doubts, run->doubts})
    notes.insert(notes.end(), more.begin(), more.end());
  api::report(&run->notes, std::move(notes));
  return Run(std::move(run));
}

} // namespace

Layer Run::State::ends() const {
  if (streams.empty())
    fail("the run kept no streams: keep what is needed (logits), or leave streams at its default");
  return layers->ends(streams.back().x);
}

Tensor Run::State::known_logits() const {
  if (!logits.empty()) return logits;
  const std::optional<Cache>& last = kept.back();
  return last && last->has(Stage::logits) ? last->tensor(Stage::logits) : Tensor();
}

Run Model::run(const Tokens& tokens, const RunOptions& options) const {
  return api::visiting(options, [&] {
    auto run = std::make_shared<Run::State>();
    run->model = state_.get(), run->tokens = tokens;
    run->layers = state_->layers_for(tokens);
    run->take_values();
    run->patches = options.patches;
    return computed_run(std::move(run), nullptr, options);
  });
}

Run Run::with(std::vector<Patch> patches, const RunOptions& options) const {
  return api::visiting(options, [&] {
    if (!options.patches.empty())
      fail("with: patches are its first argument; leave options.patches empty");
    auto run = std::make_shared<State>();
    run->model = state_->model, run->tokens = state_->tokens;
    run->layers = state_->layers, run->values = state_->values;
    run->patches = state_->patches, run->doubts = state_->doubts;
    std::ranges::move(patches, std::back_inserter(run->patches));
    RunOptions same = options;
    if (same.threads == 0) same.threads = state_->threads;
    return computed_run(std::move(run), state_.get().get(), same);
  });
}

Tokens Run::tokens() const {
  return state_->tokens;
}
const std::vector<Note>& Run::notes() const& {
  return state_->notes;
}

std::vector<std::string> Run::kept() const {
  std::vector<std::string> names;
  for (std::size_t n = 0; n < state_->kept.size(); ++n) {
    if (!state_->kept[n]) continue;
    const std::string prefix = n < state_->model->layers() ? fmt::format("layers.{}.", n) : "";
    for (const Stage stage : state_->kept[n]->stages())
      names.push_back(prefix + std::string(name_of(stage)));
  }
  // Embed is kept with the model's end, but computed before the first layer.
  const auto embed = std::ranges::find(names, name_of(Stage::embed));
  if (embed != names.end()) std::rotate(names.begin(), embed, embed + 1);
  return names;
}

Tensor Run::tensor(const At& at) const {
  return api::visiting([&] {
    const std::string stage(name_of(at.stage));
    if (!at.heads.all() || !at.tokens.all() || !at.columns.all())
      fail("{}: a whole stage is kept; take heads, tokens and columns of it as an array", stage);
    if (at.layer.id().empty()) return tensor(stage);
    return tensor(fmt::format("layers.{}.{}", state_->model->number_of(at.layer), stage));
  });
}

bool Run::has(std::string_view name) const {
  return api::visiting(
      [&] { return api::places_named(name, state_->kept, state_->model->layers()).size() == 1; });
}

Tensor Run::tensor(std::string_view name) const {
  return api::visiting([&] {
    const Stage stage = stage_named(name);
    const std::vector<std::size_t> places =
        api::places_named(name, state_->kept, state_->model->layers());
    if (places.size() == 1) return state_->kept[places[0]]->tensor(stage);
    if (places.size() > 1)
      fail("{}: of which layer? layers.{}.{} to layers.{}.{}", name, places.front(), name_of(stage),
           places.back(), name_of(stage));
    const std::vector<std::string> kept = this->kept();
    fail("{} was not kept; the run has {}: name it in keep", name,
         kept.empty()      ? "nothing"
         : kept.size() > 8 ? fmt::format("{} to {}", kept.front(), kept.back())
                           : fmt::format("{}", fmt::join(kept, ", ")));
  });
}

Tensor Run::resid_before(std::int64_t layer) const {
  return api::visiting([&] {
    if (state_->streams.empty())
      fail(
          "the run kept no streams: keep resid_pre of the layers that are needed, or leave streams "
          "at its default");
    const auto count = static_cast<std::int64_t>(state_->streams.size());
    if (layer >= count || layer < -count)
      fail("resid({}): the model has {}: 0 to {} are the streams before each, {} or -1 the one "
           "after the last",
           layer, counted(state_->model->layers(), "layers"), count - 2, count - 1);
    const Tensor stream =
        state_->streams[static_cast<std::size_t>(layer < 0 ? layer + count : layer)].x.read_only();
    return state_->tokens.batched() ? stream : stream.at(0);
  });
}

} // namespace mha
