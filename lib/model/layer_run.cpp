#include <mha/model/layer_run.hpp>

#include <mha/observe/several.hpp>
#include <mha/schedule/tiles.hpp>
#include <mha/tensor/storage.hpp>

#include <algorithm>
#include <cstring>
#include <set>
#include <span>
#include <tuple>

namespace mha {

namespace {

std::size_t block_of(Stage stage, std::size_t token) {
  const bool of_keys = axis_of(info_of(stage).letters[0]) == Axis::kv_head;
  return of_keys ? 0 : token / block_queries;
}

std::size_t columns_of(const Dims& dims, Stage stage) {
  const std::vector<Dim>& letters = info_of(stage).letters;
  return dims.size_of(letters.back()) * (begins_with_heads(stage) ? dims.size_of(letters[0]) : 1);
}

/// Copies a block's rows, of queries those at `positions` (empty: all), to their places in a whole
/// stage.
void keep_rows(Tensor& stage, std::size_t item, std::span<const std::size_t> positions,
               const Slice& block) {
  const ArrayView& values = block.values; // of one head, where the stage has heads
  const std::size_t axis = values.shape.size() - 2, element = size_of(stage.dtype()),
                    T = stage.shape()[1], row = stage.shape()[2] * element,
                    bytes = values.shape[axis + 1] * element,
                    stride = static_cast<std::size_t>(values.strides[axis]) * element;
  const bool all = positions.empty() || begins_with_heads(block.stage);
  std::byte* const to = stage.raw_mutable() + (item * T + block.token) * row + block.head * bytes;
  for (std::size_t t = 0; t < values.shape[axis]; ++t)
    if (all || std::ranges::binary_search(positions, block.token + t))
      std::memcpy(to + t * row, values.data + t * stride, bytes);
}

} // namespace

/// Keeps the outputs of a larger plan, and shows another observer only what it asked for.
class LayerRun::KeepingObserver : public Observer {
public:
  KeepingObserver(LayerRun& run, const Layer& layer, const Plan& asked, const Plan& whole,
                  const std::vector<std::size_t>& items, Observer& observer)
      : wants_(whole.wanted),
        asked_(asked),
        observer_(observer),
        kept_(run.kept_),
        positions_(whole.queries.size() < layer.dims.T
                       ? std::span<const std::size_t>(run.positions_)
                       : std::span<const std::size_t>()),
        first_item_(run.item_of(layer, 0)),
        items_(items.begin(), items.end()),
        all_asked_(asked.blocks.size() == whole.blocks.size()) {
    for (const Stage stage : all_asked_ ? StageSet() : asked.wanted)
      for (const Place& place : places_of(layer, asked, stage))
        places_.emplace(stage, place.batch, place.head, block_of(stage, place.token));
  }

  StageSet wants() const override { return wants_; }
  void observe(const Slice& block) override {
    const std::size_t item = first_item_ + block.batch;
    if (const auto kept = kept_.find(block.stage);
        kept != kept_.end() && block.token < block.length && items_.contains(item))
      keep_rows(kept->second, item, positions_, block);
    if (was_asked(block)) observer_.observe(block);
  }

private:
  bool was_asked(const Slice& block) const {
    return contains(asked_.wanted, block.stage) &&
           (all_asked_ || places_.contains({block.stage, block.batch, block.head,
                                            block_of(block.stage, block.token)}));
  }

  StageSet wants_;
  const Plan& asked_;
  Observer& observer_;
  std::map<Stage, Tensor>& kept_;
  std::span<const std::size_t> positions_; ///< whose rows are kept; empty: all
  std::size_t first_item_;
  std::set<std::size_t> items_; ///< whose rows are kept
  bool all_asked_;              ///< the plan asks for every place of what it wants
  /// Else for these: stage, batch item, head, block of queries (0 for keys and values).
  std::set<std::tuple<Stage, std::size_t, std::size_t, std::size_t>> places_;
};

LayerRun::LayerRun(const Layer& layer, std::shared_ptr<LayerCounts> counts, const StageSet& outputs,
                   std::vector<std::size_t> positions)
    : counts_(std::move(counts)),
      outputs_(layer.dims.T > 0 ? outputs : StageSet()),
      positions_(std::move(positions)),
      dims_(layer.dims),
      first_item_(layer.first_item),
      missing_(layer.dims.B, outputs_.any()) {
  for (std::size_t b = 0; b < dims_.B; ++b) lengths_.push_back(layer.length_of(b));
  if (outputs_.any()) layer_ = layer;
}

std::size_t LayerRun::item_of(const Layer& layer, std::size_t batch) const {
  return layer.first_item - first_item_ + batch;
}

/// The items whose outputs are still missing. The caller computes them: no other thread will.
std::vector<std::size_t> LayerRun::begin(const Layer& layer,
                                         const std::vector<std::size_t>& items) {
  const std::lock_guard hold(lock_);
  std::vector<std::size_t> begun;
  for (const std::size_t batch : items) {
    const std::size_t item = item_of(layer, batch);
    // The first tokens of a longer text are not all of it.
    if (missing_[item] && lengths_[item] <= layer.dims.T) begun.push_back(item);
  }
  for (const std::size_t item : begun) missing_[item] = false;
  if (begun.empty()) return begun;
  // Zeros: padding keeps them, and so do rows that are never computed.
  if (kept_.empty())
    for (const Stage stage : outputs_) {
      const Shape shape{dims_.B, dims_.T, columns_of(dims_, stage)};
      const DType dtype = layer.dtype_of(stage);
      kept_.emplace(stage,
                    layer_->lengths.empty() ? Tensor(dtype, shape) : sparse_zeros(dtype, shape));
    }
  // A computation releases tensors that it no longer reads, unless this copy keeps them.
  if (std::ranges::find(missing_, true) == missing_.end()) layer_.reset();
  return begun;
}

PhaseTimes LayerRun::compute(Layer layer, const Plan& plan, Observer& observer,
                             std::size_t threads) {
  const std::vector<std::size_t> begun = begin(layer, plan.batches);
  if (begun.empty()) {
    count(plan);
    return mha::compute(std::move(layer), plan, observer, threads);
  }
  const StageSet wanted = plan.wanted | outputs_;
  Selection selection;
  if (layer.dims.batched) selection.batch = IndexList::of_indices(plan.batches, message("<batch>"));
  if (!positions_.empty() && plan.queries == positions_)
    selection.query = IndexList::of_indices(positions_, message("<query>"));
  const Plan whole = make_plan(layer, wanted, selection);
  count(whole);
  KeepingObserver keeping(*this, layer, plan, whole, begun, observer);
  try {
    return mha::compute(std::move(layer), whole, keeping, threads);
  } catch (...) {
    const std::lock_guard hold(lock_);
    for (const std::size_t item : begun) missing_[item] = true;
    throw;
  }
}

const Tensor& LayerRun::kept(Stage stage, std::size_t threads, PhaseTimes* times) {
  std::vector<std::size_t> missing;
  for (std::size_t b = 0; b < missing_.size(); ++b)
    if (missing_[b]) missing.push_back(b);
  if (missing.empty()) return kept_[stage];
  Selection selection;
  if (dims_.batched) selection.batch = IndexList::of_indices(missing, message("<batch>"));
  if (!positions_.empty()) selection.query = IndexList::of_indices(positions_, message("<query>"));
  Several nothing;
  Layer layer = layer_.value();
  const Plan plan = make_plan(layer, outputs_, selection);
  const PhaseTimes taken = compute(std::move(layer), plan, nothing, threads);
  if (times) *times = taken;
  return kept_[stage];
}

/// Counts computations of different blocks as one computation of the layer.
void LayerRun::count(const Plan& plan) {
  const std::size_t of =
      dims_.B * std::max<std::size_t>(dims_.H, 1) * ((dims_.T + block_queries - 1) / block_queries);
  if (of == 0 || !counts_) return;
  const std::lock_guard hold(lock_);
  std::size_t most = 0;
  for (const Stage stage : plan.computed)
    most = std::max(most, blocks_done_[index_of(stage)] += plan.blocks.size());
  const std::size_t times = std::max(times_, (most + of - 1) / of);
  counts_->computed += times - times_;
  times_ = times;
}

} // namespace mha
