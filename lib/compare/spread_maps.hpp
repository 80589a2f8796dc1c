#pragma once
// Variances of T × S maps by rounding, some rows of one head at a time.

#include <mha/compare/spread.hpp>

#include <array>

namespace mha {

/// The variances of scores … weights.
class MapVariances {
public:
  /// `layer` has the token stages given that maps are made of; `q` and `k` are null if a map is
  /// given. `last`: the stage that is asked for. `kept`: results shared with other stages.
  MapVariances(const Layer& layer, const RoundedSteps& by, Stage last, FactorRows q, FactorRows k,
               std::size_t threads, KeptMaps& kept);

  /// Rows of one head.
  struct Rows {
    std::size_t batch = 0, head = 0, first = 0, count = 0;
  };
  /// How many rows of a head to ask for at a time.
  std::size_t rows_together() const { return together_; }
  /// The values of the stage, and their variances; one column for a row stage.
  struct Found {
    Squares values, variances;
  };
  Found of(const Rows& rows);

private:
  Squares values(Stage stage, const Rows& rows);
  Squares products(const Rows& rows) const;
  Squares kept_products(const Rows& rows);
  bool makes(Stage stage) const { return contains(steps_, stage); }
  /// The values of the stages in one row; null if a stage is not needed.
  struct RowValues {
    std::array<const double*, stage_count> rows{};
    const double* operator[](Stage stage) const { return rows[index_of(stage)]; }
  };
  bool is_given(Stage stage, const RowValues& y) const {
    return layer_.has_given(stage) && y[stage];
  }
  void through_scores(const RowValues& values, std::size_t query, double* variance) const;
  double through_exp(const RowValues& y, double* variance) const;
  double of_row_sum(const RowValues& y, const double* variance) const;
  void through_softmax(const RowValues& y, double of_max, double* variance) const;
  void of_given(Stage stage, const double* y, std::size_t n, double* variance) const;

  const Layer& layer_;
  const RoundedSteps& by_;
  Stage last_;
  Spacing kept_, summed_;
  FactorRows q_, k_;
  std::size_t threads_, together_;
  StageSet steps_;           ///< the stages on the way to `last`
  StageSet powers_;          ///< given stages that are powers (are_powers)
  std::vector<Stage> shown_; ///< the steps that are computed
  bool is_small_ = false;    ///< whether shared_ has the values of the steps
  KeptMaps& shared_;
};

} // namespace mha
