// Drafts of descriptions of models with several parts: what they compute is what the model's own
// forward function does (tests/data/drafts, which its make.py wrote with PyTorch).

#include "support/compare.hpp"
#include "support/files.hpp"
#include "support/run.hpp"

#include <mha/load/draft_naming.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/observe/trace.hpp>

#include <catch2/catch.hpp>

using namespace mha;

namespace {

std::string drafts(const std::string& name) {
  return in_source("tests/data/drafts/" + name);
}

/// A model of several parts, and what names and shapes cannot tell of it.
struct Drafted {
  const char *model, *stem;
  std::vector<std::pair<std::string, std::string>> edits = {};
};

} // namespace

TEST_CASE("a draft of one of several parts computes what the part does", "[model]") {
  for (const Drafted& one :
       {Drafted{"pooled.pth", "pooled", {{R"("causal": true)", R"("causal": false)"}}},
        Drafted{"translator.pth", "translator"}, Drafted{"images", "images"},
        Drafted{"words", "words"},
        Drafted{"clip.pt", "clip", {{R"("gelu")", R"("quick_gelu")"}, {R"("HOW MANY?")", "3"}}},
        Drafted{"pair", "pair"}}) {
    INFO(one.model);
    const io::Contents file = io::open(drafts(one.model)),
                       expected = io::open(drafts(std::string(one.stem) + ".npz"));
    std::string naming = draft_naming(file).value_or("");
    INFO(naming);
    for (const auto& [what, by] : one.edits) {
      REQUIRE(naming.find(what) != std::string::npos);
      naming.replace(naming.find(what), what.size(), by);
    }
    const test::Folder folder;
    RunRequest request;
    request.sources = {drafts(one.model)};
    request.naming = folder.write("draft.json", naming);
    const std::string input = drafts(std::string(one.stem) + ".npz");
    if (expected.find("ids"))
      request.text.ids = {input};
    else
      request.text.rows = input;
    request.dtype = DType::f64, request.shows_ends = true;
    OpenedModel model(std::move(request));
    model.threads = 1;
    std::size_t compared = 0;
    for (const io::Entry& entry : expected.tensors) {
      if (entry.name == "ids" || entry.name == "inputs_embeds") continue;
      INFO(entry.name);
      const std::size_t dot = entry.name.rfind('.');
      const std::string id = dot == std::string::npos ? "" : entry.name.substr(7, dot - 7);
      const Stage stage = stage_named(entry.name.substr(dot + 1));
      const Tensor want = entry.read(), have = trace(model.load(id).layer, {stage}).value(stage);
      CHECK(compare(have, want, 1e-11 * (1 + magnitude(want))) == "");
      ++compared;
    }
    CHECK(compared >= 2);
  }
}

TEST_CASE("layers that read another part's stream have no draft") {
  CHECK_THROWS_WITH(
      draft_naming(io::open(drafts("reader.pth"))),
      Catch::Contains("second attention, decoder.layers.0.multihead_attn.in_proj_weight"));
}
