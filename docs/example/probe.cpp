#include <iostream>
#include <mha/xtensor.hpp> // How far two texts' last tokens are apart in the stream, layer by layer.
#include <xtensor/xnorm.hpp>
#include <xtensor/xview.hpp>

int main(int count, char** words) try {
  if (count != 4) throw mha::Error("a checkpoint and two texts are expected");
  const mha::Model model(words[1]);
  const mha::Run a = model.run(model.tokens(words[2])), b = model.run(model.tokens(words[3]));
  const auto last = [&](const mha::Tensor& x) { return xt::view(mha::values<float, 2>(x), -1); };
  for (std::size_t n = 0; n <= model.layers(); ++n)
    std::cout << n << ' ' << xt::norm_l2(last(a.resid(n)) - last(b.resid(n)))() << '\n';
} catch (const mha::Error& error) {
  return std::cerr << error.what() << '\n', 1;
}
