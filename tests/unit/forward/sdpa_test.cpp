#include "support/compare.hpp"
#include "support/layer_file.hpp"
#include "support/library_input.hpp"
#include "support/random_layer.hpp"
#include <mha/observe/trace.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>

// PyTorch's scaled_dot_product_attention and nn.MultiheadAttention, written down from their
// documentation, against files with PyTorch's names.

using reference::Array;
using reference::Shape;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr std::uint64_t draws = 60;

Array numbers(Random& random, const Shape& shape) {
  Array array(shape);
  for (double& value : array.values) value = random.uniform(-1.5, 1.5);
  return array;
}

Array choices(Random& random, const Shape& shape, double share) {
  Array array(shape);
  for (double& value : array.values) value = random.chance(share) ? 1 : 0;
  return array;
}

/// The element of a mask whose axes are aligned at the right and repeated where they are 1.
double at(const Array& mask, std::array<std::size_t, 4> index) {
  std::size_t flat = 0;
  for (std::size_t axis = 0; axis < mask.shape.size(); ++axis)
    flat =
        flat * mask.shape[axis] + (mask.shape[axis] == 1 ? 0 : index[4 - mask.shape.size() + axis]);
  return mask.values[flat];
}

/// torch.softmax: a row of −inf gives NaN.
void softmax(std::vector<double>& row) {
  double max = -infinity, sum = 0;
  for (double a : row) max = std::fmax(max, a);
  for (double& a : row) sum += a = std::exp(a - max);
  for (double& a : row) a /= sum;
}

struct Attended {
  Array weights, out;
};

// q: N, H, L, E. k, v: N, H_kv, S, E. bias(n, h, i, j) is what is added to a score.
template <class Bias> Attended attend(const Array& q, const Array& k, const Array& v, double scale,
                                      bool safe, Bias bias) {
  const std::size_t N = q.shape[0], H = q.shape[1], L = q.shape[2], S = k.shape[2];
  const std::size_t repeat = H / k.shape[1];
  Attended result{Array({N, H, L, S}), Array({N, H, L, v.shape[3]})};
  for (std::size_t n = 0; n < N; ++n)
    for (std::size_t h = 0; h < H; ++h)
      for (std::size_t i = 0; i < L; ++i) {
        std::vector<double> row(S, 0);
        bool masked = true;
        for (std::size_t j = 0; j < S; ++j) {
          for (std::size_t e = 0; e < q.shape[3]; ++e)
            row[j] += q(n, h, i, e) * k(n, h / repeat, j, e);
          row[j] = row[j] * scale + bias(n, h, i, j);
          masked = masked && row[j] == -infinity;
        }
        softmax(row);
        if (masked && safe) row.assign(S, 0);
        for (std::size_t j = 0; j < S; ++j) {
          result.weights(n, h, i, j) = row[j];
          for (std::size_t e = 0; e < v.shape[3]; ++e)
            result.out(n, h, i, e) += row[j] * v(n, h / repeat, j, e);
        }
      }
  return result;
}

void require_same(const mha::LoadedLayer& loaded, mha::Stage out, const Attended& want) {
  const mha::Trace trace = mha::trace(loaded.layer, {mha::Stage::weights, out});
  const auto check = [&](mha::Stage stage, const Array& array) {
    INFO(name_of(stage));
    CHECK(compare(trace.value(stage), tensor_of(array, mha::DType::f64),
                  1e-12 * (1 + magnitude(array))) == "");
  };
  check(mha::Stage::weights, want.weights), check(out, want.out);
}

// x: N, rows, in. W: out, in, of which rows [first, first + out) are used. The result: N, rows,
// out.
Array linear(const Array& x, const Array& W, const Array& bias, std::size_t first,
             std::size_t out) {
  Array y({x.shape[0], x.shape[1], out});
  for (std::size_t n = 0; n < x.shape[0]; ++n)
    for (std::size_t i = 0; i < x.shape[1]; ++i)
      for (std::size_t o = 0; o < out; ++o) {
        if (!bias.empty()) y(n, i, o) = bias(first + o);
        for (std::size_t c = 0; c < x.shape[2]; ++c) y(n, i, o) += x(n, i, c) * W(first + o, c);
      }
  return y;
}

// N, rows, H·d to N, H, rows, d, with `extra` (H·d) and a row of zeros after it.
Array heads_apart(const Array& x, std::size_t heads, const Array& extra, bool zero) {
  const std::size_t rows = x.shape[1], d = x.shape[2] / heads;
  Array y({x.shape[0], heads, rows + (extra.empty() ? 0 : 1) + (zero ? 1 : 0), d});
  for (std::size_t n = 0; n < x.shape[0]; ++n)
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t c = 0; c < d; ++c) {
        for (std::size_t i = 0; i < rows; ++i) y(n, h, i, c) = x(n, i, h * d + c);
        if (!extra.empty()) y(n, h, rows, c) = extra.values[h * d + c];
      }
  return y;
}

/// nn.MultiheadAttention(E, H, …, batch_first=True) with what its forward() is given.
struct MultiheadAttention {
  std::size_t H = 2;
  Array in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight, in_proj_bias;
  Array out_proj_weight, out_proj_bias, bias_k, bias_v;
  bool add_zero_attn = false;
  Array query, key, value;
  Array attn_mask, key_padding_mask;
  bool mask_is_bool = false, padding_is_bool = false; ///< not 0 = ignore; else added

  Attended forward() const {
    const std::size_t E = query.shape[2], S = key.shape[1];
    const bool own = in_proj_weight.empty(); // widths of their own
    const Array q = linear(query, own ? q_proj_weight : in_proj_weight, in_proj_bias, 0, E);
    const auto source = [&](const Array& x, const Array& W, std::size_t which) {
      if (!own) return linear(x, in_proj_weight, in_proj_bias, which * E, E);
      Array bias; // of the three in in_proj_bias
      if (!in_proj_bias.empty()) {
        bias = Array({E});
        for (std::size_t c = 0; c < E; ++c) bias(c) = in_proj_bias(which * E + c);
      }
      return linear(x, W, bias, 0, E);
    };
    const Array k = heads_apart(source(key, k_proj_weight, 1), H, bias_k, add_zero_attn);
    const Array v = heads_apart(source(value, v_proj_weight, 2), H, bias_v, add_zero_attn);
    const auto bias = [&](std::size_t n, std::size_t h, std::size_t i, std::size_t j) {
      double sum = 0;
      if (j >= S) return sum; // added keys are never masked
      const auto add = [&](double number, bool is_bool) {
        sum += !is_bool ? number : number != 0 ? -infinity : 0;
      };
      if (!attn_mask.empty())
        add(attn_mask.shape.size() == 2 ? attn_mask(i, j) : attn_mask(n * H + h, i, j),
            mask_is_bool);
      if (!key_padding_mask.empty()) add(key_padding_mask(n, j), padding_is_bool);
      return sum;
    };
    const double scale = 1 / std::sqrt(static_cast<double>(E / H));
    Attended result = attend(heads_apart(q, H, {}, false), k, v, scale, false, bias);
    Array concat({query.shape[0], query.shape[1], E});
    for (std::size_t n = 0; n < concat.shape[0]; ++n)
      for (std::size_t i = 0; i < concat.shape[1]; ++i)
        for (std::size_t c = 0; c < E; ++c)
          concat(n, i, c) = result.out(n, c / (E / H), i, c % (E / H));
    result.out = linear(concat, out_proj_weight, out_proj_bias, 0, E);
    return result;
  }

  LayerFile file() const {
    LayerFile file;
    const auto put = [&](const char* name, const Array& array) {
      file.put(name, array, mha::DType::f64);
    };
    put("in_proj_weight", in_proj_weight), put("in_proj_bias", in_proj_bias);
    put("q_proj_weight", q_proj_weight), put("k_proj_weight", k_proj_weight);
    put("v_proj_weight", v_proj_weight);
    put("out_proj.weight", out_proj_weight), put("out_proj.bias", out_proj_bias);
    put("bias_k", bias_k), put("bias_v", bias_v);
    put("X", query), put("X_k", key), put("X_v", value);
    file.put("attn_mask", attn_mask, mask_is_bool ? mha::DType::boolean : mha::DType::f64);
    file.put("key_padding_mask", key_padding_mask,
             padding_is_bool ? mha::DType::boolean : mha::DType::f64);
    file.settings = {{"num_heads", fmt::format("{}", H)}, {"masked_rows", "nan"}};
    if (add_zero_attn) file.settings.emplace_back("add_zero_attn", "true");
    return file;
  }
};

MultiheadAttention random_module(Random& random) {
  MultiheadAttention m;
  m.H = random.count(2, 3);
  const std::size_t N = random.count(1, 3), L = random.count(1, 5), S = random.count(2, 7);
  const std::size_t E = m.H * random.count(1, 4);
  const bool own = random.chance(0.4);
  const std::size_t kdim = own ? random.count(2, 9) : E, vdim = own ? random.count(2, 9) : E;
  if (own) {
    m.q_proj_weight = numbers(random, {E, E}), m.k_proj_weight = numbers(random, {E, kdim});
    m.v_proj_weight = numbers(random, {E, vdim});
  } else {
    m.in_proj_weight = numbers(random, {3 * E, E});
  }
  m.out_proj_weight = numbers(random, {E, E});
  if (random.chance(0.7))
    m.in_proj_bias = numbers(random, {3 * E}), m.out_proj_bias = numbers(random, {E});
  if (random.chance(0.4))
    m.bias_k = numbers(random, {1, 1, E}), m.bias_v = numbers(random, {1, 1, E});
  m.add_zero_attn = random.chance(0.4);
  m.query = numbers(random, {N, L, E});
  m.key = numbers(random, {N, S, kdim}), m.value = numbers(random, {N, S, vdim});
  if (random.chance(0.7)) {
    const Shape shape = random.chance(0.5) ? Shape{L, S} : Shape{N * m.H, L, S};
    m.mask_is_bool = random.chance(0.5);
    m.attn_mask = m.mask_is_bool ? choices(random, shape, 0.5) : numbers(random, shape);
  }
  if (random.chance(0.6)) {
    m.padding_is_bool = random.chance(0.6);
    m.key_padding_mask = m.padding_is_bool ? choices(random, {N, S}, 0.4) : numbers(random, {N, S});
  }
  return m;
}

} // namespace

TEST_CASE("scaled_dot_product_attention's arguments give its numbers") {
  for (std::uint64_t seed = 0; seed < draws; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const std::size_t N = random.count(1, 3), H_kv = random.count(1, 3);
    const std::size_t H = H_kv * random.count(1, 3), L = random.count(1, 5);
    const std::size_t S = random.count(2, 7), E = random.count(1, 5), E_v = random.count(1, 5);
    const Array q = numbers(random, {N, H, L, E}), k = numbers(random, {N, H_kv, S, E});
    const Array v = numbers(random, {N, H_kv, S, E_v});
    LayerFile file;
    file.put("q", q, mha::DType::f64), file.put("k", k, mha::DType::f64);
    file.put("v", v, mha::DType::f64);
    double scale = 1 / std::sqrt(static_cast<double>(E));
    if (random.chance(0.3)) scale = 0.375, file.settings.emplace_back("scale", "0.375");
    // is_causal and attn_mask exclude each other.
    const bool is_causal = random.chance(0.4), is_bool = random.chance(0.5);
    Array mask;
    if (is_causal) {
      file.settings.emplace_back("is_causal", "true");
    } else if (random.chance(0.8)) {
      const std::vector<Shape> shapes{{L, S}, {H, L, S}, {N, H, L, S}, {N, 1, 1, S}, {N, 1, L, S}};
      const Shape shape = shapes[random.count(0, shapes.size() - 1)];
      mask = is_bool ? choices(random, shape, 0.6) : numbers(random, shape);
      if (is_bool) std::fill_n(mask.values.begin(), S, 0); // the first query sees nothing
      file.put("attn_mask", mask, is_bool ? mha::DType::boolean : mha::DType::f64);
    }
    const auto bias = [&](std::size_t n, std::size_t h, std::size_t i, std::size_t j) {
      if (is_causal) return j <= i ? 0 : -infinity; // tril(diagonal=0)
      if (mask.empty()) return 0.0;
      const double value = at(mask, {n, h, i, j});
      return !is_bool ? value : value != 0 ? 0 : -infinity;
    };
    const Attended want = attend(q, k, v, scale, true, bias);
    require_same(seed % 2 == 0 ? load_npz(file) : load_bound(file), mha::Stage::head_out, want);
  }
}

TEST_CASE("nn.MultiheadAttention's state and arguments give its numbers") {
  for (std::uint64_t seed = 0; seed < draws; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const MultiheadAttention module = random_module(random);
    require_same(load_npz(module.file()), mha::Stage::output, module.forward());
  }
}

TEST_CASE("a bound attn_mask has PyTorch's meaning beside PyTorch's names") {
  Random random(3);
  MultiheadAttention module = random_module(random);
  const std::size_t L = module.query.shape[1], S = module.key.shape[1];
  module.attn_mask = choices(random, {L, S}, 0.5), module.mask_is_bool = true;
  LayerFile file = module.file();
  LayerFile mask;
  for (std::size_t i = 0; i < file.tensors.size(); ++i)
    if (file.tensors[i].first == "attn_mask") {
      mask.tensors.push_back(file.tensors[i]);
      file.tensors.erase(file.tensors.begin() + static_cast<std::ptrdiff_t>(i));
    }
  REQUIRE(mask.tensors.size() == 1);
  require_same(load_npz(file, {}, mask), mha::Stage::output, module.forward());
}

TEST_CASE("nn.MultiheadAttention's rows that may attend to nothing are NaN, zero if asked for") {
  Random random(5);
  MultiheadAttention module = random_module(random);
  module.bias_k = module.bias_v = module.key_padding_mask = {}, module.add_zero_attn = false;
  const std::size_t L = module.query.shape[1], S = module.key.shape[1];
  module.attn_mask = Array({L, S}, 1), module.mask_is_bool = true;
  const Attended want = module.forward();
  CHECK(std::isnan(want.out.values[0]));
  require_same(load_npz(module.file()), mha::Stage::output, want);
  const mha::LoadedLayer zeros = load_npz(module.file(), {{"masked_rows", "zero"}});
  CHECK(magnitude(mha::trace(zeros.layer, {mha::Stage::weights}).value(mha::Stage::weights)) == 0);
}
