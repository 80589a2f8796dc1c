#pragma once
// Variances of T × S maps by rounding: some rows of one head at a time.

#include <mha/compare/spread.hpp>

#include <array>

namespace mha {

/// The variances of scores … weights.
class MapVariances {
public:
  /// `layer` with the token stages that maps are made of given; `q` and `k` are null where a map is
  /// given. `last`: the stage that is asked for.
  /// `kept`: what was found for other stages of the layer, and is found.
  MapVariances(const Layer& layer, const RoundedSteps& by, Stage last, FactorRows q, FactorRows k,
               std::size_t threads, KeptMaps& kept);

  /// Rows of one head.
  struct Rows {
    std::size_t batch = 0, head = 0, first = 0, count = 0;
  };
  /// As many of a head as are looked at together.
  std::size_t rows_together() const { return together_; }
  /// The values of the stage, and their variances; of a row stage one column.
  struct Found {
    Squares values, variances;
  };
  Found of(const Rows& rows);

private:
  Squares values(Stage stage, const Rows& rows);
  Squares products(const Rows& rows) const;
  Squares kept_products(const Rows& rows);
  bool makes(Stage stage) const { return contains(steps_, stage); }
  /// The values of the stages in one row; null where a stage is not on the way.
  struct RowValues {
    std::array<const double*, stage_count> rows{};
    const double* operator[](Stage stage) const { return rows[index_of(stage)]; }
  };
  bool is_given(Stage stage, const RowValues& y) const {
    return layer_.has_given(stage) && y[stage];
  }
  void through_scores(const RowValues& values, double* variance) const;
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
  StageSet steps_;           ///< those on the way to `last`
  StageSet powers_;          ///< given stages that are: see are_powers
  std::vector<Stage> shown_; ///< of them, those that are computed
  bool is_small_ = false;    ///< whether what is kept has their values
  KeptMaps& shared_;
};

} // namespace mha
