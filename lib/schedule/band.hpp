#pragma once
// A band: the queries of one head whose scores stay in the cache, from scores to what the head
// adds; of a layer of one query, several heads that share their keys, which are read once for all.
// Everything T × S exists for one band at a time. What is given, wanted, visible or fused is known
// here; the formulas are forward/'s.

#include <mha/kernels/rows.hpp>
#include <mha/layer/other_inputs.hpp>
#include <mha/schedule/head_keys.hpp>
#include <mha/schedule/patching.hpp>
#include <mha/schedule/times.hpp>
#include <mha/schedule/visible.hpp>
#include <mha/system/clock.hpp>
#include <mha/system/memory.hpp>

#include <array>
#include <cmath>
#include <limits>

namespace mha {

/// How a layer's T × S stages come about under a plan.
struct ScorePlan {
  ScorePlan(const Layer& layer, const Plan& plan);

  StageSet wanted, computed, given; ///< given: where the computation starts
  StageSet patched;
  Stage last; ///< last_of_heads, which follows from tensors that the schedule lets go
  /// Scores of keys that no query sees are computed too: an observer wants them.
  bool every_score = false;
  /// Keys that no query sees may be left out: their weights are zeros made by the mask.
  bool may_skip = false;
  /// No observer wants a stage between `scaled` and `exp`: scaling is fused into the exponential,
  /// to the same bits, with one pass fewer.
  bool scales_in_exp = false;
};

/// The memory of a worker's band, used again by its next.
template <class T> struct BandMemory {
  Buffer<T> map;                             ///< queries × S: scores … weights, in place
  Buffer<T> q;                               ///< queries × d_k, side by side
  std::array<Buffer<T>, stage_count> wanted; ///< what an observer is shown of other stages
  Buffer<T> head_result;                     ///< queries × d_model
  StageSeconds seconds{};
};

template <class T> class Row;

template <class T> class Band {
public:
  /// The rows of a place, which are its head's queries; or, where it has one query, of as many
  /// heads from the place's on: then nothing of the band is patched, and head_result is not needed.
  Band(const Layer& layer, const ScorePlan& steps, const TokenStages<T>& tokens,
       const HeadKeys<T>& keys, BandMemory<T>& memory, PatchedResults<T>& results,
       Observer& observer, const Place& place, std::size_t heads);

  /// The band's rows of a token stage; scores and weights, the map itself.
  Matrix<T> operator[](Stage stage) const;
  const Place& place() const { return place_; }

  /// s = q kᵀ over the keys whose scores are computed.
  void product_with_keys(Matrix<const T> q, Matrix<T> s) const;
  /// z = α v over the keys that the band sees.
  void product_with_values(Matrix<const T> weights, Matrix<T> z) const;

  /// Runs the formula where the stage is computed; shows what an observer wants of it.
  template <class F> void step(Stage stage, const F& formula) {
    if (contains(steps_.computed, stage))
      memory_.seconds[index_of(stage)] += seconds_of([&] {
        formula((*this)[stage]);
        if (stage == Stage::head_out) patch_head_out();
      });
    if (stage != Stage::head_result) return;
    if (contains(steps_.patched, stage)) patch_head_result();
    if (contains(steps_.wanted, stage)) show_head_result();
  }
  /// Runs the softmax of every row, and shows the maps and row values that are wanted.
  template <class F> void each_row(const F& softmax) {
    memory_.seconds[index_of(Stage::weights)] += seconds_of([&] {
      for (std::size_t i = 0; i < rows(); ++i) {
        Row<T> row(*this, i);
        softmax(row);
      }
    });
    show_rows();
  }

private:
  friend class Row<T>;
  std::size_t rows() const { return place_.count * heads_; }
  static bool before_mask(Stage stage) {
    switch (stage) {
    case Stage::scores:
    case Stage::scaled:
    case Stage::capped:
    case Stage::biased:
      return true;
    default:
      return false;
    }
  }
  Visible range(Stage stage) const { return before_mask(stage) ? computed_keys_ : visible_keys_; }
  std::size_t given_at(std::size_t i) const {
    return (place_.batch * layer_.dims.H + place_.head) * layer_.dims.T + place_.token + i;
  }
  void make_room();
  void show_rows() const;
  void show_head_result() const;
  bool touches_maps() const;
  void patch_head_out() const;
  void patch_head_result() const;

  const Layer& layer_;
  const ScorePlan& steps_;
  const TokenStages<T>& tokens_;
  const HeadKeys<T>& keys_;
  BandMemory<T>& memory_;
  PatchedResults<T>& results_;
  Observer& observer_;
  Place place_;
  std::size_t heads_;     ///< of one query; 1 of several
  std::size_t all_keys_;  ///< of a row in memory
  std::size_t item_keys_; ///< of the batch item: the first of those
  Visible computed_keys_, visible_keys_;
};

/// The row of one query, from scores to weights: one step after the other while it is in the cache.
/// A row that an observer wants is copied aside at its step, so what is shown is what was used.
template <class T> class Row {
public:
  Row(Band<T>& band, std::size_t i)
      : band_(band),
        steps_(band.steps_),
        i_(i),
        row_(band.memory_.map.data() + i * band.all_keys_) {}

  RowPlace place() const {
    const Place& first = band_.place_;
    return band_.heads_ > 1 ? RowPlace{first.batch, first.head + i_, first.token}
                            : RowPlace{first.batch, first.head, first.token + i_};
  }
  std::size_t all_keys() const { return band_.item_keys_; }
  /// The query itself, and the keys that its head reads: S_all × d_k.
  const T* query() const { return band_[in_turn(band_.layer_, Stage::q_rope)].row(i_); }
  Matrix<const T> keys_read() const {
    const std::size_t d_k = band_.layer_.dims.d_k;
    return band_.tokens_.rows(Stage::k_all, band_.place_.batch)
        .cols_from(kv_head_of(band_.layer_, band_.place_.head) * d_k, d_k);
  }

  /// A step before the mask: `formula` turns the keys of the stage before it into its own.
  template <class F> void step(Stage stage, const F& formula) { step(stage, T(0), formula); }
  /// A step from the mask on; keys that no query of the band sees hold `hidden`.
  template <class F> void step(Stage stage, T hidden, const F& formula) {
    if (is_given(stage))
      load(stage);
    else if (computes(stage))
      formula(keys(stage));
    patch(stage);
    if (wants(stage)) keep(stage, hidden);
  }
  /// scaled: as a step, or left to factor() where no stage before the exponential is wanted.
  void scale(T scale) {
    if (steps_.scales_in_exp) factor_ = scale;
    step(Stage::scaled, [&](Keys<T> keys) {
      if (!steps_.scales_in_exp) row_scale(keys.begin(), keys.size(), scale);
    });
  }
  /// What the row is still to be multiplied by.
  T factor() const { return factor_; }

  /// A number of the row, made of the keys seen.
  template <class F> T value(Stage stage, const F& formula) {
    T value = 0;
    if (is_given(stage))
      value = band_.layer_.given[index_of(stage)].template as<T>()[band_.given_at(i_)];
    else if (computes(stage))
      value = formula(keys(stage));
    if (contains(steps_.patched, stage)) {
      const RowPlace at = place();
      band_.layer_.patches.apply(stage, at.batch, at.head, at.query, &value, 0, 1);
    }
    if (wants(stage)) band_.memory_.wanted[index_of(stage)].data()[i_] = value;
    return value;
  }
  /// shifted, exp and their sum: in one pass where no stage between is wanted, to the same bits.
  T exp_sum(T shift);

private:
  bool computes(Stage stage) const { return contains(steps_.computed, stage); }
  bool wants(Stage stage) const { return contains(steps_.wanted, stage); }
  bool is_given(Stage stage) const { return contains(steps_.given, stage); }
  Keys<T> keys(Stage stage) const {
    const Visible range = band_.range(stage);
    return {row_, range.first, range.last};
  }
  void load(Stage stage);
  void patch(Stage stage);
  void keep(Stage stage, T hidden);
  bool has_gap() const;
  T sum_without_gap(Keys<T> exponentials) const;

  Band<T>& band_;
  const ScorePlan& steps_;
  std::size_t i_;
  T* row_;
  T factor_ = 1;
};

} // namespace mha
