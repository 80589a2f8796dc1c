// Prints the attention weights of a layer: `attention-weights data/quickstart.json`.

#include <mha/load/load.hpp>
#include <mha/observe/trace.hpp>

#include <cstdio>

namespace {

void print_weights(const mha::Layer& layer) {
  // Stages are computed when somebody wants them; a Trace keeps what it sees.
  const mha::Trace trace = mha::trace(layer, {mha::Stage::weights});
  const mha::Tensor& weights = trace.value(mha::Stage::weights); // (B,) H, T, S
  const mha::Dims& dims = layer.dims;
  for (std::size_t h = 0; h < dims.B * dims.H; ++h) {
    std::printf("head %zu\n", h);
    for (std::size_t i = 0; i < dims.T; ++i) {
      for (std::size_t j = 0; j < dims.S_all; ++j)
        std::printf(" %.4f", mha::value_at(weights, (h * dims.T + i) * dims.S_all + j));
      std::printf("\n");
    }
  }
}

} // namespace

int main(int count, char** words) {
  try {
    mha::Request request;
    request.sources.assign(words + 1, words + count);
    const mha::Model model(request);
    for (const std::string& id : model.chosen()) print_weights(model.load(id).layer);
  } catch (const mha::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
