#include <mha/api/in_order.hpp>

#include <mha/schedule/padding.hpp>
#include <mha/schedule/plan.hpp>
#include <mha/schedule/tiles.hpp>

#include <algorithm>

namespace mha::api {

InOrder::InOrder(const Layer& layer, Stage stage, std::function<void(Place, Tensor)> use)
    : stage_(stage),
      places_(places_of(layer, make_plan(layer, wants()), stage)),
      use_(std::move(use)) {
  if (is_derived(stage)) fail("{} is made of whole stages: run it", name_of(stage));
  std::ranges::sort(places_, {}, [](const Place& place) { return key_of(place); });
  const std::vector<Dim>& letters = info_of(stage).letters;
  const bool with_heads = letters.size() == 3 || info_of(stage).kind == Kind::row;
  if (layer.dims.size_of(letters[with_heads ? 1 : 0]) == layer.dims.T) lengths_ = layer.lengths;
}

StageSet InOrder::wants() const {
  return StageSet{stage_};
}

void InOrder::observe(const Slice& block) {
  ArrayView rows = block.values;
  if (begins_with_heads(stage_)) { // one head: its rows
    rows.shape.erase(rows.shape.begin());
    rows.strides.erase(rows.strides.begin());
  }
  const Place place{block.batch, block.head, block.token, rows.shape[0]};
  Tensor copy = kept_rows(block, rows);
  const std::lock_guard one_at_a_time(lock_);
  early_.emplace(key_of(place), std::pair(place, std::move(copy)));
  while (!stopped_ && !early_.empty() && early_.begin()->first == next()) {
    auto [key, front] = *early_.begin();
    early_.erase(early_.begin());
    done_ += front.first.count;
    while (at_ < places_.size() && done_ >= places_[at_].count) done_ -= places_[at_++].count;
    deliver(front.first, std::move(front.second));
  }
}

void InOrder::finish() {
  for (auto& [key, rows] : std::exchange(early_, {}))
    if (!stopped_) deliver(rows.first, std::move(rows.second));
}

void InOrder::deliver(Place place, Tensor rows) {
  if (!lengths_.empty()) {
    const std::size_t length = lengths_[place.batch];
    if (place.token >= length) return;
    if (const std::size_t own = length - place.token; own < place.count) {
      place.count = own;
      Shape shape = rows.shape();
      shape[0] = own;
      rows = Tensor(rows.dtype(), shape, rows.share());
    }
  }
  stopped_ = true; // until the call returns without an exception
  use_(place, rows.read_only());
  stopped_ = false;
}

InOrder::Key InOrder::next() const {
  if (at_ == places_.size()) return {};
  Place place = places_[at_];
  place.token += done_;
  return key_of(place);
}

} // namespace mha::api
