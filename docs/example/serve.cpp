#include <future>
#include <iostream>
#include <mha/mha.hpp> // Each line of the input is a request; a thread each, and one model for all.

int main(int count, char** words) try {
  const mha::Model model(count == 2 ? words[1] : throw mha::Error("a checkpoint is expected"));
  std::vector<std::future<std::string>> answers;
  for (std::string line; std::getline(std::cin, line);)
    answers.push_back(std::async(std::launch::async, [&model, line] {
      return model.run(model.tokens(line), {.threads = 1}).predictions()[0].piece;
    }));
  for (auto& answer : answers) std::cout << answer.get() << '\n';
} catch (const mha::Error& error) {
  return std::cerr << error.what() << '\n', 1;
}
