// A layer's fingerprint: no number of it can change without changing it.

#include <mha/layer/fingerprint.hpp>
#include <mha/layer/members.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <set>

using namespace mha;

namespace {

Tensor numbers(const Shape& shape, float first) {
  std::vector<float> values(count_of(shape));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<float>(i);
  return Tensor::of<float>(shape, values);
}

/// A layer that has a little of everything.
Layer full_layer() {
  Layer layer;
  layer.dims.T = layer.dims.S = 3;
  layer.X = numbers({1, 3, 2}, 1), layer.W_q = numbers({2, 2}, 5);
  layer.added.push_back({numbers({3, 3}, 0), {0, 0, 3, 1}, 0, 3, "mask.npy", "mask"});
  layer.kv_lengths = {3}, layer.lengths = {2};
  ResolvedEdit patch;
  patch.text = "q = 1", patch.value = numbers({1}, 1);
  layer.patches.add(patch);
  TransformerBlock block;
  block.pre_mlp_norm = {InputNorm::layer, 1e-5, numbers({2}, 1), numbers({2}, 2), false};
  block.mlp.in = {numbers({2, 4}, 1), numbers({4}, 3)};
  block.mlp.out = {numbers({4, 2}, 1), {}};
  layer.block = std::make_shared<TransformerBlock>(block);
  ModelEnds ends;
  ends.embed = numbers({1, 3, 2}, 4);
  ends.head.decoder = {numbers({2, 7}, 1), {}};
  layer.ends = std::make_shared<ModelEnds>(ends);
  return layer;
}

/// Changes the number `target` of all that a value holds, counted in `at`, by as little as it can
/// be.
class Change {
public:
  explicit Change(std::size_t target) : target_(target) {}
  bool done() const { return done_; }

  template <class T> void operator()(T& part) {
    if constexpr (std::is_same_v<T, Tensor>)
      here([&] {
        if (part.empty()) {
          part = numbers({2}, 1);
          return;
        }
        part = copy_of(view_of(part));
        part.raw_mutable()[part.bytes() - 4] ^= std::byte{1}; // one bit of the last number
      });
    else if constexpr (std::is_same_v<T, std::string>)
      here([&] { part += '2'; });
    else if constexpr (std::is_same_v<T, Settings>)
      for (const SettingInfo& info : settings_table())
        here([&] { info.set(part, other_value(info, part)); });
    else if constexpr (std::is_same_v<T, bool>)
      here([&] { part = !part; });
    else if constexpr (std::is_same_v<T, StageSet>)
      for (const Stage stage : StageSet::all())
        here([&] { contains(part, stage) ? part.remove(stage) : part.add(stage); });
    else if constexpr (std::is_enum_v<T>)
      here([&] { part = static_cast<T>(static_cast<int>(part) + 1); });
    else if constexpr (std::is_same_v<T, double>)
      here([&] { part = std::nextafter(part, 1e9); });
    else if constexpr (std::is_integral_v<T>)
      here([&] { part += 1; });
    else if constexpr (requires { part.use_count(); }) {
      using Pointed = std::remove_const_t<typename T::element_type>;
      here([&] {
        if (part)
          part = nullptr;
        else
          part = std::make_shared<Pointed>();
      });
      if (!part) return;
      auto copy = std::make_shared<Pointed>(*part);
      each_member(*copy, [&](auto& member) { (*this)(member); });
      part = copy;
    } else if constexpr (requires { part.emplace_back(); }) {
      for (auto& one : part) (*this)(one);
      here([&] { part.emplace_back(); });
    } else if constexpr (requires { part.size(); }) { // of a fixed length
      for (auto& one : part) (*this)(one);
    } else
      each_member(part, [&](auto& member) { (*this)(member); });
  }

private:
  template <class Edit> void here(const Edit& edit) {
    if (at_++ == target_) edit(), done_ = true;
  }
  /// A value that the setting does not have.
  static std::string other_value(const SettingInfo& info, const Settings& settings) {
    const std::string now = info.get(settings);
    switch (info.kind) {
    case SettingKind::boolean:
      return now == "true" ? "false" : "true";
    case SettingKind::choice:
      if (info.name == "mrope_section") return "1,2,3";
      for (std::string_view words = info.values; !words.empty();) {
        const std::string word(words.substr(0, words.find('|')));
        if (word != "NUMBER" && word != now && word.find("...") == std::string::npos) return word;
        words.remove_prefix(std::min(words.size(), word.size() + 1));
      }
      return "";
    default:
      return now == "3" ? "4" : "3";
    }
  }

  std::size_t target_, at_ = 0;
  bool done_ = false;
};

} // namespace

TEST_CASE("fingerprint: whatever decides a layer's numbers changes it") {
  const Layer layer = full_layer();
  std::set<std::string> seen{Fingerprint().add(layer).text()};
  std::size_t target = 0;
  for (;; ++target) {
    Layer changed = layer;
    Change change(target);
    each_part_of_layer(changed, [&](std::string_view, auto& part) { change(part); });
    if (!change.done()) break;
    INFO("change " << target);
    CHECK(seen.insert(Fingerprint().add(changed).text()).second);
  }
  CHECK(target > 200);
}

TEST_CASE("fingerprint: labels and the way of a result decide nothing") {
  Layer layer = full_layer();
  const std::string before = Fingerprint().add(layer).text();
  layer.tokens = {"a", "b", "c"}, layer.missing_X = "; X";
  CHECK(Fingerprint().add(layer).text() == before);
}

TEST_CASE("fingerprint: the embedding decides what enters the first layer") {
  Embedding embedding;
  embedding.tokens = numbers({4, 2}, 1);
  std::set<std::string> seen{Fingerprint().add(embedding).text()};
  const auto changed = [&](const auto& edit) {
    Embedding other = embedding;
    edit(other);
    CHECK(seen.insert(Fingerprint().add(other).text()).second);
  };
  changed([](Embedding& e) { e.tokens = numbers({4, 2}, 2); });
  changed([](Embedding& e) { e.positions = numbers({4, 2}, 2); });
  changed([](Embedding& e) { e.types = numbers({1, 2}, 2); });
  changed([](Embedding& e) { e.first_position = 2; });
  changed([](Embedding& e) { e.pad = 1; });
  changed([](Embedding& e) { e.scale = 2; });
  changed([](Embedding& e) { e.norm.kind = InputNorm::rms; });
  changed([](Embedding& e) { e.projection.W = numbers({2, 3}, 2); });
  changed([](Embedding& e) { e.projection.b = numbers({3}, 2); });
  changed([](Embedding& e) { e.projection_place = ProjectionPlace::sum; });
}
