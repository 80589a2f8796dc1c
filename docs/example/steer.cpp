#include <iostream>
#include <mha/mha.hpp> // One text's stream added to another's, and what the model then predicts.

int main(int count, char** words) try {
  if (count != 4) throw mha::Error("a checkpoint, a text and the text to steer by are expected");
  const mha::Model model(words[1]);
  const mha::Run clean = model.run(model.tokens(words[2]));
  const mha::Tensor by = model.run(model.tokens(words[3])).resid(2); // T, d_model: before layer 2
  for (auto& run : {clean, clean.with({{"layers.1.resid_post +=", by.at(by.shape()[0] - 1)}})}) {
    for (const mha::Predicted& token : run.predictions(-1, 3)) std::cout << token.id << ' ';
    std::cout << '\n';
  }
} catch (const mha::Error& error) {
  return std::cerr << error.what() << '\n', 1;
}
