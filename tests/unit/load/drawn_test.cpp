// Checkpoints drawn at random from the names that every family knows: shapes that fit and shapes
// that do not, names left out, configurations of any values. Whatever they are: computed, or
// refused in one line. The long run takes 20,000 of each family: unit-tests '[.mutations]'.

#include "support/damage.hpp"
#include "support/places.hpp"
#include "support/sanitizers.hpp"
#include "unit/formats/support.hpp"
#include <mha/files/text.hpp>
#include <mha/load/families/family.hpp>

#include <catch2/catch.hpp>

#include <regex>
#include <set>

#include <nlohmann/json.hpp>

using namespace mha;
using nlohmann::json;

namespace {

constexpr std::size_t d_model = 12, heads = 3, d = 4;

class Draw {
public:
  explicit Draw(std::mt19937& bits) : bits_(bits) {}
  std::size_t below(std::size_t n) { return bits_() % n; }
  bool one_in(std::size_t n) { return below(n) == 0; }
  template <class List> const auto& of(const List& list) {
    return *std::next(std::begin(list), static_cast<long>(below(std::size(list))));
  }

private:
  std::mt19937& bits_;
};

/// Every word in quotes of the families' sources: keys and values of config.json, names of modules.
const std::set<std::string>& words() {
  static const std::set<std::string> all = [] {
    std::set<std::string> found;
    const std::regex quoted("\"([A-Za-z_][A-Za-z_0-9.]*)\"");
    for (const auto& entry :
         std::filesystem::directory_iterator(test::source_folder() + "/lib/load/families")) {
      const std::string code = io::test::contents_of(entry.path().string());
      for (std::sregex_iterator at(code.begin(), code.end(), quoted), end; at != end; ++at)
        found.insert((*at)[1].str());
    }
    return found;
  }();
  return all;
}

/// The names of one family: "a|b" is one of the two, # a number.
std::vector<std::string> names_of(std::string_view list, Draw& draw) {
  std::vector<std::string> names;
  std::istringstream stream{std::string(list)};
  for (std::string name; stream >> name;) {
    std::vector<std::string> choices(1);
    for (const char c : name)
      if (c == '|')
        choices.emplace_back();
      else
        choices.back() += c;
    name = draw.of(choices);
    if (!name.ends_with('#')) {
      names.push_back(name);
      continue;
    }
    name.pop_back();
    for (std::size_t i = 0; i < heads; ++i) names.push_back(name + std::to_string(i + 1));
  }
  return names;
}

/// The shape that a tensor of this name often has.
Shape usual_shape(const std::string& name, Draw& draw) {
  const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  const bool fused = has("qkv") || has("query_key_value") || has("c_attn") || has("in_proj");
  if (has("head_")) return {d_model, d};
  if (has("W_O") || (has("kernel") && has("out"))) return {heads, d, d_model};
  if (has("W_Q") || has("W_K") || has("W_V")) return {heads, d_model, d};
  if (has("kernel")) return {d_model, heads, d};
  if (has("b_Q") || has("b_K") || has("b_V")) return {heads, d};
  if (has("norm")) return {draw.one_in(2) ? d : d_model};
  if (has("bias") || has("b_O")) return {fused ? 3 * d_model : d_model};
  if (!fused) return {d_model, d_model};
  const Shape choices[] = {
      {3 * d_model, d_model}, {d_model, 3 * d_model}, {d_model + 2 * d, d_model}};
  return draw.of(choices);
}

Shape any_shape(Draw& draw) {
  constexpr std::size_t sizes[] = {0,  1,  2,  3,  4,  5,       12,
                                   12, 12, 24, 36, 36, 1 << 20, std::size_t{1} << 40};
  Shape shape;
  for (auto rank = draw.below(5); rank > 0; --rank) shape.push_back(draw.of(sizes));
  const auto bytes = io::bytes_of(shape, 8);
  if (!bytes || *bytes > 1 << 16) shape[draw.below(shape.size())] = 0;
  return shape;
}

/// A value of config.json.
json any_value(Draw& draw, bool nested = true) {
  const json values[] = {0,
                         1,
                         2,
                         3,
                         4,
                         12,
                         36,
                         -1,
                         0.5,
                         1e-5,
                         10000.0,
                         1e308,
                         -1e308,
                         1 << 30,
                         std::uint64_t{1} << 63,
                         ~std::uint64_t{0},
                         true,
                         false,
                         nullptr,
                         "",
                         "12",
                         "\x1b[2J",
                         "global",
                         "local",
                         "linear",
                         "llama3",
                         "full_attention"};
  if (draw.one_in(4)) return draw.of(words());
  if (!nested || !draw.one_in(5)) return draw.of(values);
  json value = draw.one_in(2) ? json::object() : json::array();
  for (auto left = draw.below(6); left > 0; --left)
    if (value.is_object())
      value[draw.of(words())] = any_value(draw, draw.one_in(2));
    else
      value.push_back(any_value(draw, draw.one_in(2)));
  return value;
}

/// A checkpoint's tensors as a safetensors file, its config.json, and how it is asked for.
struct Drawn {
  std::string file, config;
  Request request;
};

Drawn drawn_checkpoint(const naming::FamilyRow& family, Draw& draw) {
  static const std::vector<std::string> prefixes{"",
                                                 "layers.1.",
                                                 "model.layers.0.self_attn.",
                                                 "transformer.h.2.attn.",
                                                 "h.0.self_attention.",
                                                 "decoder.layers.1.encoder_attn.",
                                                 "visual.transformer.resblocks.0.attn.",
                                                 "encoder.block.0.layer.0.SelfAttention.",
                                                 "vit.encoder.layer.0.attention.",
                                                 "blocks.99999999999.attn.",
                                                 "encoder/layer_1/"};
  std::map<std::string, Shape> tensors;
  for (auto left = draw.one_in(3) ? 2 : 1; left > 0; --left) {
    const std::string prefix = draw.of(prefixes);
    for (const std::string& name : names_of(family.needs, draw))
      if (!draw.one_in(40)) tensors[prefix + name] = usual_shape(name, draw);
    for (const std::string& name : names_of(family.knows, draw))
      if (draw.one_in(3)) tensors[prefix + name] = usual_shape(name, draw);
    // A normalisation, or whatever else may be beside it.
    const std::size_t dot =
        prefix.find_last_of('.', prefix.size() - std::min<std::size_t>(2, prefix.size()));
    const std::string parent = dot == std::string::npos ? "" : prefix.substr(0, dot + 1);
    for (auto more = draw.below(3); more > 0; --more)
      tensors[parent + draw.of(words()) + (draw.one_in(3) ? ".bias" : ".weight")] = {d_model};
  }
  if (!tensors.empty() && draw.one_in(2)) {
    auto& [name, shape] =
        *std::next(tensors.begin(), static_cast<long>(draw.below(tensors.size())));
    shape = any_shape(draw);
  }

  constexpr std::pair<const char*, std::size_t> dtypes[] = {{"F32", 4}, {"F32", 4}, {"F32", 4},
                                                            {"F64", 8}, {"F16", 2}, {"BF16", 2},
                                                            {"I64", 8}, {"U8", 1},  {"BOOL", 1}};
  const auto usual = draw.of(dtypes);
  json header = json::object();
  std::string data;
  for (const auto& [name, shape] : tensors) {
    const auto [dtype, size] = draw.one_in(20) ? draw.of(dtypes) : usual;
    const std::size_t start = data.size(), bytes = count_of(shape) * size;
    for (std::size_t i = 0; i < bytes; ++i) // of F32: 0.5 … 1
      data += std::string(dtype) == "F32" && i % 4 == 3 ? '\x3f'
              : std::string(dtype) == "BOOL"            ? '\1'
                                                        : static_cast<char>(draw.below(128));
    header[name] = {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {start, data.size()}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  Drawn drawn;
  drawn.file = std::string(reinterpret_cast<const char*>(&length), 8) + text + data;

  json config = json::object();
  for (const char* key : {"num_attention_heads", "n_head", "num_heads", "n_heads"})
    if (!draw.one_in(4)) config[key] = heads;
  for (auto left = draw.below(6); left > 0; --left) config[draw.of(words())] = any_value(draw);
  if (draw.one_in(2)) config["model_type"] = family.name;
  drawn.config = config.dump();

  if (draw.one_in(2)) drawn.request.naming = family.name;
  if (draw.one_in(4)) drawn.request.settings.emplace_back("input_norm", "checkpoint");
  if (draw.one_in(3)) drawn.request.settings.emplace_back("num_heads", "3");
  drawn.request.layer = "all";
  return drawn;
}

void endure(const naming::FamilyRow& family, Endurance endurance) {
  const io::test::Folder folder;
  const std::string X = folder / "X.npy";
  io::test::write(X, "npy", {{"X", io::test::numbers(DType::f32, {5, d_model})}});
  require_endured("family " + std::string(family.name), endurance, [&](std::mt19937* random) {
    if (!random) return;
    Draw draw(*random);
    Drawn drawn = drawn_checkpoint(family, draw);
    for (const auto& [name, bytes] :
         {std::pair("model.safetensors", &drawn.file), {"config.json", &drawn.config}}) {
      std::filesystem::remove(folder / name);
      folder.file(name, *bytes);
    }
    drawn.request.sources = {folder.path()};
    if (!draw.one_in(4)) drawn.request.sources.push_back("X=" + X);
    compute_every_layer(std::move(drawn.request));
  });
}

} // namespace

TEST_CASE("whatever a family's checkpoint holds is computed or refused in one line") {
  CHECK(words().size() > 100);
  for (const naming::FamilyRow* family : naming::families())
    endure(*family, {sanitized ? 20 : 100});
}

TEST_CASE("20,000 checkpoints of every family cost no time and no memory", "[naming][.mutations]") {
  for (const naming::FamilyRow* family : naming::families()) endure(*family, {20'000, !sanitized});
}
