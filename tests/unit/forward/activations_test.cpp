// What bends a feed-forward's numbers, against values computed apart from lib/ (Python's math.erfc
// and math.exp in float64).

#include <mha/forward/feed_forward.hpp>

#include <catch2/catch.hpp>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

using namespace mha;

namespace {

struct Point {
  double x, gelu, tanh, quick, silu;
};

constexpr std::array points{
    Point{-20.0, -5.5072482372126629e-88, -3.3754509563110999e-261, -3.2934102413993747e-14,
          -4.1223072363804073e-08},
    Point{-6.0, -5.9195258702262067e-09, -8.4396467007623099e-11, -0.00022035354978739246,
          -0.014835738939808647},
    Point{-3.0, -0.004049694094890287, -0.0036373920817730191, -0.018071309707785969,
          -0.14227761953270035},
    Point{-1.0, -0.15865525393145707, -0.15880800939172326, -0.1542042340671787,
          -0.2689414213699951},
    Point{-0.5, -0.15426876936299344, -0.15428599017485609, -0.14961156339361989,
          -0.1887703343990727},
    Point{-0.001, -0.00049960105778608897, -0.00049960105778641803, -0.00049957450010271577,
          -0.00049975000002083336},
    Point{0.001, 0.00050039894221391105, 0.00050039894221358199, 0.00050042549989728414,
          0.00050024999997916667},
    Point{0.5, 0.34573123063700656, 0.34571400982514394, 0.35038843660638014, 0.3112296656009273},
    Point{1.0, 0.84134474606854293, 0.84119199060827676, 0.84579576593282124, 0.7310585786300049},
    Point{3.0, 2.9959503059051098, 2.9963626079182273, 2.981928690292214, 2.8577223804672998},
    Point{6.0, 5.9999999940804738, 5.9999999999156035, 5.9997796464502136, 5.9851642610601923},
    Point{20.0, 20, 20, 19.999999999999968, 19.999999958776925},
};

template <class T> std::vector<T> activated(Activation activation, const std::vector<T>& x) {
  std::vector<T> y(x.size());
  activate<T>(activation, Matrix<const T>{x.data(), 1, x.size(), x.size()},
              Matrix<T>{y.data(), 1, y.size(), y.size()});
  return y;
}

/// The largest error in units of the type's spacing at the larger of 1 and |x|.
template <class T> double error(Activation activation, double Point::*expected) {
  std::vector<T> x;
  for (const Point& point : points) x.push_back(static_cast<T>(point.x));
  const std::vector<T> y = activated(activation, x);
  double worst = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const double unit = static_cast<double>(std::numeric_limits<T>::epsilon()) *
                        std::max(1.0, std::abs(points[i].x));
    worst = std::max(worst, std::abs(static_cast<double>(y[i]) - points[i].*expected) / unit);
  }
  return worst;
}

template <class T> void check_all() {
  CHECK(error<T>(Activation::gelu, &Point::gelu) <= 2);
  CHECK(error<T>(Activation::gelu_tanh, &Point::tanh) <= 2);
  CHECK(error<T>(Activation::gelu_fast, &Point::tanh) <= 2); // its root is rounded to ten digits
  CHECK(error<T>(Activation::gelu_quick, &Point::quick) <= 2);
  CHECK(error<T>(Activation::silu, &Point::silu) <= 2);
}

} // namespace

TEST_CASE("activations: gelu exact, by tanh and quick, and silu, in both precisions") {
  check_all<float>();
  CHECK(error<double>(Activation::gelu, &Point::gelu) <= 2);
  CHECK(error<double>(Activation::gelu_tanh, &Point::tanh) <= 2);
  CHECK(error<double>(Activation::gelu_quick, &Point::quick) <= 2);
  CHECK(error<double>(Activation::silu, &Point::silu) <= 2);
}

TEST_CASE("activations: the three gelus are three functions") {
  const std::vector<double> x{-1.5};
  const double exact = activated(Activation::gelu, x)[0],
               tanh = activated(Activation::gelu_tanh, x)[0],
               fast = activated(Activation::gelu_fast, x)[0],
               quick = activated(Activation::gelu_quick, x)[0];
  CHECK(std::abs(exact - tanh) > 1e-5);
  CHECK(std::abs(exact - tanh) < 1e-3);
  CHECK(std::abs(exact - quick) > 1e-3);
  CHECK(fast != tanh); // 0.7978845608 is not √(2/π)
  CHECK(std::abs(fast - tanh) < 1e-10);
}

TEST_CASE("activations: relu, identity, and numbers that are none") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const std::vector<double> x{-2, -0.0, 0.25, inf, -inf};
  CHECK(activated(Activation::relu, x) == std::vector<double>{0, 0, 0.25, inf, 0});
  CHECK(activated(Activation::relu2, x) == std::vector<double>{0, 0, 0.0625, inf, 0});
  CHECK(activated(Activation::identity, x) == x);
  for (Activation one : {Activation::relu, Activation::relu2, Activation::silu, Activation::gelu,
                         Activation::gelu_tanh, Activation::gelu_quick})
    CHECK(std::isnan(activated(one, std::vector<double>{nan})[0]));
}

TEST_CASE("activations: solu is x softmax(x) over the row") {
  const std::vector<double> y = activated(Activation::solu, std::vector<double>{-1, 0.5, 2, 3});
  const std::array expected{-0.012474213302103306, 0.027952772708551045, 0.5011025437342295,
                            2.04320690824104};
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(y[i] == Approx(expected[i]).epsilon(1e-14));
}

TEST_CASE("activations: every name of Transformers means what its code computes") {
  CHECK(activation_named("gelu") == Activation::gelu);
  CHECK(activation_named("gelu_python") == Activation::gelu);
  CHECK(activation_named("gelu_new") == Activation::gelu_tanh);
  CHECK(activation_named("gelu_pytorch_tanh") == Activation::gelu_tanh);
  CHECK(activation_named("gelu_fast") == Activation::gelu_fast);
  CHECK(activation_named("quick_gelu") == Activation::gelu_quick);
  CHECK(activation_named("swish") == Activation::silu);
  CHECK(activation_named("relu2") == Activation::relu2);
  CHECK_FALSE(activation_named("mish"));
}
