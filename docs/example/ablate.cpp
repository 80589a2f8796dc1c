#include <cstdio>
#include <mha/mha.hpp> // A text's loss without each head, less the loss with it.

int main(int count, char** words) try {
  if (count != 3) throw mha::Error("a checkpoint and a text are expected");
  const mha::Model model(words[1], {.dtype = mha::DType::f64});
  const mha::Run clean = model.run(model.tokens(words[2]));
  for (std::size_t n = 0; n < model.layers(); ++n)
    for (std::size_t h = 0; h < model.dims(n).H; ++h) {
      const mha::Run without = clean.with({mha::Patch::zero({mha::Stage::head_result, n, h})});
      std::printf("%zu.%zu %+.4f\n", n, h, without.loss() - clean.loss());
    }
} catch (const mha::Error& error) {
  return std::fprintf(stderr, "%s\n", error.what()), 1;
}
