// A whole model, run, patched and streamed: `model data/bard-gpt2 "To be, or not to be"`.
#include <mha/xtensor.hpp>

#include <map>
#include <xtensor/xmath.hpp>
#include <xtensor/xview.hpp>

int main(int count, char** words) try {
  if (count != 3) throw mha::Error("a checkpoint and a text are expected");
  const mha::Model model(words[1], {.dtype = mha::DType::f64});
  const mha::Tokens text = model.tokens(words[2]); // or of ids: model.tokens({464, 2068})
  const mha::Run clean = model.run(text, {.keep = {"layers.*.weights", "logits"}});
  for (std::size_t h = 0; h < model.dims(3).H; ++h) { // nothing before layer 3 is computed again
    const mha::Run without = clean.with(
        {mha::Patch::zero({.stage = mha::Stage::head_result, .layer = 3, .heads = {h}})});
    fmt::print("without head {}: {:+.4f}\n", h, without.loss() - clean.loss());
  }

  const mha::Run steered =
      model.run(text, {.keep = {"logits"}, .patches = {"layers.2.resid_post += 0.5"}});
  const mha::Tensor half = mha::tensor(clean.get<double>("layers.2.weights") / 2); // H, T, S
  const mha::Run fed = clean.with({{"layers.2.weights", half}}, {.keep = {"logits"}});
  for (const mha::Run& run : {steered, fed})
    fmt::print("the logits move by up to {:.3f}\n",
               xt::amax(xt::abs(run.get<double>("logits") - clean.get<double>("logits")))());

  const xt::xarray<double> weights = clean.get<double>("layers.3.weights"); // a copy, H, T, S
  fmt::print("the largest weight of layer 3, head 0: {:.3f}\n", xt::amax(xt::view(weights, 0))());
  std::map<std::string, double> largest; // the same of every head: one pass, nothing kept
  model.stream(text, {"layers.*.weights"},
               [&](const mha::At& at, mha::Place place, mha::Tensor rows) {
                 double& sofar = largest[fmt::format("{}.{}", at.layer.id(), place.head)];
                 sofar = std::max(sofar, xt::amax(mha::values<double, 2>(rows))());
               });
  for (const auto& [head, weight] : largest) fmt::print("{} {:.3f}\n", head, weight);
} catch (const mha::Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
