// Layers computed: stages kept, or handed out as they appear.

#include <mha/api/cache.hpp>
#include <mha/api/visit.hpp>
#include <mha/forward/attention.hpp>
#include <mha/layer/graph.hpp>
#include <mha/observe/several.hpp>
#include <mha/observe/trace.hpp>
#include <mha/schedule/tiles.hpp>
#include <mha/system/limits.hpp>

#include <algorithm>
#include <mutex>
#include <tuple>
#include <utility>

namespace mha {

namespace {

StageSet set_of(const std::vector<Stage>& stages) {
  if (stages.empty()) fail("no stage is asked for");
  StageSet set;
  for (Stage stage : stages) set.set(index_of(stage));
  return set;
}

/// Hands rows out in the order of their places, whatever order they appear in. What comes early
/// waits here: a few blocks of a map, at most the whole of a stage with a row a token.
class InOrder : public Observer {
public:
  InOrder(Stage stage, std::vector<Place> places, const std::function<void(Place, Tensor)>& use)
      : stage_(stage), places_(std::move(places)), use_(use) {
    std::ranges::sort(places_, {}, [](const Place& place) { return key_of(place); });
  }

  StageSet wants() const override {
    StageSet set;
    set.set(index_of(stage_));
    return set;
  }

  void observe(const Block& block) override {
    ArrayView rows = block.values;
    const Axis first = axis_of(info_of(stage_).letters[0]);
    if (first == Axis::head || first == Axis::kv_head) { // one head: its rows
      rows.shape.erase(rows.shape.begin());
      rows.strides.erase(rows.strides.begin());
    }
    const Place place{block.batch, block.head, block.token, rows.shape[0]};
    Tensor copy = copy_of(rows);
    const std::lock_guard one_at_a_time(lock_);
    early_.emplace(key_of(place), std::pair(place, std::move(copy)));
    while (!stopped_ && !early_.empty() && early_.begin()->first == next()) {
      auto [key, front] = *early_.begin();
      early_.erase(early_.begin());
      done_ += front.first.count;
      while (at_ < places_.size() && done_ >= places_[at_].count) done_ -= places_[at_++].count;
      hand_out(front.first, std::move(front.second));
    }
  }
  /// What is left once all is computed.
  void finish() {
    for (auto& [key, rows] : std::exchange(early_, {}))
      if (!stopped_) hand_out(rows.first, std::move(rows.second));
  }

private:
  using Key = std::tuple<std::size_t, std::size_t, std::size_t>;
  void hand_out(Place place, Tensor rows) {
    stopped_ = true; // unless it comes back
    use_(place, std::move(rows));
    stopped_ = false;
  }
  static Key key_of(const Place& place) { return {place.batch, place.head, place.token}; }
  Key next() const {
    if (at_ == places_.size()) return {};
    Place place = places_[at_];
    place.token += done_;
    return key_of(place);
  }

  Stage stage_;
  std::vector<Place> places_;
  const std::function<void(Place, Tensor)>& use_;
  std::mutex lock_;
  std::map<Key, std::pair<Place, Tensor>> early_;
  std::size_t at_ = 0, done_ = 0; ///< the place that is next, and its tokens that are out
  bool stopped_ = false;          ///< by an exception
};

} // namespace

std::size_t api::bytes_of(const Layer& layer, const StageSet& stages) {
  std::size_t bytes = 0;
  for (const StageInfo& info : mha::stages())
    if (contains(stages, info.stage))
      bytes += count_of(layer.shape_of(info.stage)) * size_of(layer.dtype);
  return bytes;
}

Cache api::computed(const Layer& layer, const StageSet& stages, std::size_t threads,
                    Observer* other, std::string name) {
  auto state = std::make_shared<Cache::State>();
  state->dtype = layer.dtype;
  state->available = available_stages(layer);
  state->layer = std::move(name);
  for (const StageInfo& info : mha::stages()) {
    if (!contains(stages, info.stage)) continue;
    require_stage(layer, info.stage);
    state->order.push_back(info.stage);
  }
  Trace kept(layer, state->order);
  Several all;
  all.add(kept);
  if (other) all.add(*other);
  compute(layer, make_plan(layer, all.wants()), all, threads);
  for (Stage stage : state->order) state->kept.emplace(stage, kept.value(stage));
  return Cache(std::move(state));
}

std::vector<Stage> Cache::stages() const {
  return state_->order;
}
bool Cache::has(Stage stage) const {
  return state_->kept.contains(stage);
}
DType Cache::dtype() const {
  return state_->dtype;
}

Tensor Cache::tensor(Stage stage) const {
  const auto kept = state_->kept.find(stage);
  if (kept != state_->kept.end()) return kept->second;
  StageSet there;
  for (Stage one : state_->order) there.set(index_of(one));
  if (contains(state_->available, stage))
    fail("{} was not asked for; {} has {}", name_of(stage), there.any() ? "the cache" : "nothing",
         list_of(there));
  fail("{} has no {}; it has {}", state_->layer, name_of(stage), list_of(state_->available));
}

Tensor Cache::tensor(std::string_view name) const {
  return api::visiting([&] { return tensor(stage_named(name)); });
}

namespace {

Cache run_stages(const Layer& layer, const StageSet& stages, std::size_t threads) {
  require_memory(
      api::bytes_of(layer, stages), "the stages asked for",
      "ask for fewer, mha::run(layer, {stages…}), or stream one: mha::each, mha::stream");
  return api::computed(layer, stages, threads);
}

} // namespace

Cache run(const Layer& layer) {
  return api::visiting([&] {
    const StageSet all = available_stages(layer);
    if (all.none()) fail("the layer has no stage: neither X nor one that is given");
    return run_stages(layer, all, 0);
  });
}

Cache run(const Layer& layer, const std::vector<Stage>& stages, std::size_t threads) {
  return api::visiting([&] {
    for (Stage stage : stages) require_stage(layer, stage);
    return run_stages(layer, set_of(stages), threads);
  });
}

Cache run(const Layer& layer, const std::vector<std::string>& stages, std::size_t threads) {
  return api::visiting([&] {
    std::vector<Stage> named;
    for (const std::string& name : stages) named.push_back(stage_named(name));
    for (Stage stage : named) require_stage(layer, stage);
    return run_stages(layer, set_of(named), threads);
  });
}

void stream(const Layer& layer, Stage stage, const std::function<void(Place, Tensor)>& use,
            std::size_t threads) {
  api::visiting([&] {
    require_stage(layer, stage);
    StageSet wanted;
    wanted.set(index_of(stage));
    const Plan plan = make_plan(layer, wanted);
    InOrder rows(stage, places_of(layer, plan, stage), use);
    compute(layer, plan, rows, threads);
    rows.finish();
  });
}

} // namespace mha
