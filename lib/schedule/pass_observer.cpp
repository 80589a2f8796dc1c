#include <mha/schedule/pass_observer.hpp>

#include <mha/schedule/tiles.hpp>

#include <algorithm>

namespace mha {

namespace {

std::size_t block_of(Stage stage, std::size_t token) {
  const bool of_keys = axis_of(info_of(stage).letters[0]) == Axis::kv_head;
  return of_keys ? 0 : token / block_queries;
}

/// resid_post of some batch items, and what else is wanted.
Plan whole_plan(const Layer& layer, StageSet wanted, const std::vector<std::size_t>& items) {
  wanted.add(Stage::resid_post);
  Selection selection;
  if (layer.dims.batched) selection.batch = IndexList::of_indices(items, message("<batch>"));
  return make_plan(layer, wanted, selection);
}

} // namespace

PassObserver::PassObserver(const Layer& layer, const Plan& plan, Observer& observer)
    : asked_(plan), observer_(observer) {
  if (layer.pass && layer.pass->is_of(layer)) join_pass(layer);
  progress_.emplace(layer, this->plan());
}

void PassObserver::join_pass(const Layer& layer) {
  const Plan& asked = asked_;
  if (layer.block && layer.pass->needs(layer, asked.batches)) {
    pass_ = layer.pass;
    whole_ = whole_plan(layer, asked.wanted, asked.batches);
    all_asked_ = asked.blocks.size() == whole_->blocks.size();
    for (const Stage stage : all_asked_ ? StageSet() : asked.wanted)
      for (const Place& place : places_of(layer, asked, stage))
        places_.emplace(stage, place.batch, place.head, block_of(stage, place.token));
    pass_->begin(layer, asked.batches);
  }
  layer.pass->count(plan().computed, plan().blocks.size(), block_queries);
}

bool PassObserver::was_asked(const Slice& block) const {
  return contains(asked_.wanted, block.stage) &&
         (all_asked_ || places_.contains({block.stage, block.batch, block.head,
                                          block_of(block.stage, block.token)}));
}

void PassObserver::observe(const Slice& block) {
  if (pass_ && block.stage == Stage::resid_post && block.token < block.length)
    pass_->take(block.batch, block.token, block.values);
  if (!whole_ || was_asked(block)) observer_.observe(block);
}

} // namespace mha
