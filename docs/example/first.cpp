#include <iostream>
#include <mha/xtensor.hpp>
#include <xtensor/xio.hpp>

int main() { // the weights of every head: H × T × S
  const mha::Cache cache = mha::run(mha::load("data/quickstart.json"));
  std::cout << cache.get<double>("weights") << '\n';
}
