#include <mha/compare/rounding.hpp>

#include <mha/compare/diff.hpp>
#include <mha/compare/precision.hpp>
#include <mha/layer/graph.hpp>
#include <mha/observe/trace.hpp>
#include <mha/tensor/not_saved.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mha {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// How many standard deviations a number may be off by. See judge_rounding.
constexpr double spreads = 6;
/// One number in this many may exceed its allowed error, up to this many times.
constexpr std::size_t one_in = 10000;
constexpr double farthest_beyond = 4;
/// The root mean square of a group's errors in units of their standard deviations is 1, and a
/// little more for n independent numbers by chance. The limit is looser in float32: rounded
/// constants, such as the scale, move all numbers alike, and no mistake is as small.
double most_in_group(double n, bool half) {
  return (half ? 1 : 4) * (1.5 + 4 / std::sqrt(n));
}
/// How many of a row's errors count as independent: those of its largest weights tie the others.
constexpr double independent_keys = 4;
/// Rounding to nearest usually shows in a row as half of its bound. Scores kept in half precision
/// show as more than the first share of the other steps' rounding, and the second of their own.
constexpr double more_than_shown = 0.65, shown_by_scores = 0.3;
/// Fewer rows have no usual one, and fewer numbers no direction. In a row that is off by a factor
/// of 1.03, storing adds less than a tenth; four random errors are as straight once in a thousand.
constexpr std::size_t few_rows = 8, no_direction = 4;
constexpr double straight = 0.12;
/// Larger stages are not judged: maps take too much memory.
constexpr std::size_t most_numbers = std::size_t{1} << 28;

bool both_hidden(double a, double b) {
  constexpr double mask_constant = -1e3;
  return (a == -infinity && b <= mask_constant) || (b == -infinity && a <= mask_constant);
}
bool are_alike(double a, double b) {
  return a == b || is_not_saved(b) || both_hidden(a, b) || (std::isnan(a) && std::isnan(b));
}

/// The rows of a stage, and their heads.
struct RowsOfStage {
  std::size_t width = 1, heads = 1, rows_of_head = 1; ///< consecutive rows of one head
};
RowsOfStage rows_of(const Layer& layer, Stage stage, const Tensor& values) {
  const StageInfo& info = info_of(stage);
  const Dims& d = layer.dims;
  RowsOfStage rows;
  rows.width = std::max<std::size_t>(values.rank() == 0 ? 1 : values.shape().back(), 1);
  if (info.kind == Kind::token) {
    const Axis first = axis_of(info.letters[0]);
    rows.heads = stage == Stage::concat || first == Axis::head ? d.H
                 : first == Axis::kv_head                      ? d.H_kv
                                                               : 1;
    if (rows.heads == 0 || rows.width % rows.heads != 0) rows.heads = 1;
    rows.width /= rows.heads;
  } else if (info.kind == Kind::row) { // a row is a head's numbers
    rows.heads = d.H;
  } else {
    rows.heads = d.H, rows.rows_of_head = d.T;
  }
  return rows;
}

/// The direction of a row's errors relative to the row.
struct Direction {
  double errors = 0, product = 0, own = 0; ///< Σ e², Σ e y, Σ y²
  std::size_t count = 0;
  void add(double error, double y) {
    errors += error * error, product += error * y, own += y * y, ++count;
  }
  bool is_straight() const {
    return count >= no_direction && own > 0 &&
           errors - product * product / own <= straight * straight * errors;
  }
};

/// Sums over numbers that are judged together.
struct Group {
  double squares = 0, expected = 0; ///< Σ error² / variance, and Σ variance
  std::size_t count = 0;
  void add(const Group& other) {
    squares += other.squares, expected += other.expected, count += other.count;
  }
  double root() const { return count == 0 ? 0 : std::sqrt(squares / static_cast<double>(count)); }
  double expected_root() const {
    return count == 0 ? 0 : std::sqrt(expected / static_cast<double>(count));
  }
  /// In units of the most allowed; `of_row`: the share of a row's numbers that are independent.
  double ratio(double of_row, bool half) const {
    return count > 1 ? root() / most_in_group(static_cast<double>(count) * of_row, half) : 0;
  }
};

/// Both sides of a stage, number by number.
class Judged {
public:
  Judged(const Layer& layer, const Rounded& theirs, const Tensor& ours,
         const std::vector<double>& variances)
      : layer_(layer),
        theirs_(theirs),
        variances_(variances),
        a_(values_in_double(ours)),
        b_(values_in_double(theirs.values)),
        stored_(spacing_of(theirs.stored)),
        rows_(rows_of(layer, theirs.stage, theirs.values)),
        of_row_(std::min(1.0, independent_keys / static_cast<double>(rows_.width))),
        half_(is_short(theirs.stored)),
        is_padded_(!layer.lengths.empty()) {}

  RoundingVerdict verdict() {
    const std::size_t n = theirs_.values.count(), rows = n / rows_.width;
    row_groups_.resize(rows);
    if (half_ && rows < few_rows) directions_.resize(rows);
    result_.allowed = Tensor::uninitialised(DType::f32, theirs_.values.shape());
    const auto allowed = result_.allowed.as_mutable<float>();
    for (std::size_t i = 0; i < n; ++i) allowed[i] = is_padded_ && is_padding(i) ? 0 : judge_at(i);
    result_.rows.resize(rows);
    for (std::size_t row = 0; row < rows; ++row)
      result_.rows[row] = {row_groups_[row].root(), row_groups_[row].expected_root()};
    result_.within = result_.farthest <= farthest_beyond && beyond_ * one_in <= n;
    refuse_groups(rows);
    for (std::size_t row = 0; row < directions_.size(); ++row)
      result_.scaled = result_.scaled || (row_groups_[row].ratio(of_row_, half_) > 1 &&
                                          directions_[row].is_straight());
    return std::move(result_);
  }

  /// Whether a number exceeds both its allowed error and this tolerance.
  bool is_far(Tolerance tolerance) const {
    constexpr double usual = -1e3; // mask constants are below
    for (std::size_t i = 0; i < a_.size() && !is_padded_; ++i) {
      const double error = std::fabs(a_[i] - b_[i]);
      if (std::isfinite(error) && b_[i] > usual &&
          error > tolerance.absolute + tolerance.relative * std::fabs(b_[i]) &&
          error > (farthest_beyond + 1) * allowed_at(i))
        return true;
    }
    return false;
  }

private:
  double storing_at(std::size_t i) const {
    return std::max(stored_.most(b_[i]), stored_.most(a_[i]));
  }
  double allowed_at(std::size_t i) const {
    return 1.0001 * storing_at(i) + theirs_.resolution + spreads * std::sqrt(variances_[i]);
  }

  /// Judges number i, and returns its allowed error.
  float judge_at(std::size_t i) {
    const double a = a_[i], b = b_[i], v = variances_[i], difference = std::fabs(a - b),
                 storing = storing_at(i), allowed = allowed_at(i);
    const float given = static_cast<float>(std::isfinite(allowed) ? allowed : 0);
    double error = difference;
    if (!std::isfinite(difference)) { // one of them is not finite, or they are far apart
      if (are_alike(a, b)) error = 0;
      if (!std::isfinite(b) || is_not_saved(b) || both_hidden(a, b)) {
        if (error != 0) result_.farthest = infinity;
        return given;
      }
    }
    // The division is skipped if the result cannot be the farthest.
    constexpr double surely = 1 - 1e-9;
    if (error > 0 && !(error <= allowed && error < surely * result_.farthest * allowed)) {
      const double ratio = allowed > 0 || error <= allowed ? error / allowed : infinity;
      if (!(ratio <= 1)) ++beyond_;
      result_.farthest = std::isnan(ratio) ? infinity : std::max(result_.farthest, ratio);
    }
    const double expected = v + (storing * storing + theirs_.resolution * theirs_.resolution) / 3;
    if (!(expected > 0) || !std::isfinite(error)) return given;
    Group& row = row_groups_[i / rows_.width];
    row.squares += error * error / expected, row.expected += expected, ++row.count;
    if (!directions_.empty()) directions_[i / rows_.width].add(b - a, a);
    return given;
  }

  /// Allows nothing to groups that are wrong as a whole: rows, heads without their wrong rows, and
  /// the stage without its wrong heads.
  void refuse_groups(std::size_t rows) {
    const auto head_of = [&](std::size_t row) { return row / rows_.rows_of_head % rows_.heads; };
    std::vector<Group> heads(rows_.heads);
    Group all;
    for (std::size_t row = 0; row < rows; ++row)
      if (row_groups_[row].ratio(of_row_, half_) <= 1) heads[head_of(row)].add(row_groups_[row]);
    for (const Group& head : heads)
      if (head.ratio(of_row_, half_) <= 1) all.add(head);
    for (std::size_t row = 0; row < rows; ++row) {
      const double ratio =
          std::max({all.ratio(of_row_, half_), heads[head_of(row)].ratio(of_row_, half_),
                    row_groups_[row].ratio(of_row_, half_)});
      result_.farthest = std::max(result_.farthest, ratio);
      if (ratio <= 1) continue;
      result_.within = false;
      std::fill_n(result_.allowed.as_mutable<float>().begin() +
                      static_cast<std::ptrdiff_t>(row * rows_.width),
                  rows_.width, 0.0F);
    }
  }

  /// Whether the token or key of number i is after the end of a shorter text.
  bool is_padding(std::size_t i) const {
    const Dims& d = layer_.dims;
    const std::size_t row = i / rows_.width, of_batch = theirs_.values.count() / d.B,
                      length = layer_.lengths[i / of_batch];
    if (info_of(theirs_.stage).kind == Kind::token) return row / rows_.heads % d.T >= length;
    if (info_of(theirs_.stage).kind == Kind::row) return i % d.T >= length;
    return row % d.T >= length ||
           (info_of(theirs_.stage).kind == Kind::map && i % rows_.width >= length);
  }

  const Layer& layer_;
  const Rounded& theirs_;
  const std::vector<double>& variances_;
  std::vector<double> a_, b_; ///< ours and theirs
  Spacing stored_;
  RowsOfStage rows_;
  double of_row_;
  bool half_, is_padded_;
  std::vector<Group> row_groups_;
  std::vector<Direction> directions_; ///< if there are few rows
  std::size_t beyond_ = 0;
  RoundingVerdict result_;
};

/// Adds the rounding that has grown in the layers before. Each row's variance is scaled by its
/// distance from float64, and in token stages each column adds its mean distance.
void grow(const GrownRounding& pass, bool of_tokens, double coarser, const Spacing& kept,
          std::vector<double>& variances) {
  const std::size_t width = std::max<std::size_t>(pass.ours.shape().back(), 1),
                    rows = variances.size() / width;
  std::vector<double> of_column(width);
  const std::vector<double> ours = values_in_double(pass.ours),
                            exact = values_in_double(pass.exact);
  const auto square_at = [&](std::size_t i) {
    const double error = ours[i] - exact[i];
    return std::isfinite(error) ? coarser * coarser * error * error : 0;
  };
  for (std::size_t i = 0; of_tokens && i < variances.size(); ++i)
    of_column[i % width] += square_at(i) / static_cast<double>(rows);
  for (std::size_t first = 0; first < variances.size(); first += width) {
    double errors = 0, level = 0, base = 0;
    for (std::size_t i = first; i < first + width; ++i) {
      const double y = ours[i];
      if (!std::isfinite(y) || std::fabs(y) >= 1e4) continue;
      errors += square_at(i), base += variances[i];
      level += kept.half * kept.half * y * y / static_cast<double>(width);
    }
    const double all = base + level * static_cast<double>(width),
                 times = all > 0 ? errors / all : 0;
    for (std::size_t i = first; i < first + width; ++i)
      variances[i] += times * (variances[i] + level) + of_column[i - first];
  }
}

} // namespace

RoundingVerdict judge_rounding(const Layer& layer, const Rounded& theirs, const Tensor& ours,
                               const std::vector<double>& variances) {
  return Judged(layer, theirs, ours, variances).verdict();
}

RoundingJudge::RoundingJudge(Layer layer, RoundedSteps steps, std::size_t threads)
    : layer_(std::move(layer)), steps_(std::move(steps)), threads_(threads) {}

std::vector<double> RoundingJudge::variances(Stage stage, const GrownRounding* grown, bool scores) {
  std::optional<Variances>& chain = variances_[scores ? 1 : 0];
  if (!chain) {
    RoundedSteps own = steps_;
    own.scores = scores;
    chain.emplace(layer_, std::move(own), threads_);
  }
  std::vector<double> found = chain->of(stage);
  const Spacing kept = spacing_of(steps_.kept);
  if (grown)
    grow(*grown, info_of(stage).kind == Kind::token,
         std::max(1.0, kept.half / spacing_of(layer_.dtype).half), kept, found);
  return found;
}

RoundingVerdict RoundingJudge::judged(const Rounded& theirs, const Tensor& ours,
                                      const GrownRounding* grown, bool scores) {
  return judge_rounding(layer_, theirs, ours, variances(theirs.stage, grown, scores));
}

bool RoundingJudge::can_judge(const Rounded& theirs, const Tensor& ours) const {
  return theirs.values.count() <= most_numbers && theirs.values.shape() == ours.shape() &&
         contains(available_stages(layer_), theirs.stage);
}

bool RoundingJudge::is_far(const Rounded& theirs, const Tensor& ours, const GrownRounding& grown,
                           Tolerance tolerance) {
  // In a half type there is a second way to judge.
  if (is_short(steps_.kept) || !layer_.lengths.empty() || !can_judge(theirs, ours)) return false;
  const std::vector<double> found = variances(theirs.stage, &grown, false);
  return Judged(layer_, theirs, ours, found).is_far(tolerance);
}

namespace {

/// The rows that rounded scores are expected to move.
std::vector<std::size_t> rows_moved_by_scores(const RoundingVerdict& as_kept,
                                              const RoundingVerdict& rounded) {
  constexpr double more = 1.5;
  std::vector<std::size_t> moved;
  for (std::size_t row = 0; row < as_kept.rows.size(); ++row)
    if (rounded.rows[row].expected > more * as_kept.rows[row].expected) moved.push_back(row);
  return moved;
}

/// The median error of some rows; 0 if there are none.
double middle_error(const RoundingVerdict& verdict, const std::vector<std::size_t>& rows) {
  std::vector<double> errors;
  for (const std::size_t row : rows) errors.push_back(verdict.rows[row].error);
  if (errors.empty()) return 0;
  const auto middle = errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2);
  std::nth_element(errors.begin(), middle, errors.end());
  return *middle;
}

} // namespace

std::optional<RoundingVerdict> RoundingJudge::judge(const Rounded& theirs, const Tensor& ours,
                                                    const GrownRounding* grown) {
  const Stage stage = theirs.stage;
  if (!can_judge(theirs, ours)) return std::nullopt;
  RoundingVerdict found = judged(theirs, ours, grown, false);
  const bool makes_scores = stage == Stage::scores ||
                            contains(ancestors_of(layer_, stage, layer_.given_set), Stage::scores);
  if (found.within || !is_short(steps_.kept) || !makes_scores || found.scaled) return found;
  RoundingVerdict rounded = judged(theirs, ours, grown, true);
  const std::vector<std::size_t> moved = rows_moved_by_scores(found, rounded);
  return middle_error(found, moved) >= more_than_shown &&
                 middle_error(rounded, moved) >= shown_by_scores
             ? rounded
             : found;
}

namespace {

Layer in_rows(Layer layer) {
  layer.settings.columns = false, layer.dims.batched = true;
  return layer;
}

} // namespace

ShownRoundingJudge::ShownRoundingJudge(const Layer& layer, RoundedSteps steps, std::size_t threads)
    : layer_(layer), rows_(in_rows(layer), std::move(steps), threads) {}

Tensor ShownRoundingJudge::own_form(Stage stage, const Tensor& value) const {
  return with_given(layer_, stage, value).given[index_of(stage)];
}

bool ShownRoundingJudge::is_far(const ReferenceStage& theirs, const Tensor& ours,
                                const GrownRounding& grown, Tolerance tolerance) {
  const Stage stage = theirs.stage;
  return rows_.is_far({stage, own_form(stage, theirs.value), theirs.stored, theirs.resolution},
                      own_form(stage, ours),
                      {own_form(stage, grown.ours), own_form(stage, grown.exact)}, tolerance);
}

std::optional<RoundingVerdict> ShownRoundingJudge::judge(const ReferenceStage& theirs,
                                                         const Tensor& ours,
                                                         const GrownRounding* grown) {
  const Stage stage = theirs.stage;
  std::optional<GrownRounding> grown_rows;
  if (grown) grown_rows = {own_form(stage, grown->ours), own_form(stage, grown->exact)};
  std::optional<RoundingVerdict> found =
      rows_.judge({stage, own_form(stage, theirs.value), theirs.stored, theirs.resolution},
                  own_form(stage, ours), grown_rows ? &*grown_rows : nullptr);
  if (!found) return found;
  const auto allowed = found->allowed.as<float>();
  if (std::ranges::all_of(allowed, [](float number) { return number == 0; })) {
    found->allowed = {};
    return found;
  }
  Layer shown = layer_; // trace() returns given values in the form that users see
  shown.given[index_of(stage)] = convert(found->allowed, layer_.dtype), shown.given_set.add(stage);
  found->allowed = convert(trace(shown, {stage}, {}, 1).value(stage), DType::f32);
  return found;
}

} // namespace mha
