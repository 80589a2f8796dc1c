#include <mha/system/short_list.hpp>

#include <catch2/catch.hpp>

#include <random>
#include <vector>

using namespace mha;

TEST_CASE("a short list: what is done to it leaves what it leaves of a vector") {
  std::mt19937_64 engine(3);
  for (int run = 0; run < 500; ++run) {
    ShortList<int, 3> list;
    std::vector<int> vector;
    for (int step = 0; step < 40; ++step) {
      const auto value = static_cast<int>(engine() % 5);
      switch (engine() % 6) {
      case 0:
      case 1:
        list.push_back(value), vector.push_back(value);
        break;
      case 2: // of itself
        if (!vector.empty()) list.push_back(list[0]), vector.push_back(int{vector[0]});
        break;
      case 3:
        list.remove([&](int one) { return one == value; });
        std::erase(vector, value);
        break;
      case 4: {
        ShortList<int, 3> copy(list), moved(std::move(list));
        list = step % 2 == 0 ? copy : std::move(moved);
        break;
      }
      default:
        if (engine() % 8 == 0) {
          const std::size_t n = engine() % 7;
          list = ShortList<int, 3>(n, value), vector.assign(n, value);
        }
      }
      REQUIRE(list.size() == vector.size());
      REQUIRE(list.empty() == vector.empty());
      REQUIRE(std::vector<int>(list.begin(), list.end()) == vector);
      if (!vector.empty()) REQUIRE(list.back() == vector.back());
    }
  }
}
