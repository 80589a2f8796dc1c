// The elementary functions against values of 300 bits (make_values.py), at the ends of their
// domains, and bit by bit.

#include <mha/maths/functions.hpp>

#include "support/places.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

using namespace mha;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Known {
  double x, y, value, rest; ///< the value is value + rest units of its last place
};

std::map<std::string, std::vector<Known>> known_values() {
  std::ifstream file(test::source_folder() + "/tests/unit/maths/values.tsv");
  std::map<std::string, std::vector<Known>> functions;
  for (std::string line, name, x, y, value, rest; std::getline(file, line);) {
    std::istringstream(line) >> name >> x >> y >> value >> rest;
    const auto number = [](const std::string& text) { return std::strtod(text.c_str(), nullptr); };
    functions[name].push_back({number(x), number(y), number(value), number(rest)});
  }
  return functions;
}

/// The distance from |x| to the next larger number of its type.
template <class T> double unit_at(T x) {
  x = std::fabs(x);
  return static_cast<double>(std::nextafter(x, std::numeric_limits<T>::infinity())) -
         static_cast<double>(x);
}

/// How far a result is from a known value, in units of the result's last place.
template <class T> double error_of(T result, const Known& known) {
  const double unit = unit_at(static_cast<T>(known.value));
  const double whole = (static_cast<double>(result) - known.value) / unit;
  return std::fabs(whole - known.rest * (unit_at(known.value) / unit));
}

using Double = std::function<double(double, double)>;
struct Function {
  const char* name;
  Double ours, theirs;
  double most; ///< units of the last place, measured over 10⁵ arguments a range
};

const std::vector<Function>& functions() {
  static const std::vector<Function> list{
      {"exp", [](double x, double) { return maths::exp(x); },
       [](double x, double) { return std::exp(x); }, 0.503},
      {"exp2", [](double x, double) { return maths::exp2(x); },
       [](double x, double) { return std::exp2(x); }, 0.503},
      {"log", [](double x, double) { return maths::log(x); },
       [](double x, double) { return std::log(x); }, 0.502},
      {"log1p", [](double x, double) { return maths::log1p(x); },
       [](double x, double) { return std::log1p(x); }, 0.503},
      {"sin", [](double x, double) { return maths::sin(x); },
       [](double x, double) { return std::sin(x); }, 0.507},
      {"cos", [](double x, double) { return maths::cos(x); },
       [](double x, double) { return std::cos(x); }, 0.507},
      {"erf", [](double x, double) { return maths::erf(x); },
       [](double x, double) { return std::erf(x); }, 0.63},
      {"tanh", [](double x, double) { return maths::tanh(x); },
       [](double x, double) { return std::tanh(x); }, 0.53},
      {"pow", [](double x, double y) { return maths::pow(x, y); },
       [](double x, double y) { return std::pow(x, y); }, 0.505},
  };
  return list;
}

template <class T> T row_of_one(void (*row)(T*, std::size_t, T), T x) {
  row(&x, 1, T(1));
  return x;
}

struct FloatFunction {
  const char* name;
  std::function<float(float)> ours, theirs;
};

const std::vector<FloatFunction>& float_functions() {
  static const std::vector<FloatFunction> list{
      {"exp", [](float x) { return maths::exp(x); }, [](float x) { return std::exp(x); }},
      {"log", [](float x) { return maths::log(x); }, [](float x) { return std::log(x); }},
      {"log1p", [](float x) { return maths::log1p(x); }, [](float x) { return std::log1p(x); }},
      {"erf", [](float x) { return row_of_one(maths::erf_row<float>, x); },
       [](float x) { return std::erf(x); }},
      {"tanh", [](float x) { return row_of_one(maths::tanh_row<float>, x); },
       [](float x) { return std::tanh(x); }},
  };
  return list;
}

/// Numbers of both signs and of sizes from 2^−range to 2^range, made of integers alone.
class Arguments {
public:
  explicit Arguments(int range) : range_(static_cast<std::uint64_t>(range)) {}
  double next() {
    state_ = state_ * 6364136223846793005 + 1442695040888963407;
    const std::uint64_t random = state_ >> 12; // 52 bits
    const std::uint64_t power = 1023 - range_ + (state_ >> 3) % (2 * range_ + 1);
    return std::bit_cast<double>((state_ & 1) << 63 | power << 52 | random);
  }

private:
  std::uint64_t range_, state_ = 56;
};

/// FNV-1a over a number's bits; NaN has one form.
template <class T> void add_bits(std::uint64_t& hash, T x) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  hash = (hash ^ (std::isnan(x) ? 1 : std::bit_cast<Bits>(x))) * 1099511628211;
}

} // namespace

TEST_CASE("elementary functions in double are next to correctly rounded", "[maths]") {
  const auto known = known_values();
  for (const Function& function : functions()) {
    const std::vector<Known>& rows = known.at(function.name);
    REQUIRE(rows.size() >= 90);
    double worst = 0, theirs = 0;
    for (const Known& row : rows) {
      INFO(function.name << " of " << row.x << ", " << row.y);
      const double error = error_of(function.ours(row.x, row.y), row);
      CHECK(error <= function.most);
      worst = std::max(worst, error);
      theirs = std::max(theirs, error_of(function.theirs(row.x, row.y), row));
    }
    INFO(function.name << ": " << worst << " units, the C library " << theirs);
    CHECK(worst <= theirs + 0.006);
  }
}

TEST_CASE("elementary functions in float are the exact values, rounded", "[maths]") {
  const auto known = known_values();
  for (const FloatFunction& function : float_functions()) {
    std::size_t seen = 0;
    double worst = 0, theirs = 0;
    for (const Known& row : known.at(function.name)) {
      const auto x = static_cast<float>(row.x);
      if (static_cast<double>(x) != row.x || std::fabs(row.value) > 3e38) continue;
      ++seen;
      INFO(function.name << " of " << row.x);
      const double error = error_of(function.ours(x), row);
      CHECK(error <= 0.5005);
      worst = std::max(worst, error);
      theirs = std::max(theirs, error_of(function.theirs(x), row));
    }
    INFO(function.name << ": " << worst << " units, the C library " << theirs);
    CHECK(seen >= 30);
    CHECK(worst <= theirs + 0.001);
  }
}

TEST_CASE("elementary functions keep to their domains", "[maths]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double tiny = std::numeric_limits<double>::denorm_min();
  for (const Function& function : functions())
    for (double x : {0.0, -0.0, 1.0, -1.0, infinity, -infinity, nan, tiny, -tiny, 1e308, -1e308})
      for (double y : {2.0, 0.0, -0.0, 3.0, -3.0, 0.5, -0.5, infinity, -infinity, nan}) {
        INFO(function.name << " of " << x << ", " << y);
        const double ours = function.ours(x, y), theirs = function.theirs(x, y);
        if (std::isnan(theirs))
          CHECK(std::isnan(ours));
        else if (theirs == 0 || std::isinf(theirs))
          CHECK(std::bit_cast<std::uint64_t>(ours) == std::bit_cast<std::uint64_t>(theirs));
        else
          CHECK(std::fabs(ours - theirs) <= 3 * unit_at(theirs));
      }
  for (const FloatFunction& function : float_functions())
    for (double x : {0.0, -0.0, 1.0, -1.0, infinity, -infinity, nan, 1e-45, -1e-45, 3e38, -3e38,
                     -103.97, -103.98, 88.72, 88.73, -87.4}) {
      INFO(function.name << " in float of " << x);
      const float ours = function.ours(static_cast<float>(x)),
                  theirs = function.theirs(static_cast<float>(x));
      if (std::isnan(theirs))
        CHECK(std::isnan(ours));
      else if (theirs == 0 || std::isinf(theirs))
        CHECK(std::bit_cast<std::uint32_t>(ours) == std::bit_cast<std::uint32_t>(theirs));
      else
        CHECK(std::fabs(static_cast<double>(ours) - static_cast<double>(theirs)) <=
              2 * unit_at(theirs));
    }
  CHECK(maths::exp(709.782712893384) < infinity);
  CHECK(maths::exp(709.78271289338409) == infinity);
  CHECK(maths::exp(-745.1332191019411) == tiny);
  CHECK(maths::exp(-745.1332191019412) == 0);
}

TEST_CASE("growing functions never fall where one polynomial follows another", "[maths]") {
  for (const char* name : {"exp", "log", "log1p", "erf", "tanh"}) {
    const auto function =
        std::find_if(functions().begin(), functions().end(),
                     [&](const Function& f) { return f.name == std::string(name); });
    // Borders are at odd multiples of 1/64, of ln 2 / 512, and of 1/256.
    for (const double step : {1.0 / 64, 0.69314718055994530942 / 512, 1.0 / 256})
      for (int i = 1; i < 1300; ++i) {
        double x = i * step;
        for (int before = 0; before < 4; ++before) x = std::nextafter(x, 0);
        double last = function->ours(x, 0);
        for (int after = 0; after < 8; ++after) {
          x = std::nextafter(x, infinity);
          const double next = function->ours(x, 0);
          if (!(next >= last)) FAIL_CHECK(name << " falls at " << x);
          last = next;
        }
      }
  }
}

TEST_CASE("a function of a row is that of its elements", "[maths]") {
  Arguments arguments(4);
  for (const std::size_t n : std::initializer_list<std::size_t>{1, 2, 3, 8, 33}) {
    std::vector<double> x(n), exps, erfs, tanhs;
    for (double& each : x) each = arguments.next();
    std::vector<float> f(x.begin(), x.end()), float_exps = f;
    exps = erfs = tanhs = x;
    maths::exp_row(exps.data(), n);
    maths::exp_row(float_exps.data(), n);
    maths::erf_row(erfs.data(), n, 0.7);
    maths::tanh_row(tanhs.data(), n, 0.7);
    for (std::size_t i = 0; i < n; ++i) {
      CHECK(exps[i] == maths::exp(x[i]));
      CHECK(float_exps[i] == maths::exp(f[i]));
      CHECK(erfs[i] == maths::erf(x[i] * 0.7));
      CHECK(tanhs[i] == maths::tanh(x[i] / 0.7));
    }
  }
}

TEST_CASE("elementary functions have these bits on every machine", "[maths][bits]") {
  const std::map<std::string, std::uint64_t> in_double{
      {"exp", 0x8e02f37bc5de7979},   {"exp2", 0x48eb0e479380f057}, {"log", 0xaf13d146c3518083},
      {"log1p", 0x99d7d2d18085b8d2}, {"sin", 0x9f5ddcb67d796d7d},  {"cos", 0xf593b16b8f361171},
      {"erf", 0x5f72d4f33ad7e5a9},   {"tanh", 0x4d3b3e0cf33b2fe3}, {"pow", 0x09e835f60c1bf485}};
  const std::map<std::string, std::uint64_t> in_float{{"exp", 0x09af4a19eed3109c},
                                                      {"log", 0x1cc5d44e30c3d1d8},
                                                      {"log1p", 0xf686805c5c9b635b},
                                                      {"erf", 0x70bfa6d1d55b654f},
                                                      {"tanh", 0x248f900d3d383c4b}};
  for (const Function& function : functions()) {
    Arguments arguments(function.name == std::string("pow") ? 8 : 40);
    std::uint64_t hash = 14695981039346656037u;
    for (int i = 0; i < 20000; ++i) {
      const double x = arguments.next(), y = arguments.next();
      add_bits(hash, function.ours(x, y));
      add_bits(hash, function.ours(std::fabs(x), y));
    }
    INFO(function.name);
    CHECK(hash == in_double.at(function.name));
  }
  for (const FloatFunction& function : float_functions()) {
    Arguments arguments(20);
    std::uint64_t hash = 14695981039346656037u;
    for (int i = 0; i < 20000; ++i) {
      const auto x = static_cast<float>(arguments.next());
      add_bits(hash, function.ours(x));
      add_bits(hash, function.ours(std::fabs(x)));
    }
    INFO(function.name << " in float");
    CHECK(hash == in_float.at(function.name));
  }
}
