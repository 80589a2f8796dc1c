// Vectors in, the attention weights of each head out.
#include <mha/xtensor.hpp>

#include <iostream>
#include <xtensor/xbuilder.hpp>
#include <xtensor/xio.hpp>
#include <xtensor/xview.hpp>

int main() {
  const xt::xarray<float> x{{1, 0, 1, 0}, {0, 2, 0, 2}, {1, 1, 1, 1}}; // T, d_model
  const xt::xarray<float> wq = xt::eye<float>(4), wk = 0.5F * xt::ones<float>({4, 4}) + wq;
  const mha::Layer layer = mha::layer({{"X", mha::tensor(x)},
                                       {"W_q", mha::tensor(wq)},
                                       {"W_k", mha::tensor(wk)},
                                       {"W_v", mha::tensor(wq)},
                                       {"W_o", mha::tensor(wq)}},
                                      {.num_heads = 2, .causal = true});
  const auto weights = mha::run(layer)["weights"]; // H, T, S
  for (std::size_t h = 0; h < layer.dims.H; ++h)
    std::cout << "head " << h << '\n' << xt::view(weights, h) << '\n';
}
