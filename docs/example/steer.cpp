// Steering: what one text adds to another's stream, and what the model then predicts.
#include <mha/mha.hpp>

#include <iostream>

int main(int count, char** words) try {
  if (count != 4) throw mha::Error("a checkpoint, a text and the text to steer by are expected");
  const mha::Model model(words[1]);
  const mha::Run clean = model.run(model.tokens(words[2])),
                 other = model.run(model.tokens(words[3]));
  const mha::Tensor stream = other.resid(2); // T, d_model: before layer 2
  const mha::Tensor direction = stream.at(stream.shape()[0] - 1);
  const mha::Run steered = clean.with({{"layers.1.resid_post +=", direction}});
  for (const mha::Run& run : {clean, steered}) {
    for (const mha::Predicted& token : run.predictions(-1, 3)) std::cout << token.id << ' ';
    std::cout << '\n';
  }
} catch (const mha::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
