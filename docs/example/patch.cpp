// Patch a step and see what follows: head 0 attends to the first token alone.
#include <mha/xtensor.hpp>

#include <iostream>
#include <xtensor/xmath.hpp>
#include <xtensor/xview.hpp>

int main(int count, char** words) try {
  if (count != 4) throw mha::Error("a checkpoint, a layer and where its X is expected");
  const mha::Layer layer = mha::load(words[1], words[2], words[3]);
  const mha::Cache before = mha::run(layer, {mha::Stage::weights, mha::Stage::output});
  xt::xarray<float> patched = before["weights"]; // a copy, to write into
  xt::view(patched, 0) = 0;
  xt::view(patched, 0, xt::all(), 0) = 1;
  const auto after = mha::run(layer.with("weights", mha::tensor(std::move(patched))))["output"];
  std::cout << "the output moves by up to " << xt::amax(xt::abs(after - before["output"]))()
            << '\n';
} catch (const mha::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
