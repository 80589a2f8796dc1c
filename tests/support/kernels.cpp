#include "support/kernels.hpp"

#include <mha/load/assemble.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

namespace kernels {

namespace {

using mha::DType;
using Floats = std::vector<float>;

constexpr float float_infinity = std::numeric_limits<float>::infinity();

float rounded(float x, DType to) {
  return to == DType::bf16  ? mha::from_bfloat16(mha::to_bfloat16(x))
         : to == DType::f16 ? mha::from_half(mha::to_half(x))
                            : x;
}

Floats rounded(Floats numbers, DType to) {
  for (float& x : numbers) x = rounded(x, to);
  return numbers;
}

/// Σ term(i) for i < n.
float sum_of(std::size_t n, Order order, const std::function<float(std::size_t)>& term) {
  const std::function<float(std::size_t, std::size_t)> pairwise = [&](std::size_t first,
                                                                      std::size_t count) {
    if (count == 1) return term(first);
    return pairwise(first, count / 2) + pairwise(first + count / 2, count - count / 2);
  };
  if (n == 0) return 0;
  if (order == Order::pairwise) return pairwise(0, n);
  float sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += term(order == Order::reversed ? n - 1 - i : i);
  return sum;
}

/// The inputs of a kernel: q, k and v by item, token and head; masks and sinks.
struct Inputs {
  Floats q, k, v, sinks;
  std::vector<std::uint8_t> mask; ///< T × S, 1: may attend
  std::vector<std::size_t> lengths;
};

bool sees(const Kernel& kernel, const Inputs& in, std::size_t b, std::size_t t, std::size_t j) {
  const auto distance = static_cast<std::int64_t>(t) - static_cast<std::int64_t>(j);
  return !(kernel.causal && distance < 0) && !(kernel.window >= 0 && distance > kernel.window) &&
         (in.mask.empty() || in.mask[t * kernel.S + j] != 0) &&
         (in.lengths.empty() || j < in.lengths[b]);
}

/// One row of one head: its scores, kept in the kernel's type.
Floats scores_of(const Kernel& kernel, const Inputs& in, std::size_t b, std::size_t h,
                 std::size_t t) {
  const std::size_t n = kernel.d_k, g = h * kernel.H_kv / kernel.H;
  const float scale = 1 / std::sqrt(static_cast<float>(n));
  Floats scores(kernel.S, -float_infinity);
  for (std::size_t j = 0; j < kernel.S; ++j) {
    if (!sees(kernel, in, b, t, j)) continue;
    const float* q = &in.q[((b * kernel.T + t) * kernel.H + h) * n];
    const float* k = &in.k[((b * kernel.S + j) * kernel.H_kv + g) * n];
    const Order order = kernel.order == Order::online ? Order::forward : kernel.order;
    float s = rounded(sum_of(n, order, [&](std::size_t i) { return q[i] * k[i]; }), kernel.scores);
    s = rounded(s * scale, kernel.scores);
    if (kernel.softcap > 0) {
      const auto cap = static_cast<float>(kernel.softcap);
      s = rounded(cap * std::tanh(s / cap), kernel.scores);
    }
    scores[j] = s;
  }
  return scores;
}

struct Row {
  Floats out;
  float lse = 0;
};

/// softmax(scores) v of one row; the result of `of_key` multiplies a key's part.
Row attended(const Kernel& kernel, const Inputs& in, const Floats& scores, std::size_t b,
             std::size_t h, const std::function<float(std::size_t)>& of_key) {
  const std::size_t n = kernel.d_v, S = kernel.S, g = h * kernel.H_kv / kernel.H;
  const auto v = [&](std::size_t j, std::size_t i) {
    return in.v[((b * S + j) * kernel.H_kv + g) * n + i];
  };
  const float sink = kernel.sinks ? in.sinks[h] : -float_infinity;
  Row row;
  row.out.resize(n);
  if (kernel.order == Order::online) { // the weights are rounded before they are divided
    constexpr std::size_t block = 16;
    float max = sink, sum = kernel.sinks ? 1.0F : 0.0F;
    for (std::size_t first = 0; first < S; first += block) {
      const std::size_t last = std::min(S, first + block);
      const float before = max;
      for (std::size_t j = first; j < last; ++j) max = std::max(max, scores[j]);
      if (max == -float_infinity) continue;
      const float by = before == -float_infinity ? 0 : std::exp(before - max);
      sum *= by;
      for (float& x : row.out) x *= by;
      for (std::size_t j = first; j < last; ++j) {
        const float p = std::exp(scores[j] - max), kept = rounded(p, kernel.weights) * of_key(j);
        sum += p;
        for (std::size_t i = 0; i < n; ++i) row.out[i] += kept * v(j, i);
      }
    }
    for (float& x : row.out) x /= sum;
    row.lse = max + std::log(sum);
    return row;
  }
  const float max = std::max(sink, *std::ranges::max_element(scores));
  Floats p(S);
  for (std::size_t j = 0; j < S; ++j) p[j] = std::exp(scores[j] - max);
  const float sum = sum_of(S, kernel.order, [&](std::size_t j) { return p[j]; }) +
                    (kernel.sinks ? std::exp(sink - max) : 0.0F);
  for (std::size_t j = 0; j < S; ++j) p[j] = rounded(p[j] / sum, kernel.weights) * of_key(j);
  for (std::size_t i = 0; i < n; ++i)
    row.out[i] = sum_of(S, kernel.order, [&](std::size_t j) { return p[j] * v(j, i); });
  row.lse = max + std::log(sum);
  return row;
}

/// x W of rows of n numbers.
Floats product(const Floats& x, const Floats& W, std::size_t n, std::size_t width, Order order) {
  Floats y(x.size() / n * width);
  for (std::size_t i = 0; i < y.size(); ++i)
    y[i] = sum_of(n, order,
                  [&](std::size_t k) { return x[i / width * n + k] * W[k * width + i % width]; });
  return y;
}

mha::Tensor float_tensor(const mha::Shape& shape, const Floats& numbers) {
  return mha::Tensor::of<float>(shape, numbers);
}
/// B, T, H, d with the heads before the tokens.
mha::Tensor heads_first(const Floats& numbers, std::size_t B, std::size_t T, std::size_t H,
                        std::size_t d) {
  return mha::permuted(float_tensor({B, T, H, d}, numbers), {0, 2, 1, 3});
}

} // namespace

std::string Kernel::text() const {
  return fmt::format("kernel {}: B {} T {} S {} H {}/{} d {}/{}{}{}{}{}{}{}{} size {} stored {} "
                     "weights {} scores {} order {}",
                     seed, B, T, S, H, H_kv, d_k, d_v,
                     d_model > 0 ? fmt::format(" of {}", d_model) : "", causal ? " causal" : "",
                     window >= 0 ? fmt::format(" window {}", window) : "",
                     softcap > 0 ? " softcap" : "", sinks ? " sinks" : "", masked ? " masked" : "",
                     padded ? " padded" : "", size, mha::name_of(stored), mha::name_of(weights),
                     mha::name_of(scores), static_cast<int>(order));
}

std::string Mistake::text() const {
  return fmt::format("{} times item {} head {} {} {}–{}", factor, item, head,
                     of_keys ? "keys" : "rows", first, first + count - 1);
}

Kernel kernel_of(std::uint64_t number, bool with_projections) {
  std::mt19937_64 random(number * 7919 + 17);
  const auto one_of = [&](auto... choices) {
    const std::array list{choices...};
    return list[random() % list.size()];
  };
  Kernel kernel;
  kernel.seed = number;
  kernel.B = static_cast<std::size_t>(one_of(1, 2, 3));
  kernel.H_kv = static_cast<std::size_t>(one_of(1, 2, 3));
  kernel.H = kernel.H_kv * static_cast<std::size_t>(one_of(2, 3, 4));
  kernel.d_k = static_cast<std::size_t>(one_of(8, 16, 24, 40));
  kernel.d_v = static_cast<std::size_t>(one_of(12, 20, 32));
  kernel.T = static_cast<std::size_t>(one_of(17, 33, 49, 70));
  kernel.causal = random() % 2 == 0;
  kernel.S = kernel.T;
  if (!kernel.causal && !with_projections)
    kernel.S = static_cast<std::size_t>(one_of(19, 37, 130, 260));
  if (kernel.causal && random() % 3 == 0) kernel.window = one_of(5, 11);
  if (random() % 4 == 0) kernel.softcap = one_of(5.0, 30.0);
  kernel.sinks = random() % 5 == 0;
  kernel.masked = random() % 4 == 0;
  kernel.padded = random() % 4 == 0 && kernel.window < 0; // a row that sees no key is another thing
  kernel.size = one_of(0.5, 1.0, 1.0, 3.0);
  kernel.stored = one_of(DType::f32, DType::bf16, DType::f16);
  if (kernel.stored != DType::f32) {
    kernel.weights = one_of(DType::f32, kernel.stored);
    if (random() % 4 == 0) kernel.weights = kernel.scores = kernel.stored; // as eager code does
  }
  kernel.order = one_of(Order::forward, Order::reversed, Order::pairwise, Order::online);
  if (kernel.scores != DType::f32 && kernel.order == Order::online) kernel.order = Order::forward;
  if (with_projections) kernel.d_model = static_cast<std::size_t>(one_of(36, 52));
  return kernel;
}

Mistake mistake_of(const Kernel& kernel, std::uint64_t number) {
  std::mt19937_64 random(number * 104729 + 5);
  Mistake mistake;
  mistake.factor = random() % 2 == 0 ? 1.03 : 0.97;
  mistake.item = random() % kernel.B, mistake.head = random() % kernel.H;
  const std::size_t kind = random() % 4, tile = 16;
  const std::size_t n = kind == 3 ? kernel.S : kernel.T;
  mistake.of_keys = kind == 3;
  mistake.count = kind == 0 ? 1 : kind == 2 ? n : std::min(tile, n);
  mistake.first = random() % (n - mistake.count + 1);
  if (mistake.of_keys) mistake.first = 0; // a tile that every row sees
  return mistake;
}

Port port_of(const Kernel& kernel, const std::optional<Mistake>& mistake) {
  std::mt19937_64 random(kernel.seed);
  std::normal_distribution<float> normal;
  const auto drawn = [&](std::size_t count, double size) {
    Floats numbers(count);
    for (float& x : numbers) x = normal(random) * static_cast<float>(size);
    return rounded(std::move(numbers), kernel.stored);
  };
  const auto [B, T, S, H, H_kv, d_k, d_v, d_model] = std::tuple(
      kernel.B, kernel.T, kernel.S, kernel.H, kernel.H_kv, kernel.d_k, kernel.d_v, kernel.d_model);
  const Order order = kernel.order == Order::online ? Order::forward : kernel.order;
  mha::NamedTensors parts;
  const auto part = [&](const char* name, mha::Tensor value) {
    parts[name] = {std::move(value), name, true};
  };
  mha::Settings settings;
  settings.num_heads = H, settings.num_kv_heads = H_kv, settings.causal = kernel.causal;
  settings.window_left = kernel.window, settings.softcap = kernel.softcap;
  Inputs in;
  Floats W_o;
  std::vector<std::pair<mha::Stage, mha::Tensor>> saved;
  if (d_model > 0) {
    const double usual = 1 / std::sqrt(static_cast<double>(d_model));
    const Floats X = drawn(B * T * d_model, 1), W_q = drawn(d_model * H * d_k, usual * kernel.size),
                 W_k = drawn(d_model * H_kv * d_k, usual), W_v = drawn(d_model * H_kv * d_v, usual);
    W_o = drawn(H * d_v * d_model, usual);
    part("X", float_tensor({B, T, d_model}, X)), part("W_q", float_tensor({d_model, H * d_k}, W_q));
    part("W_k", float_tensor({d_model, H_kv * d_k}, W_k)),
        part("W_v", float_tensor({d_model, H_kv * d_v}, W_v));
    part("W_o", float_tensor({H * d_v, d_model}, W_o));
    in.q = rounded(product(X, W_q, d_model, H * d_k, order), kernel.stored);
    in.k = rounded(product(X, W_k, d_model, H_kv * d_k, order), kernel.stored);
    in.v = rounded(product(X, W_v, d_model, H_kv * d_v, order), kernel.stored);
    saved.emplace_back(mha::Stage::q, heads_first(in.q, B, T, H, d_k));
    saved.emplace_back(mha::Stage::v, heads_first(in.v, B, S, H_kv, d_v));
  } else {
    in.q = drawn(B * T * H * d_k, kernel.size), in.k = drawn(B * S * H_kv * d_k, 1);
    in.v = drawn(B * S * H_kv * d_v, 1);
    part("q", heads_first(in.q, B, T, H, d_k)), part("k", heads_first(in.k, B, S, H_kv, d_k));
    part("v", heads_first(in.v, B, S, H_kv, d_v));
  }
  if (kernel.sinks) in.sinks = drawn(H, 1), part("sinks", float_tensor({H}, in.sinks));
  if (kernel.masked) {
    in.mask.resize(T * S);
    mha::Tensor mask(DType::boolean, {T, S});
    for (std::size_t i = 0; i < T * S; ++i) {
      in.mask[i] = random() % 4 != 0 || i % S == i / S || i % S == 0 ? 1 : 0;
      mask.as_mutable<bool>()[i] = in.mask[i] != 0;
    }
    part("mask", mask);
  }
  if (kernel.padded) {
    mha::Tensor lengths(DType::i64, {B});
    for (std::size_t b = 0; b < B; ++b) {
      in.lengths.push_back(S - random() % (S / 3));
      lengths.as_mutable<std::int64_t>()[b] = static_cast<std::int64_t>(in.lengths[b]);
    }
    settings.causal_align = mha::CausalAlign::top_left;
    part("kv_lengths", lengths);
  }
  Floats out(B * T * H * d_v), lse(B * H * T);
  for (std::size_t b = 0; b < B; ++b)
    for (std::size_t h = 0; h < H; ++h)
      for (std::size_t t = 0; t < T; ++t) {
        const bool wrong = mistake && mistake->item == b && mistake->head == h;
        const auto is_in = [&](std::size_t i) {
          return i >= mistake->first && i < mistake->first + mistake->count;
        };
        const auto factor = mistake ? static_cast<float>(mistake->factor) : 1.0F;
        const Row row =
            attended(kernel, in, scores_of(kernel, in, b, h, t), b, h, [&](std::size_t j) {
              return wrong && mistake->of_keys && is_in(j) ? factor : 1.0F;
            });
        lse[(b * H + h) * T + t] = row.lse;
        for (std::size_t i = 0; i < d_v; ++i)
          out[((b * T + t) * H + h) * d_v + i] = rounded(
              row.out[i] * (wrong && !mistake->of_keys && is_in(t) ? factor : 1.0F), kernel.stored);
      }
  if (kernel.scores == DType::f32) // what keeps its scores in a short type keeps no lse
    saved.emplace_back(mha::Stage::logsumexp, float_tensor({B, H, T}, lse));
  saved.emplace_back(mha::Stage::head_out, heads_first(out, B, T, H, d_v));
  if (d_model > 0)
    saved.emplace_back(
        mha::Stage::output,
        float_tensor({B, T, d_model},
                     rounded(product(out, W_o, H * d_v, d_model, order), kernel.stored)));
  Port port{mha::make_layer(parts, settings), {}};
  for (auto& [stage, value] : saved) {
    mha::ReferenceStage one;
    one.stage = stage, one.value = std::move(value), one.source = "port";
    one.stored = stage == mha::Stage::logsumexp ? DType::f32 : kernel.stored;
    port.stages.push_back(std::move(one));
  }
  return port;
}

} // namespace kernels
