#pragma once
// Measures of head_result, the heads' additions to the output, block by block.

#include <mha/heads/measure_rows.hpp>

namespace mha {

/// Observes head_result.
class ResultMeasures : public Mergeable {
public:
  /// `output`: B, T, d_out, or empty if it is not known. `part` is the part of the plan computed by
  /// this rank, which `rows` has observed; with an output, it has whole rows.
  ResultMeasures(const Layer& layer, Tensor output, const RowMeasures& rows, const Plan& part);

  StageSet wants() const override { return StageSet{Stage::head_result}; }
  void observe(const Slice& block) override;
  /// 32 bytes a unit.
  void share(const Layer& layer, const Plan& part, ShareBytes& bytes) override;
  void fill(HeadMeasures& head) const;

private:
  struct BlockSums {
    RowMean norm;
    double along_output = 0; ///< Σ ⟨head_result, output − b_o⟩
    double squares = 0;      ///< Σ ‖output − b_o‖², kept with the first head only
  };
  template <class T> void observe_as(const Slice& block);
  /// output − b_o of a row: the sum of all heads' results.
  template <class T>
  void sum_of_heads(std::size_t b, std::size_t t, std::vector<double>& sum) const;
  template <class T> double squares_of_sums(std::size_t b, std::size_t block) const;
  /// The places in parts_ of a plan's units that have queries.
  std::vector<std::size_t> places_of(const Plan& plan) const;
  /// Whether all heads attend in this row, so that their shares sum to 1.
  bool is_shared(std::size_t b, std::size_t t) const;

  const Layer& layer_;
  const Dims& dims_;
  Tensor output_;
  const RowMeasures& rows_;
  std::size_t block_rows_, blocks_;
  std::vector<BlockSums> parts_; ///< B, H, blocks
};

} // namespace mha
