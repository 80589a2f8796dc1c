// The denominator of the softmax made otherwise: numbers added to it, the maximum subtracted on one
// side of the division alone, a mean in place of the sum, no division; other log-sum-exps.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/fitted_changes.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

#include <cmath>
#include <functional>

namespace mha {

namespace {

/// A row: its maximum, what this layer subtracts, and the sum of exp(score − shift).
struct SoftmaxRow {
  double max, shift, sum;
  std::size_t keys;
};
using Denominator = std::function<double(const SoftmaxRow&)>;

/// A stage with a number for each row, made of the softmax's rows. A row that is hidden entirely
/// keeps its own.
Tensor rows_by(const Layer& layer, Stage stage, const Denominator& f) {
  const std::vector<Tensor> values = values_of(layer, {Stage::row_max, Stage::row_sum, stage});
  const bool naive = layer.settings.softmax == Softmax::naive;
  Tensor rows = copied(values[2]);
  by_precision(rows.dtype(), [&]<class T>(T) {
    const auto to = rows.as_mutable<T>();
    for (std::size_t i = 0; i < to.size(); ++i) {
      const double max = value_at(values[0], i), sum = value_at(values[1], i);
      if (sum > 0 && std::isfinite(max))
        to[i] = static_cast<T>(f({max, naive ? 0 : max, sum, layer.dims.S_all}));
    }
  });
  return rows;
}

/// Divides the exponentials of this layer so that the reference's weights result.
void redivide(Layer& layer, const Denominator& f) {
  give(layer, Stage::row_sum, rows_by(layer, Stage::row_sum, f));
}

/// Adds the change for a reference whose saved row sums are these denominators, and for one whose
/// weights alone are divided by them.
void add_denominator(const Subject& subject, const char* id, const std::string& did,
                     const std::string& cure, const Denominator& f, ChangeList& list) {
  const auto edit = [f](Layer& edited) { redivide(edited, f); };
  list.add_rows(id, StageSet{Stage::row_sum}, did, cure, edit);
  if ((subject.reference & StageSet{Stage::row_sum, Stage::logsumexp}).any())
    list.add_rows(id, StageSet{Stage::weights}, did, cure, [edit](Layer& edited) {
      Layer divided = edited;
      edit(divided);
      give(edited, Stage::weights, value_of(divided, Stage::weights));
    });
}

Denominator with_added(double number, bool after_shift) {
  return [number, after_shift](const SoftmaxRow& row) {
    return row.sum + number * std::exp((after_shift ? row.max : 0) - row.shift);
  };
}

/// What kernels return for the log-sum-exp: a part of it, or of other numbers.
void add_logsumexps(ChangeList& list) {
  const auto add = [&](const char* did, const Denominator& f) {
    list.add_rows("logsumexp.form", StageSet{Stage::logsumexp}, did,
                  "return the row's maximum plus the natural logarithm of the sum of e^(score − "
                  "maximum)",
                  [f](Layer& edited) {
                    give(edited, Stage::logsumexp, rows_by(edited, Stage::logsumexp, f));
                  });
  };
  const auto sum = [](const SoftmaxRow& row) { return row.sum * std::exp(row.shift - row.max); };
  add("returns the logarithm of the sum for the log-sum-exp, without the row's maximum",
      [sum](const SoftmaxRow& row) { return std::log(sum(row)); });
  add("returns the row's maximum for the log-sum-exp",
      [](const SoftmaxRow& row) { return row.max; });
  add("returns the sum of the exponentials for their log-sum-exp", sum);
  add("returns the log-sum-exp with the opposite sign",
      [sum](const SoftmaxRow& row) { return -row.max - std::log(sum(row)); });
  add("adds the logarithm in base 2 to the row's maximum, which is in base e",
      [sum](const SoftmaxRow& row) { return row.max + std::log2(sum(row)); });
}

std::vector<Change> denominator_changes(const Subject& subject) {
  ChangeList list;
  const auto add = [&](const char* id, const char* did, const char* cure, const Denominator& f) {
    add_denominator(subject, id, did, cure, f, list);
  };
  const char* const by_sum = "divide by only the sum of the exponentials";
  add("softmax.plus_one", "adds 1 to the sum of the softmax after the row's maximum is subtracted",
      by_sum, with_added(1, true));
  const char* const same = "subtract the row's maximum in the numerator and in the denominator";
  add("softmax.denominator", "subtracts the row's maximum in the softmax's numerator only", same,
      [](const SoftmaxRow& row) { return row.sum * std::exp(row.max); });
  add("softmax.denominator", "subtracts the row's maximum in the softmax's denominator only", same,
      [](const SoftmaxRow& row) { return row.sum * std::exp(-row.max); });
  add("softmax.denominator", "does not divide the exponentials by their sum", by_sum,
      [](const SoftmaxRow& row) { return std::exp(row.max - row.shift); });
  add("softmax.denominator",
      "does not divide the exponentials by their sum, nor subtracts the row's maximum", by_sum,
      [](const SoftmaxRow& row) { return std::exp(-row.shift); });
  if (subject.layer.dims.S_all > 1)
    add("softmax.denominator", "divides the exponentials by their mean over the keys", by_sum,
        [](const SoftmaxRow& row) { return row.sum / static_cast<double>(row.keys); });
  add_logsumexps(list);
  list.all_rare();
  return list.take();
}

} // namespace

Change denominator_change(double added, bool after_shift) {
  const bool whole = !after_shift && added == std::round(added);
  Change change{
      "softmax.added", StageSet{Stage::row_sum},
      fmt::format("adds {:.5g} to the sum of the softmax{}", added,
                  after_shift ? " after the row's maximum is subtracted"
                  : whole     ? fmt::format(", as {:.0f} more keys with the score 0 do", added)
                              : ""),
      whole ? "hide the keys that only fill a tile (−∞) before the softmax, and divide by the sum "
              "of the others' exponentials"
            : "divide by only the sum of the exponentials"};
  change.edit_rows = [f = with_added(added, after_shift)](Layer& edited) { redivide(edited, f); };
  change.fitted = true;
  return change;
}

const Theme denominator_theme{"denominator", "softmax.denominator softmax.added logsumexp.form",
                              denominator_changes};

} // namespace mha
