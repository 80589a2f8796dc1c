#pragma once
// When and where a layer is computed, and whose memory it takes: tasks, threads, bands, what is
// given and wanted, when a tensor is let go. The formulas are forward/'s.

#include <mha/schedule/band.hpp>
#include <mha/schedule/linear.hpp>
#include <mha/schedule/meter.hpp>
#include <mha/schedule/patching.hpp>
#include <mha/schedule/times.hpp>
#include <mha/schedule/tokens.hpp>

#include <functional>
#include <span>
#include <vector>

namespace mha {

template <class T> class Schedule {
public:
  /// `threads` 0 = threads_for(layer). The schedule owns the layer: a tensor of it is let go once
  /// nothing more is made of it.
  Schedule(Layer layer, const Plan& plan, Observer& observer, std::size_t threads);

  const Layer& layer() const { return layer_; }
  /// Which routines multiply in projections, and around attention.
  const Routines& projecting() const { return projecting_; }
  const Routines& around() const { return around_; }
  /// What W_o multiplies: mha::last_of_heads of the whole layer.
  Stage last_of_heads() const { return score_plan_.last; }

  /// A phase: the steps of all these tokens, as one list of tasks where they are small.
  void together(const std::vector<TokenSteps<T>>& phase);
  /// A step of its own: the keys or values attended to, past, current, learned extra and zero.
  void append(Stage all, const Tensor& past, Stage current, const Tensor& extra);
  /// Tokens meet: runs `formulas` on every band. Once, or a second time for what is made of the
  /// heads' results.
  void bands(const std::function<void(Band<T>&)>& formulas);
  /// A step of a mixture: each token times the map of each of its chosen experts; `from` is what
  /// all of a token's experts read, or what each made before. With `weighs_input` the expert's
  /// weight multiplies its input. Nothing where there are no maps.
  void by_expert(Stage stage, Stage from, const std::vector<LinearMap>& maps,
                 bool weighs_input = false);
  /// What follows attention's output: runs `formulas`, which are phases of query steps, on
  /// one text after the other (rows_around).
  void each_text(const std::function<void()>& formulas);
  /// Shows what the layer begins with.
  void show(Stage stage) { finish({stage}); }

  PhaseTimes times() const { return times_; }

private:
  struct Task {
    const TokenSteps<T>* tokens;
    Tile tile;
    std::size_t head_width;
    bool counts; ///< for the meter: it is the first of its rows
  };

  bool computes(Stage stage) const { return contains(to_compute_, stage); }
  double& seconds_of_phase(Stage first);
  void run_phase(const std::vector<TokenSteps<T>>& phase);
  void prepare(const TokenSteps<T>& tokens, const std::vector<Task>& tasks) const;
  std::vector<Task> tasks_of(const TokenSteps<T>& tokens) const;
  std::vector<Task> tasks_of_text(const TokenSteps<T>& tokens) const;
  std::size_t threads() const { return text_ ? threads_around_ : threads_; }
  std::vector<Tile> rows_of(Sequence sequence) const;
  void run(const Task& task, StageSeconds& seconds) const;
  void patch(Stage stage, const Tile& tile, std::size_t head_width) const;
  void take_out_results();
  void add_seconds(const StageSeconds& seconds);
  std::size_t band_queries() const;
  std::vector<std::span<const QueryBlock>> blocks_together() const;
  void run_blocks(std::span<const QueryBlock> blocks, std::size_t worker,
                  const std::function<void(Band<T>&)>& formulas);
  void finish(const std::vector<Stage>& stages);
  void release_inputs();

  Layer layer_;
  const Plan& plan_;
  Observer& observer_;
  std::size_t threads_, threads_around_;
  Progress progress_;
  Meter meter_;
  TokenStages<T> tokens_;
  ScorePlan score_plan_;
  AllKeys<T> keys_;
  StageSet to_compute_;                     ///< what is still to be computed
  std::array<StageSet, stage_count> reads_; ///< by the stages to be computed
  StageSet released_;                       ///< let go of
  bool bands_done_ = false; ///< but for head_result, where steps of tokens are before it
  StageSet to_show_; ///< token stages that are still to be shown
  Routines projecting_, scoring_, weighing_, around_;
  const Tile* text_ = nullptr;             ///< after output: the rows that are computed
  std::vector<BandMemory<T>> band_memory_; ///< one a worker
  PatchedResults<T> results_;
  PhaseTimes times_;
};

} // namespace mha
