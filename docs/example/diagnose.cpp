#include <iostream>
#include <mha/diagnose.hpp> // What another implementation of a model does otherwise.

int main(int count, char** words) try {
  if (count != 4) throw mha::Error("a checkpoint, a text and a file of saved stages are expected");
  const mha::Model model(words[1]);
  const mha::Findings found = mha::diagnose(model, model.tokens(words[2]), {.files = {words[3]}});
  for (const mha::Finding& place : found.places)
    for (const mha::FoundCause& cause : place.causes)
      std::cout << place.place << ": " << cause.change << ": " << cause.option << '\n';
  return found.explained ? 0 : 1;
} catch (const mha::Error& error) {
  return std::cerr << error.what() << '\n', 2;
}
