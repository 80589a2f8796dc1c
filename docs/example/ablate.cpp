// What each head of a layer does: the loss of a text without it, less the loss with it.
#include <mha/mha.hpp>

#include <cstdio>

int main(int count, char** words) try {
  if (count != 4) throw mha::Error("a checkpoint, a text and a layer are expected");
  const mha::Model model(words[1], {.dtype = mha::DType::f64});
  const mha::Run clean = model.run(model.tokens(words[2]));
  for (std::size_t h = 0; h < model.dims(words[3]).H; ++h) {
    const mha::Run without = clean.with({mha::Patch::zero({mha::Stage::head_result, words[3], h})});
    std::printf("%zu %+.4f\n", h, without.loss() - clean.loss());
  }
} catch (const mha::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
