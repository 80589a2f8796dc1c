#include "support/reference_measures.hpp"

#include <mha/layer/graph.hpp>
#include <mha/observe/trace.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace reference {

using mha::Layer;
using mha::Stage;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The mean of some rows' values.
struct Mean {
  double sum = 0;
  int rows = 0;
  void add(double value) { sum += value, ++rows; }
};

/// A kept stage, by indices.
class Kept {
public:
  Kept(const mha::Trace& trace, const Layer& layer, Stage stage) : tensor_(trace.value(stage)) {
    shape_ = tensor_.shape();
    if (!layer.dims.batched) shape_.insert(shape_.begin(), 1);
  }
  double operator()(std::initializer_list<std::size_t> index) const {
    std::size_t flat = 0, axis = 0;
    for (std::size_t i : index) flat = flat * shape_[axis++] + i;
    return mha::value_at(tensor_, flat);
  }

private:
  mha::Tensor tensor_;
  mha::Shape shape_;
};

/// Where query t stands among the keys.
double position_of(const Layer& layer, std::size_t b, std::size_t t) {
  const double T = static_cast<double>(layer.dims.T), past = static_cast<double>(layer.dims.past);
  const bool ragged = !layer.kv_lengths.empty();
  const double keys =
      ragged ? static_cast<double>(layer.kv_lengths[b]) : past + static_cast<double>(layer.dims.S);
  double offset = keys - T; // bottom right
  if (layer.settings.causal_align == mha::CausalAlign::top_left) offset = 0;
  if (layer.settings.causal_align == mha::CausalAlign::automatic && !ragged) offset = past;
  return static_cast<double>(t) + offset;
}

bool has_positions(const Layer& layer) {
  const mha::Settings& s = layer.settings;
  return s.causal || s.window_left >= 0 || s.window_right >= 0 ||
         (layer.X_k.empty() && layer.X_v.empty() && layer.dims.T == layer.dims.S);
}

std::size_t step_of(std::size_t count) {
  std::size_t step = 1;
  while (step * 256 < count) step *= 2;
  return step;
}

class Measuring {
public:
  Measuring(const Layer& given, const MeasuredPart& part)
      : layer(given), d(layer.dims), wanted(part) {
    layer.settings.columns = false;
    if (wanted.batches.empty()) wanted.batches = counted(d.B);
    if (wanted.queries.empty()) wanted.queries = counted(d.T);
    std::vector<Stage> stages{Stage::weights};
    const mha::StageSet available = mha::available_stages(layer);
    for (Stage stage : {Stage::masked, Stage::head_result, Stage::output})
      if (contains(available, stage)) stages.push_back(stage);
    const mha::Trace trace = mha::trace(layer, stages);
    for (Stage stage : stages) kept.emplace(stage, Kept(trace, layer, stage));
    for (std::size_t i = 0; i < d.B * d.H * d.T; ++i) {
      const std::size_t b = i / d.T / d.H, h = i / d.T % d.H, t = i % d.T;
      masked.push_back(finds_masked(b, h, t));
      seen.push_back(0);
      for (std::size_t j = 0; j < d.S_all; ++j) seen.back() += sees(b, h, t, j);
    }
  }

  std::vector<Measures> all() {
    std::vector<Measures> heads;
    for (std::size_t h = 0; h < d.H; ++h) heads.push_back(measured(h));
    return heads;
  }

private:
  static std::vector<std::size_t> counted(std::size_t n) {
    std::vector<std::size_t> list(n);
    std::iota(list.begin(), list.end(), std::size_t{0});
    return list;
  }
  double weight(std::size_t b, std::size_t h, std::size_t t, std::size_t j) const {
    return kept.at(Stage::weights)({b, h, t, j});
  }
  bool sees(std::size_t b, std::size_t h, std::size_t t, std::size_t j) const {
    return kept.count(Stage::masked) == 0 || kept.at(Stage::masked)({b, h, t, j}) > -infinity;
  }
  bool is_masked(std::size_t b, std::size_t h, std::size_t t) const {
    return masked[(b * d.H + h) * d.T + t];
  }
  bool finds_masked(std::size_t b, std::size_t h, std::size_t t) const {
    bool sees_none = true, zero = true, nan = true;
    for (std::size_t j = 0; j < d.S_all; ++j) {
      sees_none &= !sees(b, h, t, j);
      zero &= weight(b, h, t, j) == 0;
      nan &= std::isnan(weight(b, h, t, j));
    }
    return zero || (kept.count(Stage::masked) ? sees_none : nan);
  }

  Measures measured(std::size_t h) const;
  void measure_row(std::size_t b, std::size_t h, std::size_t t, Measures& m,
                   std::map<std::string, Mean>& means) const;
  void measure_places(std::size_t b, std::size_t h, std::size_t t,
                      std::map<std::string, Mean>& means) const;
  void measure_results(std::size_t h, Measures& m) const;
  void measure_overflow(std::size_t h, Measures& m) const;
  double correlation(std::size_t h, bool uniform) const;
  std::optional<std::size_t> last_key(std::size_t b, std::size_t h) const;
  double count_seen(std::size_t b, std::size_t h, std::size_t t) const {
    return seen[(b * d.H + h) * d.T + t];
  }
  bool chooses(std::size_t b, std::size_t h, std::size_t t) const {
    return !is_masked(b, h, t) && count_seen(b, h, t) > 1;
  }
  std::vector<double> pooled(std::size_t h) const;
  void measure_projection(const mha::Tensor& W, std::size_t part, std::size_t parts, bool rows,
                          const std::string& letter, Measures& m) const;

  Layer layer;
  mha::Dims d;
  MeasuredPart wanted;
  std::map<Stage, Kept> kept;
  std::vector<bool> masked; ///< B, H, T
  std::vector<double> seen; ///< likewise: how many keys
};

void Measuring::measure_row(std::size_t b, std::size_t h, std::size_t t, Measures& m,
                            std::map<std::string, Mean>& means) const {
  double entropy = 0, sum = 0, largest = -1;
  const double visible = count_seen(b, h, t);
  for (std::size_t j = 0; j < d.S_all; ++j) sum += weight(b, h, t, j);
  m["row_sum_error"] = std::max(m["row_sum_error"], std::fabs(sum - 1));
  m["rows"] += visible > 1;
  if (visible <= 1) return; // there is no choice
  for (std::size_t j = 0; j < d.S_all; ++j) {
    const double a = weight(b, h, t, j);
    if (a > 0) entropy -= a * std::log(a);
    largest = std::max(largest, a);
    if (!m.count("max") || a > m["max"]) {
      m["max"] = a;
      m["max_query"] = static_cast<double>(t), m["max_key"] = static_cast<double>(j);
      if (d.batched) m["max_batch"] = static_cast<double>(b);
    }
  }
  means["entropy"].add(entropy);
  means["effective_keys"].add(std::exp(entropy));
  means["one_key_rows"].add(largest > 0.9);
  means["confidence"].add(largest);
  double left = 1; // what learned sinks took
  for (std::size_t j = 0; j < d.S_all; ++j) left -= weight(b, h, t, j);
  means["sink_share"].add(weight(b, h, t, 0) + (layer.sinks.empty() ? 0 : left));
  means["entropy_share"].add(entropy / std::log(visible));
  double common = 0; // with equal weights: 1 − total variation distance
  for (std::size_t j = 0; j < d.S_all; ++j)
    if (sees(b, h, t, j)) common += std::min(weight(b, h, t, j), 1 / visible);
  means["uniformity"].add(common);
  measure_places(b, h, t, means);
}

void Measuring::measure_places(std::size_t b, std::size_t h, std::size_t t,
                               std::map<std::string, Mean>& means) const {
  const double p = has_positions(layer) ? position_of(layer, b, t) : -1e9;
  const double equal = 1 / count_seen(b, h, t);
  const std::size_t placed = d.past + d.S; // learned and zero keys stand nowhere
  // The weight on some keys beside what equal weights would put there.
  const auto score = [&](const std::string& name, const auto& counts) {
    double value = 0, uniform = 0;
    for (std::size_t j = 0; j < placed; ++j)
      if (counts(j)) value += weight(b, h, t, j), uniform += sees(b, h, t, j) ? equal : 0;
    means[name].add(value), means[name + " if uniform"].add(uniform);
  };
  const auto any = [&](const auto& counts) {
    bool some = false;
    for (std::size_t j = 0; j < placed; ++j) some |= counts(j);
    return some;
  };
  const auto away = [&](std::size_t j) { return static_cast<double>(j) - p; };
  const auto at = [&](double distance) {
    return [&, distance](std::size_t j) { return away(j) == distance; };
  };
  const auto visible = [&](const auto& counts) {
    return [&](std::size_t j) { return counts(j) && sees(b, h, t, j); };
  };
  const bool labelled = !layer.tokens.empty() && !layer.key_tokens.empty();
  const auto separates = [&](std::size_t j) { return j > 0 && layer.key_tokens[j] == "."; };
  const auto same = [&](std::size_t j) {
    return j > 0 && away(j) < 0 && layer.key_tokens[j] == layer.tokens[t];
  };
  const auto follows = [&](std::size_t j) {
    return away(j) < 0 && j > 0 && layer.key_tokens[j - 1] == layer.tokens[t];
  };
  const std::optional<std::size_t> end = last_key(b, h);
  const auto is_end = [&](std::size_t j) { return j == end && away(j) != 0; };

  // Key 0 may be a learned one, where there are no others.
  double first = 0, uniform_first = 0;
  first = weight(b, h, t, 0), uniform_first = sees(b, h, t, 0) ? equal : 0;
  means["first"].add(first), means["first if uniform"].add(uniform_first);
  if (any(visible(is_end))) score("last", is_end);
  if (labelled && any(visible(separates))) score("separator", visible(separates));
  if (!has_positions(layer)) return;
  double distance = 0;
  for (std::size_t j = 0; j < placed; ++j) distance += weight(b, h, t, j) * std::fabs(away(j));
  means["distance"].add(distance);
  score("window",
        [&](std::size_t j) { return std::fabs(away(j)) <= static_cast<double>(wanted.window); });
  if (any(at(0))) score("self", at(0));
  if (any(at(-1))) score("previous", at(-1));
  if (any(visible(at(1)))) score("next", at(1));
  if (labelled && any(same)) score("duplicate", same);
  if (labelled && any(follows)) score("induction", follows);
}

/// Of the first and the last query, which sees further.
std::optional<std::size_t> Measuring::last_key(std::size_t b, std::size_t h) const {
  std::optional<std::size_t> last;
  for (std::size_t j = 0; j < d.past + d.S; ++j)
    if (sees(b, h, 0, j) || sees(b, h, d.T - 1, j)) last = j;
  return last;
}

double Measuring::correlation(std::size_t h, bool uniform) const {
  const auto each = [&](const auto& use) {
    for (std::size_t b : wanted.batches)
      for (std::size_t t : wanted.queries)
        for (std::size_t j = 0; j < d.past + d.S && chooses(b, h, t); ++j)
          use(!uniform           ? weight(b, h, t, j)
              : sees(b, h, t, j) ? 1 / count_seen(b, h, t)
                                 : 0,
              static_cast<double>(t), static_cast<double>(j));
  };
  double w = 0, mean_t = 0, mean_j = 0, tt = 0, jj = 0, tj = 0;
  each([&](double a, double t, double j) { w += a, mean_t += a * t, mean_j += a * j; });
  mean_t /= w, mean_j /= w;
  each([&](double a, double t, double j) {
    tt += a * (t - mean_t) * (t - mean_t);
    jj += a * (j - mean_j) * (j - mean_j);
    tj += a * (t - mean_t) * (j - mean_j);
  });
  // Nothing correlates where one of them does not vary.
  return tt < 1e-9 * w || jj < 1e-9 * w ? infinity : tj / std::sqrt(tt * jj);
}

std::vector<double> Measuring::pooled(std::size_t h) const {
  const std::size_t down = step_of(d.T), across = step_of(d.S_all);
  const std::size_t rows = (d.T + down - 1) / down, cols = (d.S_all + across - 1) / across;
  std::vector<double> cells(d.B * rows * cols, 0);
  for (std::size_t b : wanted.batches)
    for (std::size_t t : wanted.queries)
      for (std::size_t j = 0; j < d.S_all && chooses(b, h, t); ++j) {
        const std::size_t height = std::min(down, d.T - t / down * down),
                          width = std::min(across, d.S_all - j / across * across);
        cells[(b * rows + t / down) * cols + j / across] +=
            weight(b, h, t, j) / static_cast<double>(height * width);
      }
  return cells;
}

void Measuring::measure_results(std::size_t h, Measures& m) const {
  Mean norm;
  double along = 0, squares = 0;
  for (std::size_t b : wanted.batches)
    for (std::size_t t : wanted.queries) {
      const auto result = [&](std::size_t head, std::size_t i) {
        return kept.at(Stage::head_result)({b, head, t, i});
      };
      double length = 0;
      for (std::size_t i = 0; i < d.d_out; ++i) length += result(h, i) * result(h, i);
      if (!is_masked(b, h, t)) norm.add(std::sqrt(length));
      bool shared = true;
      for (std::size_t head = 0; head < d.H; ++head) shared &= !is_masked(b, head, t);
      for (std::size_t i = 0; i < d.d_out && shared; ++i) {
        const double bias = layer.b_o.empty() ? 0 : mha::value_at(layer.b_o, i);
        const double sum = kept.at(Stage::output)({b, t, i}) - bias;
        along += result(h, i) * sum;
        squares += sum * sum;
      }
    }
  if (norm.rows > 0) m["result_norm"] = norm.sum / norm.rows;
  if (squares > 0) m["result_share"] = along / squares;
}

void Measuring::measure_overflow(std::size_t h, Measures& m) const {
  double largest = -infinity;
  long double largest_sum = 0;
  for (std::size_t b : wanted.batches)
    for (std::size_t t : wanted.queries) {
      long double sum = 0;
      const auto add = [&](double logit) {
        largest = std::max(largest, logit);
        sum += std::exp(static_cast<long double>(logit));
      };
      for (std::size_t j = 0; j < d.S_all; ++j) add(kept.at(Stage::masked)({b, h, t, j}));
      if (!layer.sinks.empty()) add(mha::value_at(layer.sinks, h));
      largest_sum = std::max(largest_sum, sum);
    }
  if (largest > -infinity) m["largest_logit"] = largest;
  m["overflow_f32"] = largest_sum > static_cast<long double>(std::numeric_limits<float>::max());
  m["overflow_f16"] = largest_sum > 65504;
}

void Measuring::measure_projection(const mha::Tensor& W, std::size_t part, std::size_t parts,
                                   bool rows, const std::string& letter, Measures& m) const {
  if (W.empty()) return;
  const std::size_t in = W.shape()[0], out = W.shape()[1];
  // Columns of the head's width: of W_o the transpose.
  const std::size_t width = (rows ? in : out) / parts, height = rows ? out : in;
  std::vector<double> block(height * width);
  for (std::size_t i = 0; i < height; ++i)
    for (std::size_t j = 0; j < width; ++j)
      block[i * width + j] = rows ? mha::value_at(W, (part * width + j) * out + i)
                                  : mha::value_at(W, i * out + part * width + j);
  double squares = 0;
  for (std::size_t a = 0; a < width; ++a)
    for (std::size_t b = 0; b < width; ++b) {
      double product = a == b ? -1 : 0;
      for (std::size_t i = 0; i < height; ++i)
        product += block[i * width + a] * block[i * width + b];
      squares += product * product;
    }
  m["stiefel_" + letter] = std::sqrt(squares);
  const std::vector<double> values = singular_values(block, height, width);
  const double eps = W.dtype() == mha::DType::f64 ? 0x1p-52 : 0x1p-23;
  const double least = values.front() * eps * static_cast<double>(std::max(width, height));
  m["rank_" + letter] = static_cast<double>(
      std::count_if(values.begin(), values.end(), [&](double value) { return value > least; }));
  m["cond_" + letter] = values.front() / values.back();
}

Measures Measuring::measured(std::size_t h) const {
  Measures m;
  std::map<std::string, Mean> means;
  m["masked_rows"] = 0;
  for (std::size_t b : wanted.batches)
    for (std::size_t t : wanted.queries) {
      if (is_masked(b, h, t))
        ++m["masked_rows"];
      else
        measure_row(b, h, t, m, means);
    }
  for (const auto& [name, mean] : means) {
    if (mean.rows == 0 || name.ends_with(" if uniform")) continue;
    m[name] = mean.sum / mean.rows;
    const auto uniform = means.find(name + " if uniform");
    if (uniform == means.end()) continue;
    m[name + "_above"] = m[name] - uniform->second.sum / mean.rows;
    if (name == "window") m["window_keys"] = uniform->second.sum / mean.rows;
    if (name != "window" && name != "first") m[name + "_rows"] = mean.rows;
  }
  if (m.count("entropy"))
    if (const double r = correlation(h, false); r < infinity) {
      m["diagonal"] = r;
      if (const double equal = correlation(h, true); equal < infinity)
        m["diagonal_above"] = r - equal;
    }
  if (kept.count(Stage::head_result)) measure_results(h, m);
  if (kept.count(Stage::masked)) measure_overflow(h, m);
  const std::vector<double> own = pooled(h);
  for (std::size_t other = 0; other < d.H && m.count("entropy"); ++other) {
    if (other == h) continue;
    const std::vector<double> cells = pooled(other);
    const auto dot = [](const std::vector<double>& a, const std::vector<double>& b) {
      return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
    };
    const double cosine = dot(own, cells) / std::sqrt(dot(own, own) * dot(cells, cells));
    if (std::isnan(cosine) || (m.count("similarity") && cosine <= m["similarity"])) continue;
    m["similarity"] = cosine, m["nearest_head"] = static_cast<double>(other);
  }
  const std::size_t kv = h * d.H_kv / d.H;
  measure_projection(layer.W_q, h, d.H, false, "q", m);
  measure_projection(layer.W_k, kv, d.H_kv, false, "k", m);
  measure_projection(layer.W_v, kv, d.H_kv, false, "v", m);
  measure_projection(layer.W_o, h, d.H, true, "o", m);
  return m;
}

} // namespace

std::vector<double> singular_values(std::vector<double> matrix, std::size_t rows,
                                    std::size_t cols) {
  if (rows < cols) {
    std::vector<double> turned(matrix.size());
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < cols; ++j) turned[j * rows + i] = matrix[i * cols + j];
    return singular_values(turned, cols, rows);
  }
  // Columns are rotated against each other until all are orthogonal: then their lengths are it.
  for (int sweep = 0; sweep < 60; ++sweep)
    for (std::size_t p = 0; p < cols; ++p)
      for (std::size_t q = p + 1; q < cols; ++q) {
        double pp = 0, qq = 0, pq = 0;
        for (std::size_t i = 0; i < rows; ++i) {
          const double a = matrix[i * cols + p], b = matrix[i * cols + q];
          pp += a * a, qq += b * b, pq += a * b;
        }
        if (std::fabs(pq) <= 1e-17 * std::sqrt(pp * qq)) continue;
        const double angle = std::atan2(2 * pq, pp - qq) / 2, c = std::cos(angle),
                     s = std::sin(angle);
        for (std::size_t i = 0; i < rows; ++i) {
          double &a = matrix[i * cols + p], &b = matrix[i * cols + q];
          const double rotated = c * a + s * b;
          b = c * b - s * a, a = rotated;
        }
      }
  std::vector<double> values(cols, 0);
  for (std::size_t j = 0; j < cols; ++j) {
    for (std::size_t i = 0; i < rows; ++i) values[j] += matrix[i * cols + j] * matrix[i * cols + j];
    values[j] = std::sqrt(values[j]);
  }
  std::sort(values.rbegin(), values.rend());
  return values;
}

std::vector<Measures> measure(const Layer& layer, const MeasuredPart& part) {
  return Measuring(layer, part).all();
}

} // namespace reference
