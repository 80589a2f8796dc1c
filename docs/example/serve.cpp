// A server: threads that share one model, each line of the input a request.
#include <mha/mha.hpp>

#include <iostream>
#include <thread>

int main(int, char** words) try {
  const mha::Model model(words[1]);
  std::vector<std::string> lines, answers;
  for (std::string line; std::getline(std::cin, line);) lines.push_back(line);
  answers.resize(lines.size());
  const auto answer = [&](std::size_t first) { // every second line
    for (std::size_t i = first; i < lines.size(); i += 2)
      answers[i] = model.run(model.tokens(lines[i]), {.threads = 1}).predictions()[0].piece;
  };
  {
    const std::jthread one([&] { answer(0); }), two([&] { answer(1); });
  }
  for (const std::string& each : answers) std::cout << each << '\n';
} catch (const mha::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
