// The mean entropy of each head's weights, streamed: no map is ever whole in memory.
#include <mha/xtensor.hpp>

#include <iostream>
#include <xtensor/xmath.hpp>

int main(int count, char** words) try {
  if (count != 4) throw mha::Error("a checkpoint, a layer and where its X is expected");
  const mha::Layer layer = mha::load(words[1], words[2], words[3]);
  std::vector<double> bits(layer.dims.H);
  mha::each(layer, mha::Stage::weights, [&](mha::Place place, auto rows) { // rows: queries, S
    bits[place.head] -= xt::sum(rows * xt::log2(xt::maximum(rows, 1e-30F)))();
  });
  for (const double head : bits)
    std::cout << head / static_cast<double>(layer.dims.B * layer.dims.T) << '\n';
} catch (const mha::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
