#include <mha/load/edit.hpp>

#include <catch2/catch.hpp>

#include <cmath>

using Catch::Matchers::Contains;
using namespace mha;

namespace {

std::string typed(const Edits& edit) {
  return edit.text().in_words(Wording::command_line);
}
std::string of_program(const Edits& edit) {
  return edit.text().in_words(Wording::program);
}

} // namespace

TEST_CASE("an edit of settings gives them their values") {
  Settings settings;
  settings.causal = true;
  Edits{{"rope_scaling", "linear"}, {"rope_factor", 8}, {"causal", false}}.apply(settings);
  CHECK(settings.rope_scaling == RopeScaling::linear);
  CHECK(settings.rope_factor == 8);
  CHECK_FALSE(settings.causal);
  CHECK(settings.rope_base == 10000); // others stay
  Edits edit{{"window_left", 4}};
  edit.add(SettingEdit("window_left", -1));
  edit.apply(settings);
  CHECK(settings.window_left == -1); // the last one wins
}

TEST_CASE("an edit of settings says itself in its reader's words") {
  const Edits edit{{"rope_scaling", "linear"}, {"rope_factor", 8.5}};
  CHECK(typed(edit) == "--rope-scaling linear --rope-factor 8.5");
  CHECK(of_program(edit) == "rope_scaling linear rope_factor 8.5");
  const Edits off{{"causal", false}, {"window_right", 1}};
  CHECK(typed(off) == "--no-causal --window-right 1");
  CHECK(of_program(off) == "causal false window_right 1");
  CHECK(typed({{"qk_norm_one_plus", true}}) == "--qk-norm-one-plus");
  CHECK(typed({{"causal", "yes"}}) == "--causal");
  CHECK(typed({{"alibi", "false"}}) == "--alibi false"); // one choice of several
  CHECK(Edits{}.empty());
  CHECK(typed({}).empty());
}

TEST_CASE("every kind of edit prints itself as its option") {
  Edits edits;
  edits.add(TensorEdit{.name = "W_q", .axes = "OI"});
  edits.add(parse_edit("layers.3.head_out[0,-1] *= 0.5"));
  edits.add(SettingEdit("rope_base", 500));
  CHECK(edits.text().in_words(Wording::command_line) ==
        "W_q=FILE@OI --patch 'layers.3.head_out[0,-1] *= 0.5' --rope-base 500");
  edits.tensor()->source = "b.npz:q";
  CHECK(text_of(*edits.tensor()).in_words(Wording::command_line) == "W_q=b.npz:q@OI");
  CHECK(edits.of<SettingEdit>().size() == 1);
  CHECK(edits.of<StageEdit>()[0].place.text() == "layers.3.head_out[0,-1]");
  CHECK(Edits{{"causal", true}}.tensor() == nullptr);
}

TEST_CASE("an edit is exact where its words are rounded") {
  const double base = 10000.0 / 3;
  const Edits edit{{"rope_base", base, 6}, {"scale", std::sqrt(0.5), "d_k"}};
  CHECK(typed(edit) == "--rope-base 3333.33 --scale d_k");
  Settings settings;
  edit.apply(settings);
  CHECK(settings.rope_base == base);
  CHECK(settings.scale == ScaleKind::number);
  CHECK(settings.scale_value == std::sqrt(0.5));
}

TEST_CASE("an edit of what is no setting, or to no value of one, is an error") {
  Settings settings;
  CHECK_THROWS_WITH(Edits({{"rope_bas", 500}}).apply(settings),
                    Contains("no setting is called 'rope_bas'; did you mean 'rope_base'?"));
  CHECK_THROWS_WITH(Edits({{"rope_base", -1}}).apply(settings),
                    "rope_base is '-1': a positive number expected");
  CHECK(settings.rope_base == 10000);
}
