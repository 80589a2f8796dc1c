// A layer made by hand, computed by `mha-core` alone: no file, no name, no JSON is read. It is that
// of data/quickstart.json; the weights of each head are printed while it is computed.
#include <mha/forward/attention.hpp>
#include <mha/schedule/observer.hpp>

#include <cmath>
#include <cstdio>
#include <vector>

namespace {

mha::Tensor tensor(const mha::Shape& shape, const std::vector<double>& numbers) {
  return mha::Tensor::of<double>(shape, numbers);
}

/// Prints the weights. On one thread its calls come one after another.
class Printer : public mha::Observer {
public:
  mha::StageSet wants() const override { return {mha::Stage::weights}; }

  void observe(const mha::Slice& slice) override {
    const std::size_t queries = slice.values.shape[1], keys = slice.values.shape[2];
    std::printf("head %zu\n", slice.head);
    for (std::size_t t = 0; t < queries; ++t)
      for (std::size_t s = 0; s < keys; ++s)
        std::printf("%6.4f%c", slice.row<double>(t)[s], s + 1 < keys ? ' ' : '\n');
  }
};

mha::Layer quickstart() {
  mha::Layer layer;
  layer.dtype = mha::DType::f64;
  layer.dims.T = layer.dims.S = layer.dims.S_all = 3;
  layer.dims.H = layer.dims.H_kv = 2;
  layer.dims.d_model = layer.dims.d_out = 4;
  layer.dims.d_k = layer.dims.d_v = 2;
  layer.settings.scale = mha::ScaleKind::number;
  layer.settings.scale_value = std::log(2.);
  layer.X = tensor({1, 3, 4}, {1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1}); // B, T, d_model
  layer.W_q = tensor({4, 4}, {0, 0, 1, 0, 1, 0, 0, 1, 0, 2, 1, 1, 0, 0, 0, 0});
  layer.W_k = tensor({4, 4}, {1, 0, 1, 0, 0, 1, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0});
  layer.W_v = tensor({4, 4}, {1, 0, 0, 1, 0, 2, 1, 0, 1, 1, 2, 0, 0, 0, 0, .5});
  layer.W_o = tensor({4, 4}, {1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 1, 0, 2, 0, 0, 1});
  return layer;
}

} // namespace

int main() try {
  Printer printer;
  const mha::Layer layer = quickstart();
  const mha::Plan plan = mha::make_plan(layer, printer.wants());
  mha::Schedule<double> run(layer, plan, printer, 1); // on one thread
  mha::transformer_block(run.layer(), mha::clip_of(layer), run);
} catch (const mha::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
