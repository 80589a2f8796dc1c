#pragma once
// Minimum, maximum and mean of stages while they are computed.

#include <mha/observe/mergeable.hpp>
#include <mha/observe/placement.hpp>

#include <limits>
#include <map>
#include <mutex>
#include <tuple>

namespace mha {

/// Counts and range of some numbers. Minimum, maximum and mean are over the finite ones.
struct Summary {
  std::size_t count = 0, finite = 0, nan = 0, infinite = 0;
  double min = std::numeric_limits<double>::infinity(), max = -min; ///< of no numbers: +inf, −inf
  double sum = 0;

  double mean() const { return finite > 0 ? sum / static_cast<double>(finite) : 0; }
  void add(const Summary& other);
};

/// The summary of numbers of any dtype.
Summary summary_of(const Tensor& tensor);

/// Keeps a summary for each block and adds them in the order of the blocks, so that the mean's bits
/// do not depend on threads.
class Summaries : public Mergeable {
public:
  Summaries(const Layer& layer, const StageSet& wanted, const Selection& selection = {});

  StageSet wants() const override { return wanted_; }
  std::optional<std::size_t> batch() const override;
  void observe(const Slice& block) override;
  void share(const Layer& layer, const Plan& part, ShareBytes& bytes) override;

  /// The summary of the selected part of a stage.
  Summary of(Stage stage) const;
  /// The shape of that part.
  const Shape& shape(Stage stage) const { return placements_.at(stage).shape(); }

private:
  using BlockKey =
      std::tuple<Stage, std::size_t, std::size_t, std::size_t>; ///< stage, batch, head, token
  StageSet wanted_;
  bool selects_;
  std::map<Stage, Placement> placements_;
  std::mutex mutex_;
  std::map<BlockKey, Summary> parts_;
};

} // namespace mha
