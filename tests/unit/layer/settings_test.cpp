#include <mha/layer/settings.hpp>
#include <mha/system/words.hpp>

#include <catch2/catch.hpp>

#include <map>
#include <set>
#include <string>
#include <vector>

using Catch::Matchers::Contains;
using mha::Settings;

namespace {

Settings with(const char* name, const char* text) {
  Settings settings;
  mha::set(settings, name, text, "test");
  return settings;
}

} // namespace

TEST_CASE("every setting reads back what it prints") {
  std::set<std::string_view> names;
  for (const mha::SettingInfo& info : mha::settings_table()) {
    INFO(info.name);
    CHECK(names.insert(info.name).second);
    CHECK(mha::find_setting(info.name) == &info);
    for (std::string_view alias : mha::words_of(info.aliases))
      CHECK(mha::find_setting(alias) == &info);
    if (info.name == "rope_offset") continue; // its default depends on the layer
    Settings settings;
    const std::string text = info.get(settings);
    REQUIRE_NOTHROW(info.set(settings, text));
    CHECK(info.get(settings) == text);
  }
  CHECK(mha::find_setting("no_such_setting") == nullptr);
}

TEST_CASE("every setting takes every kind of value that help names") {
  const std::map<std::string_view, std::vector<const char*>> kinds{
      {"", {"true", "false"}}, {"N", {"0", "1", "12"}}, {"NUMBER", {"0.5", "2e1"}},
      {"L", {"3", "-1"}},      {"R", {"3", "-1"}},      {"T,H,W", {"1,0,0", "16,24,24"}}};
  for (const mha::SettingInfo& info : mha::settings_table())
    for (std::string_view kind : mha::split_at(info.values, '|')) {
      INFO(info.name << ": " << kind);
      const auto known = kinds.find(kind);
      const std::string word(kind);
      const std::vector<const char*> values =
          known == kinds.end() ? std::vector<const char*>{word.c_str()} : known->second;
      for (const char* value : values) {
        const bool none = value == std::string_view("0") &&
                          (info.name.ends_with("heads") || info.name == "temperature_length");
        if (!none && info.name != "rope_original_length")
          CHECK_NOTHROW(with(std::string(info.name).c_str(), value));
      }
    }
}

TEST_CASE("settings take their values from text") {
  CHECK(with("num_heads", "12").num_heads == 12);
  CHECK(with("num_heads", "12.0").num_heads == 12);
  CHECK(with("q_num_heads", "3").num_heads == 3);
  CHECK(with("causal", "true").causal);
  CHECK(with("is_causal", "1").causal);
  CHECK_FALSE(with("causal", "false").causal);
  CHECK(with("scale", "d_model").scale == mha::ScaleKind::d_model);
  CHECK(with("scale", "none").scale == mha::ScaleKind::none);
  CHECK(with("scale", "0.125").scale == mha::ScaleKind::number);
  CHECK(with("scale", "0.125").scale_value == 0.125);
  CHECK(with("window_left", "-1").window_left == -1);
  CHECK(with("rope", "interleaved").rope == mha::Rope::interleaved);
  CHECK(with("rope_theta", "5e5").rope_base == 5e5);
  CHECK(with("rope_offset", "-3").rope_offset == -3);
  CHECK(with("alibi", "true").alibi == mha::Alibi::paper);
  CHECK(with("alibi", "mpt").alibi == mha::Alibi::mpt);
  CHECK(with("masked_rows", "uniform").masked_rows == mha::MaskedRows::uniform);
  CHECK(with("causal_align", "bottom_right").causal_align == mha::CausalAlign::bottom_right);
}

TEST_CASE("a setting remembers where it came from") {
  Settings settings = with("softcap", "50");
  CHECK(settings.origins.at("softcap") == "test");
  mha::set(settings, "is_causal", "true", "layer.json");
  CHECK(settings.origins.at("causal") == "layer.json");
  CHECK(settings.origins.count("rope") == 0);
}

TEST_CASE("a wrong value says where, what and what was expected") {
  Settings settings;
  const auto message = [&](const char* name, const char* text) {
    try {
      mha::set(settings, name, text, "layer.json");
    } catch (const mha::Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  CHECK(message("causal", "maybe") == "layer.json: causal is 'maybe': true or false expected");
  CHECK_THAT(message("num_heads", "-2"), Contains("num_heads is '-2'"));
  CHECK_THAT(message("num_heads", "2.5"), Contains("a whole number expected"));
  CHECK_THAT(message("num_heads", "nan"), Contains("expected"));
  CHECK_THAT(message("num_heads", "1e300"), Contains("expected"));
  CHECK_THAT(message("num_heads", ""), Contains("expected"));
  CHECK_THAT(message("rope", "halves"), Contains("none, half, interleaved"));
  CHECK_THAT(message("scale", "big"), Contains("1/√d_k"));
  CHECK_THAT(message("window_left", "-2"), Contains("-1"));
  CHECK_THAT(message("rope_base", "0"), Contains("a positive number"));
  CHECK_THAT(message("cuasal", "true"), Contains("did you mean 'causal'"));
}
