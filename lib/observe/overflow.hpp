#pragma once
// Numbers that left what their type can hold: where, and what helps.

#include <mha/observe/mergeable.hpp>
#include <mha/system/message.hpp>

#include <mutex>
#include <optional>
#include <string>

namespace mha {

/// The first stage of a query's computation with numbers that are not finite though all before
/// were.
struct Overflow {
  Stage stage = Stage::scores;
  std::size_t batch = 0, head = 0, query = 0;
  std::size_t count = 0; ///< numbers of the query that are not finite, masked keys left out
  std::size_t first = 0; ///< the first of them: a key in maps, a column in others
  double value = 0;      ///< of the first: ±inf or NaN
};

/// Computes the query again, stage by stage. Nothing where all is finite, and where an input, a
/// weight or a stage that is given was not: then nothing overflowed here.
std::optional<Overflow> find_overflow(const Layer& layer, std::size_t batch, std::size_t head,
                                      std::size_t query);

/// "overflow: 2 of scores (head 0, query 3) are −inf, the first at key 1: float32 ends at 3.4e38;
/// --dtype f64, or …".
Message overflow_text(const Layer& layer, const Overflow& overflow);

/// "W_q has numbers that are NaN or infinite: …", of the first tensor of the layer that has; "":
/// none has.
std::string not_finite_text(const Layer& layer);

/// Watches a computation for rows whose exponentials do not add up to a number: what a score of
/// ±inf or NaN makes of its row. Costs one look at each row's sum.
class OverflowWatch : public Mergeable {
public:
  /// Does not look at the layer again: a computation may let it go.
  explicit OverflowWatch(const Layer& layer);
  StageSet wants() const override { return wants_; }
  void observe(const Slice& block) override;
  void share(const Layer& layer, const Plan& part, ShareBytes& bytes) override;

  /// What to tell of the first row, or of the tensor that made it no number; "" where every row is
  /// finite.
  Message report(const Layer& layer) const;
  /// The same without the layer: which rows are none, and how to see why.
  Message report_without_layer() const;

private:
  struct Row {
    std::size_t batch, head, query;
    auto operator<=>(const Row&) const = default;
  };
  void add(std::size_t rows, const Row& first);

  StageSet wants_;
  bool batched_;
  std::size_t first_item_;
  std::mutex mutex_;
  std::size_t rows_ = 0;
  std::optional<Row> first_;
};

} // namespace mha
