#include "support/library_input.hpp"
#include "support/sanitizers.hpp"
#include "unit/formats/support.hpp"
#include <mha/formats/formats.hpp>
#include <mha/observe/compute.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <mutex>
#include <numeric>

// What is held, and for how long.

using namespace mha;

namespace {

/// How much of the mapping that an address is in is in memory, in MiB; 0 where nothing is mapped.
/// Of the whole process the system takes pages away when it likes.
double held_mib(std::uintptr_t address) {
  std::ifstream smaps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long long begin = 0, end = 0, kib = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &begin, &end) == 2)
      inside = begin <= address && address < end;
    else if (inside && std::sscanf(line.c_str(), "Rss: %llu kB", &kib) == 1)
      return static_cast<double>(kib) / 1024;
  }
  return 0;
}

/// The tensors of a layer by name, and whether somebody still holds them.
class Held {
public:
  void take(const std::string& name, Tensor& tensor) {
    if (tensor.empty()) return;
    const auto memory = std::make_shared<Tensor>(tensor);
    held_.emplace_back(name, memory);
    tensor = Tensor(tensor.dtype(), tensor.shape(), {memory, memory->raw()});
  }
  std::vector<std::string> names() const {
    std::vector<std::string> list;
    for (const auto& [name, memory] : held_)
      if (!memory.expired()) list.push_back(name);
    return list;
  }

private:
  std::vector<std::pair<std::string, std::weak_ptr<Tensor>>> held_;
};

/// What was held when a stage's first piece was shown.
class Looks : public Observer {
public:
  Looks(const Held& held, std::vector<Stage> stages) : held_(held), stages_(std::move(stages)) {}
  StageSet wants() const override {
    StageSet set;
    for (Stage stage : stages_) set.add(stage);
    return set;
  }
  void observe(const Slice& block) override {
    const std::lock_guard hold(lock_);
    seen.try_emplace(block.stage, held_.names());
  }
  std::map<Stage, std::vector<std::string>> seen;

private:
  const Held& held_;
  std::vector<Stage> stages_;
  std::mutex lock_;
};

using Names = std::vector<std::string>;

} // namespace

TEST_CASE("a tensor of a layer is held until nothing more is made of it") {
  const bool residual = GENERATE(false, true);
  RandomLayer random =
      random_layer(11, residual ? std::vector{Variant::residual} : std::vector<Variant>{}, false);
  random.form.one_source = false;
  Layer layer = library_layer(random.layer, random.form);
  Held held;
  for (const auto& [name, tensor] : {std::pair("X", &layer.X),
                                     {"X_k", &layer.X_k},
                                     {"X_v", &layer.X_v},
                                     {"W_q", &layer.W_q},
                                     {"W_k", &layer.W_k},
                                     {"W_v", &layer.W_v},
                                     {"W_o", &layer.W_o}})
    held.take(name, *tensor);
  const Names all = held.names();
  const auto without = [&](const Names& gone) {
    Names rest = all;
    std::erase_if(rest,
                  [&](const std::string& name) { return std::ranges::count(gone, name) > 0; });
    return rest;
  };

  SECTION("who keeps the layer keeps them") {
    Looks looks(held, {Stage::weights});
    compute(layer, make_plan(layer, looks.wants()), looks, 2);
    CHECK(looks.seen.at(Stage::weights) == all);
    CHECK(held.names() == all);
  }
  SECTION("weights are made of q and k alone") {
    Looks looks(held, {Stage::q, Stage::weights});
    const Plan plan = make_plan(layer, looks.wants());
    compute(std::move(layer), plan, looks, 2);
    CHECK(looks.seen.at(Stage::q) == without({"X_v", "W_v", "W_o"}));
    CHECK(looks.seen.at(Stage::weights).empty());
    CHECK(held.names().empty());
  }
  SECTION("the output needs W_o, the residual X, too") {
    const Stage last = residual ? Stage::residual : Stage::output;
    Looks looks(held, {Stage::v, Stage::weights, last});
    const Plan plan = make_plan(layer, looks.wants());
    compute(std::move(layer), plan, looks, 2);
    CHECK(looks.seen.at(Stage::v) == all);
    CHECK(looks.seen.at(Stage::weights) == (residual ? Names{"X", "W_o"} : Names{"W_o"}));
    CHECK(held.names().empty());
  }
}

TEST_CASE("a past of keys and values is held until it lies among all of them") {
  const RandomLayer random = random_layer(3, std::vector{Variant::past}, false);
  Layer layer = library_layer(random.layer, random.form);
  Held held;
  held.take("k_past", layer.k_past), held.take("v_past", layer.v_past);
  REQUIRE(held.names().size() == 2);
  Looks looks(held, {Stage::output});
  const Plan plan = make_plan(layer, looks.wants());
  compute(std::move(layer), plan, looks, 2);
  CHECK(looks.seen.at(Stage::output).empty());
}

TEST_CASE("what nobody holds any more leaves memory") {
  constexpr std::size_t mib = 64, numbers = (mib << 20) / sizeof(float);
  std::uintptr_t address = 0;
  const auto hold = [&](const Tensor& X) {
    address = reinterpret_cast<std::uintptr_t>(X.as<float>().data());
    CHECK(held_mib(address) > 0.5 * mib);
  };
  SECTION("an array where it lies in a mapped file") {
    const io::test::Folder folder;
    const std::string path = folder / "X.npy";
    io::test::write(path, "", {{"X", Tensor(DType::f32, {numbers})}});
    const io::Contents file = io::open(path);
    for (int time = 0; time < 2; ++time) {
      {
        const Tensor X = file.find("X")->read();
        const std::span<const float> values = X.as<float>();
        CHECK(std::accumulate(values.begin(), values.end(), 0.0F) == 0);
        hold(X);
      }
      CHECK(held_mib(address) < 0.1 * mib);
    }
  }
  SECTION("an array that files are read into") {
    if (sanitized) return; // they keep what is freed for a while
    {
      Tensor X(DType::f32, {numbers});
      std::ranges::fill(X.as_mutable<float>(), 1.0F);
      hold(X);
    }
    CHECK(held_mib(address) < 0.1 * mib);
  }
}
