#include <mha/schedule/schedule.hpp>

#include <mha/layer/names.hpp>
#include <mha/system/clock.hpp>
#include <mha/system/parallel.hpp>

#include <algorithm>

namespace mha {

template <class T>
Schedule<T>::Schedule(Layer layer, const Plan& plan, Observer& observer, std::size_t threads)
    : layer_(std::move(layer)),
      plan_(plan),
      observer_(observer),
      threads_(threads == 0 ? threads_for(layer_) : threads),
      threads_around_(threads == 0 ? threads_around(layer_) : threads),
      progress_(layer_, plan),
      meter_(layer_, plan),
      tokens_(layer_, plan),
      score_plan_(layer_, plan),
      keys_(layer_, plan, tokens_, scoring_, weighing_),
      to_compute_(plan.computed),
      to_show_(plan.wanted) {
  // Which routine multiplies follows from the layer and the shape of the batch item alone, never
  // from a tile's: rows, columns, depth.
  const Dims& d = layer_.dims;
  const std::size_t narrowest = narrowest_projection(layer_);
  const bool split = splitting_weights_pays(layer_);
  projecting_ = Routines(layer_, [&](std::size_t queries, std::size_t keys) {
    return routine_for<T>(std::max(queries, keys - (d.S_all - d.S)), narrowest, d.d_model, split);
  });
  scoring_ = Routines(layer_, [&](std::size_t queries, std::size_t keys) {
    return routine_for<T>(queries, keys, d.d_k);
  });
  weighing_ = Routines(layer_, [&](std::size_t queries, std::size_t keys) {
    return routine_for<T>(queries, d.d_v, keys);
  });
  around_ = Routines(layer_, [&](std::size_t queries, std::size_t) {
    return routine_for<T>(queries, d.d_model, d.d_model, split);
  });
  // A masked model's head has a dense layer before the decoder.
  if (layer_.ends && layer_.ends->head.dense.present() && computes(Stage::logits))
    to_compute_ |= StageSet{Stage::mlp_pre, Stage::mlp_act};
  if (layer_.settings.input_norm == InputNorm::none && !layer_.patches.has(Stage::x))
    to_compute_.remove(Stage::x);
  for (const Stage stage : to_compute_) reads_[index_of(stage)] = stages_read(layer_, stage);
  release_inputs();
}

template <class T> void Schedule<T>::add_seconds(const StageSeconds& seconds) {
  for (std::size_t i = 0; i < stage_count; ++i) times_.stages[i] += seconds[i];
}

template <class T> double& Schedule<T>::seconds_of_phase(Stage first) {
  return times_.seconds[first < Stage::scores   ? Phase::projections
                        : first < Stage::concat ? Phase::attention
                        : is_after_output(first) && (layer_.block || layer_.ends) ? Phase::around
                                                                                  : Phase::output];
}

template <class T> void Schedule<T>::together(const std::vector<TokenSteps<T>>& phase) {
  const auto waits = [](const auto& s) { return first_of_whole_rows(s.steps) != s.steps.end(); };
  if (text_ && std::ranges::any_of(phase, waits)) {
    const auto [before, after] = cut_at_whole_rows(phase);
    return together(before), together(after);
  }
  // Small products fill the threads together. Large ones fill them alone, and then only one of
  // their weights at a time is in memory twice, as read and as packed.
  constexpr std::size_t together_up_to = 32 << 20; // bytes of tensors
  std::size_t bytes = 0;
  for (const TokenSteps<T>& tokens : phase)
    for (const TokenStep<T>& step : tokens.steps)
      if (const Tensor* weight = step.op.weight()) bytes += weight->bytes();
  if (bytes <= together_up_to) return run_phase(phase);
  for (const TokenSteps<T>& tokens : phase) run_phase({tokens});
}

template <class T> void Schedule<T>::run_phase(const std::vector<TokenSteps<T>>& phase) {
  std::vector<Stage> stages;
  for (const TokenSteps<T>& tokens : phase)
    for (const TokenStep<T>& step : tokens.steps) {
      stages.push_back(step.stage);
      if (text_ && computes(step.stage)) tokens_.make_room(step.stage);
    }
  seconds_of_phase(stages.front()) += seconds_of([&] {
    std::vector<Task> tasks;
    for (const TokenSteps<T>& tokens : phase) {
      const std::vector<Task> own = tasks_of(tokens);
      prepare(tokens, own);
      tasks.insert(tasks.end(), own.begin(), own.end());
    }
    std::vector<StageSeconds> seconds(workers_for(tasks.size(), threads()));
    parallel_for(tasks.size(), threads(),
                 [&](std::size_t i, std::size_t worker) { run(tasks[i], seconds[worker]); });
    for (const StageSeconds& worker : seconds) add_seconds(worker);
    for (const TokenSteps<T>& tokens : phase)
      for (const TokenStep<T>& step : tokens.steps) {
        if (const Tensor* weight = step.op.weight(); text_ && weight && computes(step.stage))
          report_product(text_->count, *weight);
        step.op.release();
      }
    finish(stages);
  });
}

template <class T>
void Schedule<T>::prepare(const TokenSteps<T>& tokens, const std::vector<Task>& tasks) const {
  const auto same_columns = [&](const Task& task) {
    return task.tile.heads.first == tasks.front().tile.heads.first;
  };
  Usage usage;
  usage.shared = std::ranges::count_if(tasks, same_columns) > 1;
  usage.threads = threads();
  const std::size_t each = tokens.sequence == Sequence::key ? layer_.dims.S : layer_.dims.T;
  usage.batches = text_ ? std::vector{text_->batch} : plan_.batches;
  usage.rows = text_ ? text_->count : each * plan_.batches.size();
  for (const TokenStep<T>& step : tokens.steps)
    if (computes(step.stage)) step.op.prepare(usage);
}

/// The rows of a batch item that its tokens need, and their heads.
template <class T> std::vector<Tile> Schedule<T>::rows_of(Sequence sequence) const {
  if (sequence == Sequence::key) return key_rows(layer_, plan_);
  const std::vector<Tile> queries = query_rows(layer_, plan_);
  // Keys and values may be made of rows that no block of queries holds.
  const bool made_of_x =
      (computes(Stage::k) && layer_.X_k.empty()) || (computes(Stage::v) && layer_.X_v.empty());
  return sequence == Sequence::input && made_of_x ? whole_items(layer_, queries) : queries;
}

/// Tokens are cut by rows. Where that makes too few tiles for the threads, they are cut by heads
/// instead; in bfloat16 × 3, where rows are few, so that no part of W is split twice. Not where a
/// step needs the whole row.
template <class T>
std::vector<typename Schedule<T>::Task> Schedule<T>::tasks_of(const TokenSteps<T>& tokens) const {
  if (text_) return tasks_of_text(tokens);
  std::vector<Task> tasks;
  const TokenStep<T>* first = nullptr;
  bool whole_rows = false;
  for (const TokenStep<T>& step : tokens.steps) {
    if (!computes(step.stage)) continue;
    if (!first) first = &step;
    whole_rows = whole_rows || step.op.needs() == Needs::row;
  }
  if (!first) return tasks;
  const std::vector<Dim>& letters = info_of(first->stage).letters;
  std::size_t heads = 1, width = layer_.dims.size_of(letters.back());
  constexpr std::size_t step = PackedMatrix<T>::column_step;
  if (letters.size() == 3)
    heads = layer_.dims.size_of(letters[0]);
  else if (!whole_rows && width % step == 0) // without heads: cut where strips of W begin
    heads = width / step, width = step;
  std::vector<Tile> rows = rows_of(tokens.sequence);
  if (letters.size() != 3 || whole_rows)
    for (Tile& tile : rows) tile.heads = {0, heads};
  const std::size_t count = tokens.sequence == Sequence::key ? layer_.dims.S : layer_.dims.T;
  std::vector<Tile> tiles =
      first->op.weight() ? row_tiles(rows, count) : tiles_of_height(rows, rows_apart);
  const bool divides = !whole_rows && (letters.size() == 3 || width == step) && width > 0;
  const bool splits = projecting_.count(Routine::bf16x3) > 0;
  const std::size_t pieces = splits ? threads_ : tasks_of_thread * threads_;
  const bool few = splits ? count <= bf16x3_as_read : tiles.size() < pieces;
  if (divides && few) tiles = head_tiles(rows, width, step, pieces);
  for (const Tile& tile : tiles)
    tasks.push_back(
        {&tokens, tile, width,
         !is_of(first->stage, {Section::input}) && tile.heads.first == rows.front().heads.first});
  return tasks;
}

/// The rows of a text by themselves; of a product all rows and some columns of W, so that W is read
/// once, or all columns and some rows where these are split for the routine.
template <class T> std::vector<typename Schedule<T>::Task>
Schedule<T>::tasks_of_text(const TokenSteps<T>& tokens) const {
  std::vector<Task> tasks;
  for (const TokenStep<T>& step : tokens.steps) {
    if (!computes(step.stage)) continue;
    const std::size_t columns = tokens_.rows(step.stage, *text_).cols;
    constexpr std::size_t width = PackedMatrix<T>::column_step;
    if (step.op.weight())
      for (const Tile& tile : product_tiles(*text_, columns, around_.of(text_->batch), threads()))
        tasks.push_back({&tokens, tile, width, false});
    else
      for (Tile& tile : tiles_of_height({*text_}, rows_apart))
        tile.heads = {0, 1}, tasks.push_back({&tokens, tile, columns, false});
    break;
  }
  return tasks;
}

template <class T> void Schedule<T>::run(const Task& task, StageSeconds& seconds) const {
  const TokenRows<T> rows(tokens_, task.tile, task.head_width);
  for (const TokenStep<T>& step : task.tokens->steps)
    if (computes(step.stage))
      seconds[index_of(step.stage)] += seconds_of([&] {
        step.op.apply(rows, step.from, step.stage);
        patch(step.stage, task.tile, task.head_width);
      });
  if (task.counts) meter_.rows(task.tile.count);
}

/// Applies patches to a tile of a stage.
template <class T>
void Schedule<T>::patch(Stage stage, const Tile& tile, std::size_t head_width) const {
  const Patches& patches = layer_.patches;
  const auto [first, last] = tile.heads;
  const bool with_heads = info_of(stage).letters.size() == 3;
  const bool is_concat = with_heads && stage == score_plan_.last && patches.has(Stage::concat);
  if (!patches.has(stage) && !is_concat && (stage != Stage::output || results_.empty())) return;
  const std::size_t width = layer_.dims.size_of(info_of(stage).letters.back());
  const std::size_t left = with_heads ? first * width : first * head_width;
  const Matrix<T> all = tokens_.rows_mutable(stage, tile);
  const std::size_t cols = std::min(last * (with_heads ? width : head_width), all.cols) - left;
  const Matrix<T> rows = all.cols_from(left, cols);
  if (stage == Stage::output) results_.add_to(tile.batch, tile.first, left, rows);
  if (with_heads)
    patch_rows(patches, stage, tile.batch, tile.first, first, last - first, width, rows);
  if (!with_heads || is_concat) // concat is the same rows, the heads side by side
    for (std::size_t t = 0; t < rows.rows; ++t)
      patches.apply(is_concat ? Stage::concat : stage, tile.batch, 0, tile.first + t, rows.row(t),
                    left, cols);
}

template <class T>
void Schedule<T>::append(Stage all, const Tensor& past, Stage current, const Tensor& extra) {
  const Dims& dims = layer_.dims;
  seconds_of_phase(all) += seconds_of([&] {
    const std::size_t copied = keys_.take_past(all, past) ? 0 : dims.past;
    if (computes(all))
      for (const Tile& item : key_rows(layer_, plan_)) {
        const std::size_t d = tokens_.rows(all, item.batch).cols / dims.H_kv;
        const std::size_t left = item.heads.first * d;
        const std::size_t width = (item.heads.last - item.heads.first) * d;
        const Matrix<T> to = tokens_.rows_mutable(all, item.batch).cols_from(left, width);
        const Matrix<const T> from = tokens_.rows(current, item.batch).cols_from(left, width);
        for (std::size_t kv = item.heads.first; kv < item.heads.last; ++kv)
          for (std::size_t j = 0; j < copied; ++j)
            std::copy_n(matrix_of<T>(past, item.batch * dims.H_kv + kv).row(j), d,
                        to.row(j) + kv * d - left);
        for (std::size_t j = 0; j < item.count; ++j)
          std::copy_n(from.row(j), width, to.row(dims.past + j));
        for (std::size_t j = dims.past + item.count; j < std::min(to.rows, dims.past + dims.S); ++j)
          std::fill_n(to.row(j), width, T(0));
        if (dims.extra > 0)
          std::copy_n(extra.as<T>().data() + left, width, to.row(dims.past + dims.S));
        if (dims.zero > 0) std::fill_n(to.row(dims.S_all - 1), width, T(0));
        patch_rows(layer_.patches, all, item.batch, 0, item.heads.first,
                   item.heads.last - item.heads.first, d, to);
      }
    finish({all});
  });
}

template <class T> void Schedule<T>::bands(const std::function<void(Band<T>&)>& formulas) {
  const bool is_last = bands_done_ || score_plan_.last == Stage::head_out;
  // Bands produce head_out, or maps, rows and head_result that an observer wants.
  std::vector<Stage> made;
  for (const StageInfo& info : stages())
    if (info.stage == Stage::head_result    ? is_last
        : info.stage == Stage::head_out     ? !bands_done_
                                            : info.kind != Kind::token && !bands_done_)
      made.push_back(info.stage);
  const bool needed = std::ranges::any_of(made, [&](Stage stage) {
    return stage == Stage::head_out ? computes(stage) : contains(plan_.needed, stage);
  });
  times_.seconds[Phase::attention] += seconds_of([&] {
    if (needed) {
      keys_.prepare(to_compute_, threads_);
      const std::vector<std::span<const QueryBlock>> tasks = blocks_together();
      band_memory_.resize(workers_for(tasks.size(), threads_));
      parallel_for(tasks.size(), threads_, [&](std::size_t i, std::size_t worker) {
        run_blocks(tasks[i], worker, formulas);
      });
      for (const BandMemory<T>& memory : band_memory_) add_seconds(memory.seconds);
      band_memory_.clear();
      keys_.release();
    }
    bands_done_ = true;
    if (is_last) made.push_back(Stage::concat); // the memory of the step before
    finish(made);
    if (is_last && !results_.empty() && computes(Stage::output)) take_out_results();
  });
}

template <class T> void Schedule<T>::each_text(const std::function<void()>& formulas) {
  StageSet after;
  for (const StageInfo& info : stages())
    if (is_after_output(info.stage)) after.add(info.stage);
  if ((after & (to_compute_ | to_show_)).none()) return;
  const auto split_together = [&](std::size_t batch) -> std::size_t {
    return around_.of(batch) == Routine::bf16x3 ? bf16x3_rows : 1;
  };
  for (const Tile& text : rows_around(layer_, plan_, split_together)) {
    text_ = &text;
    tokens_.open(text);
    formulas();
  }
  text_ = nullptr;
  tokens_.close();
  to_compute_ &= ~after, to_show_ &= ~after;
  release_inputs();
}

/// What patched heads add comes after the product with W_o, in which their parts are zeros.
template <class T> void Schedule<T>::take_out_results() {
  const StageSet one_memory{Stage::head_out, Stage::head_norm, Stage::gated, Stage::concat};
  if ((layer_.given_set & one_memory).any())
    tokens_.make_own(Stage::concat);
  for (std::size_t batch : plan_.batches)
    results_.take_out(batch, layer_.dims.d_v, tokens_.rows_mutable(Stage::concat, batch));
}

/// The queries whose scores are in the cache at once; they follow from the length of a row.
template <class T> std::size_t Schedule<T>::band_queries() const {
  constexpr std::size_t cache = 1 << 19; // bytes of the second cache that scores may take
  // A multiple of the rows of every kernel's tile.
  const bool split = scoring_.count(Routine::bf16x3) + weighing_.count(Routine::bf16x3) > 0;
  const std::size_t step = split ? 32 : 12;
  const std::size_t fit = std::clamp<std::size_t>(
      cache / (std::max<std::size_t>(layer_.dims.S_all, 1) * sizeof(T)), 24, block_queries);
  const std::size_t bands = (block_queries + fit - 1) / fit; // equally high
  return std::min((block_queries / bands + step - 1) / step * step, block_queries);
}

/// The blocks of a task: one, or, of a layer of one query, heads that share their keys. Their bits
/// do not depend on how many they are.
template <class T> std::vector<std::span<const QueryBlock>> Schedule<T>::blocks_together() const {
  constexpr std::size_t most_heads = 12; // the rows of the tallest kernel's tiles
  const std::size_t of_thread = (plan_.blocks.size() + threads_ - 1) / threads_;
  const bool alone =
      layer_.dims.T != 1 || score_plan_.patched.any() || contains(plan_.needed, Stage::head_result);
  const std::size_t most = alone ? 1 : std::min(most_heads, of_thread);
  const auto shares = [&](const QueryBlock& a, const QueryBlock& b) {
    return a.batch == b.batch && a.head + 1 == b.head &&
           kv_head_of(layer_, a.head) == kv_head_of(layer_, b.head);
  };
  std::vector<std::span<const QueryBlock>> tasks;
  const std::span<const QueryBlock> blocks = plan_.blocks;
  for (std::size_t first = 0, end = 0; first < blocks.size(); first = end) {
    for (end = first + 1; end < blocks.size() && end - first < most; ++end)
      if (!shares(blocks[end - 1], blocks[end])) break;
    tasks.push_back(blocks.subspan(first, end - first));
  }
  return tasks;
}

template <class T> void Schedule<T>::run_blocks(std::span<const QueryBlock> blocks,
                                                std::size_t worker,
                                                const std::function<void(Band<T>&)>& formulas) {
  const QueryBlock& block = blocks.front();
  const Tile rows = block_rows(layer_, block);
  const std::size_t end = rows.first + rows.count, most = band_queries();
  for (std::size_t first = rows.first; first < end; first += most) {
    Band<T> band(layer_, score_plan_, tokens_, keys_.of(block.batch, block.head),
                 band_memory_[worker], results_, observer_,
                 {block.batch, block.head, first, std::min(most, end - first)}, blocks.size());
    formulas(band);
  }
  if (bands_done_) return; // they were counted the first time
  for (const QueryBlock& one : blocks) meter_.queries(one);
}

/// These stages are through: they are shown, and what only they needed is let go.
template <class T> void Schedule<T>::finish(const std::vector<Stage>& stages) {
  for (Stage stage : stages) {
    if (text_)
      tokens_.show_open(stage, observer_, threads_);
    else if (info_of(stage).kind == Kind::token)
      tokens_.show(stage, observer_, threads_);
    if (!text_) to_compute_.remove(stage), to_show_.remove(stage);
  }
  if (!text_) release_inputs();
}

/// Lets go of the stages and tensors that no stage still to be computed reads.
template <class T> void Schedule<T>::release_inputs() {
  StageSet read = to_compute_ | to_show_;
  for (const Stage stage : to_compute_) read |= reads_[index_of(stage)];
  for (const Stage stage : ~(read | released_)) {
    // What bands start from is read through steps that the layer does not have.
    if (info_of(stage).kind != Kind::token && !bands_done_) continue;
    tokens_.release(stage);
    layer_.given[index_of(stage)] = {};
    released_.add(stage);
  }
  for (const TensorInfo& info : layer_tensors())
    if (const StageSet& readers = info.in_layer.readers;
        readers.any() && (readers & to_compute_).none())
      info.of(layer_) = {};
}

template class Schedule<float>;
template class Schedule<double>;

} // namespace mha
