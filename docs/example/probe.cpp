// A probe on streams: after which layer two texts' last tokens are how far apart.
#include <mha/xtensor.hpp>

#include <iostream>
#include <xtensor/xmath.hpp>
#include <xtensor/xview.hpp>

int main(int count, char** words) try {
  if (count != 4) throw mha::Error("a checkpoint and two texts are expected");
  const mha::Model model(words[1]);
  const mha::Run a = model.run(model.tokens(words[2])), b = model.run(model.tokens(words[3]));
  for (std::size_t n = 0; n <= model.layers(); ++n) {
    const auto x = mha::values<float>(a.resid(n)), y = mha::values<float>(b.resid(n));
    const auto p = xt::view(x, -1), q = xt::view(y, -1);
    std::cout << n << ' ' << (xt::sum(p * q) / xt::sqrt(xt::sum(p * p) * xt::sum(q * q)))() << '\n';
  }
} catch (const mha::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
