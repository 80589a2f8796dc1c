#pragma once
// Numbers that left their type's range: their place, and a cure.

#include <mha/observe/mergeable.hpp>
#include <mha/system/message.hpp>

#include <mutex>
#include <optional>
#include <string>

namespace mha {

/// The first stage of a query's computation with numbers that are not finite, though all stages
/// before are.
struct Overflow {
  Stage stage = Stage::scores;
  std::size_t batch = 0, head = 0, query = 0;
  std::size_t count = 0; ///< numbers of the query that are not finite, without masked keys
  std::size_t first = 0; ///< the place of the first: a key in maps, else a column
  double value = 0;      ///< the first: ±inf or NaN
};

/// Computes the query again, stage by stage. Nothing if all numbers are finite, or if an input, a
/// weight or a given stage is not: then nothing overflowed here.
std::optional<Overflow> find_overflow(const Layer& layer, std::size_t batch, std::size_t head,
                                      std::size_t query);

/// "overflow: 2 of scores (head 0, query 3) are −inf, the first at key 1: float32 ends at 3.4e38;
/// --dtype f64, or …".
Message overflow_text(const Layer& layer, const Overflow& overflow);

/// "W_q has numbers that are NaN or infinite: …" for the first such tensor of the layer, or "".
std::string not_finite_text(const Layer& layer);

/// Watches a computation for rows whose sum of exponentials is not finite, because of a score of
/// ±inf or NaN. Reads only the sum of each row.
class OverflowWatch : public Mergeable {
public:
  /// Does not keep the layer: a computation may release its tensors.
  explicit OverflowWatch(const Layer& layer);
  StageSet wants() const override { return wants_; }
  void observe(const Slice& block) override;
  void share(const Layer& layer, const Plan& part, ShareBytes& bytes) override;

  /// Describes the first such row, or the tensor that caused it; "" if every row is finite.
  Message report(const Layer& layer) const;
  /// The same without the layer: the number of such rows, and the command that shows the cause.
  Message report_without_layer() const;

private:
  struct LostRow {
    std::size_t batch, head, query;
    auto operator<=>(const LostRow&) const = default;
  };
  void add(std::size_t rows, const LostRow& first);

  StageSet wants_;
  bool batched_;
  std::size_t first_item_;
  std::mutex mutex_;
  std::size_t rows_ = 0;
  std::optional<LostRow> first_;
};

} // namespace mha
