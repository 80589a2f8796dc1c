// Every stage of a layer of a checkpoint: `stages data/induction 1 hidden.npz:layers.1`.
#include <mha/xtensor.hpp>

#include <iostream>
#include <xtensor/xmath.hpp>

int main(int count, char** words) try {
  if (count != 4) throw mha::Error("a checkpoint, a layer and where its X is expected");
  const mha::Cache cache = mha::run(mha::load(words[1], words[2], words[3]));
  for (const mha::Stage stage : cache.stages()) {
    const auto values = cache.at(stage);
    std::cout << name_of(stage) << ' ' << mha::to_string(values.shape()) << ", largest "
              << xt::amax(values)() << '\n';
  }
} catch (const mha::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
