// Softmaxes of parts of the keys, joined wrongly: a decoder that splits the keys (flash-decoding),
// or a softmax over tiles (flash attention).

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/fitted_changes.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace mha {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// A part of a row's keys that is not hidden entirely.
struct SoftmaxOfKeys {
  double share;   ///< the sum of its weights
  double max;     ///< its greatest score
  double running; ///< the greatest score of this part and those before it
};
using Softmaxes = std::vector<SoftmaxOfKeys>;

/// The parts of a row of `keys` scores and weights.
struct CutRow {
  Softmaxes parts;
  std::vector<std::size_t> part_of; ///< of each key; `hidden` where its part has no weight
};
constexpr std::size_t hidden = std::numeric_limits<std::size_t>::max();
CutRow cut(const Tensor& masked, const Tensor& weights, std::size_t at, std::size_t keys,
           std::size_t size) {
  CutRow row;
  double running = -infinity;
  for (std::size_t first = 0; first < keys; first += size) {
    SoftmaxOfKeys part{0, -infinity, 0};
    for (std::size_t j = first; j < std::min(keys, first + size); ++j) {
      part.share += value_at(weights, at + j);
      part.max = std::max(part.max, value_at(masked, at + j));
    }
    part.running = running = std::max(running, part.max);
    const bool seen = part.share > 0; // it is not where weights are not finite, either
    row.part_of.resize(std::min(keys, first + size), seen ? row.parts.size() : hidden);
    if (seen) row.parts.push_back(part);
  }
  return row;
}

double sum_over(const Softmaxes& parts, const std::function<double(const SoftmaxOfKeys&)>& f) {
  return std::accumulate(parts.begin(), parts.end(), 0.0,
                         [&](double sum, const SoftmaxOfKeys& part) { return sum + f(part); });
}
double greatest_share(const Softmaxes& parts) {
  return std::ranges::max_element(parts, {}, &SoftmaxOfKeys::share)->share;
}
/// What a part's sum is when no later maximum rescales it.
double stale(const Softmaxes& parts, const SoftmaxOfKeys& part) {
  return part.share * std::exp(parts.back().running - part.running);
}

/// A way to join parts: by what each part's result is multiplied.
struct Joining {
  const char* did;
  std::function<double(const Softmaxes& parts, std::size_t p)> factor;
};

const std::vector<Joining>& joinings() {
  const auto by = [](auto f) { // normalised over the parts
    return [f](const Softmaxes& parts, std::size_t p) { return f(parts[p]) / sum_over(parts, f); };
  };
  static const std::vector<Joining> list{
      {"takes the mean of the parts' outputs, whatever their sums",
       by([](const SoftmaxOfKeys&) { return 1.0; })},
      {"adds the parts' outputs, each divided by its own sum",
       [](const Softmaxes&, std::size_t) { return 1.0; }},
      {"weighs the parts' outputs by their maxima in place of their log-sum-exps",
       [](const Softmaxes& parts, std::size_t p) {
         const auto f = [&](const SoftmaxOfKeys& part) {
           return std::exp(part.max - parts.back().running);
         };
         return f(parts[p]) / sum_over(parts, f);
       }},
      {"weighs the parts' outputs by 2^LSE, though their log-sum-exps are natural logarithms",
       by([](const SoftmaxOfKeys& part) { return std::pow(part.share, M_LN2); })},
      {"weighs the parts' outputs by e^LSE, though their log-sum-exps are logarithms in base 2",
       by([](const SoftmaxOfKeys& part) { return std::pow(part.share, M_LOG2E); })},
      {"weighs the parts' outputs by e^(LSE − greatest LSE) without dividing by the sum of these",
       [](const Softmaxes& parts, std::size_t p) {
         return parts[p].share / greatest_share(parts);
       }},
      {"returns the last part's output alone",
       [](const Softmaxes& parts, std::size_t p) { return p + 1 == parts.size() ? 1.0 : 0.0; }},
      {"returns the first part's output alone",
       [](const Softmaxes&, std::size_t p) { return p == 0 ? 1.0 : 0.0; }},
      {"rescales neither the sum nor the output when a later part has a greater maximum",
       [](const Softmaxes& parts, std::size_t p) {
         const auto f = [&](const SoftmaxOfKeys& part) { return stale(parts, part); };
         return f(parts[p]) / sum_over(parts, f);
       }},
      {"does not rescale the output when a later part has a greater maximum",
       [](const Softmaxes& parts, std::size_t p) { return stale(parts, parts[p]); }},
      {"does not rescale the sum when a later part has a greater maximum",
       [](const Softmaxes& parts, std::size_t p) {
         return parts[p].share /
                sum_over(parts, [&](const SoftmaxOfKeys& part) { return stale(parts, part); });
       }}};
  return list;
}

/// What a log-sum-exp of parts is more than the right one.
struct JoinedSum {
  const char* did;
  std::function<double(const Softmaxes& parts, double lse)> value;
};

const std::vector<JoinedSum>& joined_sums() {
  const auto own = [](const SoftmaxOfKeys& part) { return std::log(part.share); };
  static const std::vector<JoinedSum> list{
      {"adds the parts' log-sum-exps",
       [=](const Softmaxes& parts, double lse) {
         return sum_over(parts, [&](const SoftmaxOfKeys& part) { return lse + own(part); });
       }},
      {"takes the greatest of the parts' log-sum-exps",
       [](const Softmaxes& parts, double lse) { return lse + std::log(greatest_share(parts)); }},
      {"takes the mean of the parts' log-sum-exps",
       [=](const Softmaxes& parts, double lse) {
         return lse + sum_over(parts, own) / static_cast<double>(parts.size());
       }},
      {"returns the last part's log-sum-exp alone",
       [=](const Softmaxes& parts, double lse) { return lse + own(parts.back()); }},
      {"returns the first part's log-sum-exp alone",
       [=](const Softmaxes& parts, double lse) { return lse + own(parts.front()); }},
      {"does not rescale the sum of the log-sum-exp when a later part has a greater maximum",
       [](const Softmaxes& parts, double lse) {
         return lse + std::log(sum_over(
                          parts, [&](const SoftmaxOfKeys& part) { return stale(parts, part); }));
       }}};
  return list;
}

/// Calls f(row number, cut row) for every query of every head.
template <class F>
void each_row(const Tensor& masked, const Tensor& weights, std::size_t size, F f) {
  const std::size_t keys = masked.shape().back();
  for (std::size_t row = 0; row < masked.count() / keys; ++row)
    if (const CutRow parts = cut(masked, weights, row * keys, keys, size); !parts.parts.empty())
      f(row, parts);
}

void join(Layer& layer, std::size_t size, const Joining& joining) {
  const std::vector<Tensor> values = values_of(layer, {Stage::masked, Stage::weights});
  Tensor weights = copied(values[1]);
  by_precision(weights.dtype(), [&]<class T>(T) {
    const auto to = weights.as_mutable<T>();
    each_row(values[0], values[1], size, [&](std::size_t row, const CutRow& cut) {
      const std::size_t keys = cut.part_of.size();
      for (std::size_t j = 0; j < keys; ++j) {
        const std::size_t p = cut.part_of[j];
        if (p == hidden) continue;
        T& weight = to[row * keys + j];
        weight = static_cast<T>(static_cast<double>(weight) * joining.factor(cut.parts, p) /
                                cut.parts[p].share);
      }
    });
  });
  Layer joined = layer;
  give(joined, Stage::weights, std::move(weights));
  give(layer, Stage::head_out, value_of(joined, Stage::head_out));
}

void join_sums(Layer& layer, std::size_t size, const JoinedSum& joining) {
  const std::vector<Tensor> values =
      values_of(layer, {Stage::masked, Stage::weights, Stage::logsumexp});
  Tensor sums = copied(values[2]);
  by_precision(sums.dtype(), [&]<class T>(T) {
    const auto to = sums.as_mutable<T>();
    each_row(values[0], values[1], size, [&](std::size_t row, const CutRow& cut) {
      to[row] = static_cast<T>(joining.value(cut.parts, static_cast<double>(to[row])));
    });
  });
  give(layer, Stage::logsumexp, std::move(sums));
}

} // namespace

std::vector<Change> joined_parts_changes(std::size_t keys, std::size_t size) {
  ChangeList list;
  const std::string of = fmt::format(", of parts of {} keys", size);
  const std::size_t count = (keys + size - 1) / size;
  const auto add = [&](Stage stage, const char* did, const char* cure,
                       std::function<void(Layer&)> edit) {
    Change& change =
        list.add_rows("parts.joined", StageSet{stage}, did + of, cure, std::move(edit));
    change.fitted = true;
  };
  if (count < 2) return {};
  for (const Joining& joining : joinings())
    add(Stage::head_out, joining.did,
        "join the parts' outputs by e^(LSE of the part − LSE of all): Σ e^(LSE_i − LSE) out_i",
        [size, &joining](Layer& edited) { join(edited, size, joining); });
  for (const JoinedSum& joining : joined_sums())
    add(Stage::logsumexp, joining.did, "join them as log Σ e^LSE_i of the parts",
        [size, &joining](Layer& edited) { join_sums(edited, size, joining); });
  return list.take();
}

// Which parts there are is fitted, so that no change is listed.
const Theme joined_parts_theme{"joined_parts", "parts.joined",
                               [](const Subject&) { return std::vector<Change>{}; }};

} // namespace mha
