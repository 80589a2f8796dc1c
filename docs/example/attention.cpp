// Multi-head attention (Vaswani et al. 2017), a line a step, with grouped queries (Ainslie et al.
// 2023), rotary positions (Su et al. 2021) and a causal mask. Numbers in brackets are the equations
// of docs/maths.md. The layer is that of data/quickstart.json, and every step is printed:
//   c++ -std=c++17 attention.cpp -o attention && ./attention causal rope grouped
#include <xtensor/xarray.hpp>
#include <xtensor/xbuilder.hpp>
#include <xtensor/xmanipulation.hpp>
#include <xtensor/xmath.hpp>
#include <xtensor/xrepeat.hpp>
#include <xtensor/xview.hpp>

#include <cmath>
#include <iomanip>
#include <iostream>
#include <limits>
#include <set>
#include <string>
#include <vector>

using Array = xt::xarray<double>;
using xt::all;

// T tokens ask, S tokens are asked (here the same ones). H heads share H_kv key/value heads.
struct Layer {
  std::size_t H = 2, H_kv = 2;
  double scale = std::log(2.);                                        // usually 1 / √d_k
  Array W_q{{0, 0, 1, 0}, {1, 0, 0, 1}, {0, 2, 1, 1}, {0, 0, 0, 0}};  // d_model × H·d_k
  Array W_k{{1, 0, 1, 0}, {0, 1, 0, 1}, {0, 0, 1, 1}, {0, 0, 0, 0}};  // d_model × H_kv·d_k
  Array W_v{{1, 0, 0, 1}, {0, 2, 1, 0}, {1, 1, 2, 0}, {0, 0, 0, .5}}; // d_model × H_kv·d_v
  Array W_o{{1, 0, 0, 0}, {0, 1, 0, 1}, {0, 0, 1, 0}, {2, 0, 0, 1}};  // H·d_v × d_model
  bool rope = false, causal = false;
};

// Σ_i a_ti b_ij over the last two axes.
Array product(const Array& a, const Array& b) {
  const std::size_t i = a.dimension() - 1;
  return xt::sum(xt::expand_dims(a, i + 1) * xt::expand_dims(b, b.dimension() - 2), {i});
}

// T × H·d to H × T × d.
Array split(Array rows, std::size_t heads) {
  rows.reshape({rows.shape(0), heads, rows.shape(1) / heads});
  return xt::transpose(rows, {1, 0, 2});
}

// H × T × d to T × H·d.
Array side_by_side(const Array& heads) {
  Array rows = xt::transpose(heads, {1, 0, 2});
  return rows.reshape({heads.shape(1), heads.shape(0) * heads.shape(2)});
}

// H_kv × S × d to H × S × d: what each query head reads.
Array for_queries(const Array& heads, std::size_t H) {
  return xt::repeat(heads, H / heads.shape(0), 0);
}

// Dimensions i and i + d_k/2 of token t are turned by the angle t θ_i.
Array rotate(const Array& q) {
  const std::size_t T = q.shape(1), d_k = q.shape(2);
  const Array t = xt::expand_dims(xt::arange(T), 1);                    // T × 1
  const Array theta = xt::pow(10000., -2. * xt::arange(d_k / 2) / d_k); // d_k/2
  const Array cos = xt::cos(t * theta), sin = xt::sin(t * theta);       // T × d_k/2
  const Array a = xt::view(q, all(), all(), xt::range(0, d_k / 2));
  const Array b = xt::view(q, all(), all(), xt::range(d_k / 2, d_k));
  return xt::concatenate(xt::xtuple(Array(a * cos - b * sin), Array(b * cos + a * sin)), 2);
}

// T × S: −∞ where a causal layer hides key j from query t, else 0.
Array mask(std::size_t T, std::size_t S, bool causal) {
  const Array t = xt::expand_dims(xt::arange(T), 1), j = xt::arange(S);
  return xt::where(causal && j > t, -std::numeric_limits<double>::infinity(), 0.);
}

std::vector<Array> attention(const Array& x, const Layer& layer) {
  const std::size_t T = x.shape(0), H = layer.H, H_kv = layer.H_kv; // x: T × d_model

  const Array q = split(product(x, layer.W_q), H);                     // (3, 11) H × T × d_k
  const Array k = split(product(x, layer.W_k), H_kv);                  // (3, 11) H_kv × S × d_k
  const Array v = split(product(x, layer.W_v), H_kv);                  // (3, 11) H_kv × S × d_v
  const Array q_rope = layer.rope ? rotate(q) : q;                     // (6) H × T × d_k
  const Array k_rope = layer.rope ? rotate(k) : k;                     // (6) H_kv × S × d_k
  const Array keys = xt::transpose(for_queries(k_rope, H), {0, 2, 1}); // (10) H × d_k × S
  const Array values = for_queries(v, H);                              // (10) H × S × d_v
  const Array scores = product(q_rope, keys);                          // (4) H × T × S
  const Array scaled = layer.scale * scores;                           // (4) H × T × S
  const Array masked = scaled + mask(T, T, layer.causal);              // (5) H × T × S
  const Array row_max = xt::amax(masked, {2}, xt::keep_dims);          // (15) H × T × 1
  const Array exp = xt::exp(masked - row_max);                         // (15) H × T × S
  const Array row_sum = xt::sum(exp, {2}, xt::keep_dims);              // (15) H × T × 1
  const Array weights = exp / row_sum;                                 // (15) H × T × S
  const Array head_out = product(weights, values);                     // (4) H × T × d_v
  const Array concat = side_by_side(head_out);                         // (11) T × H·d_v
  const Array output = product(concat, layer.W_o);                     // (8) T × d_model

  return {x, q, k, v, q_rope, k_rope, scores, scaled, masked, weights, head_out, concat, output};
}

const std::vector<std::string> stages{"x",        "q",      "k",      "v",      "q_rope",
                                      "k_rope",   "scores", "scaled", "masked", "weights",
                                      "head_out", "concat", "output"};

int main(int count, char** words) {
  const std::set<std::string> with(words + 1, words + count);
  const Array x{{1, 0, 0, 1}, {0, 1, 0, 1}, {0, 0, 1, 1}};
  Layer layer;
  layer.rope = with.count("rope") > 0, layer.causal = with.count("causal") > 0;
  if (with.count("grouped") > 0) { // both heads read key/value head 0
    layer.H_kv = 1;
    for (Array* W : {&layer.W_k, &layer.W_v}) *W = Array(xt::view(*W, all(), xt::range(0, 2)));
  }
  std::cout << std::setprecision(17);
  const std::vector<Array> values = attention(x, layer);
  for (std::size_t i = 0; i < stages.size(); ++i) {
    std::cout << stages[i];
    for (const double number : values[i]) std::cout << ' ' << number;
    std::cout << '\n';
  }
}
