// What each sentence of docs/describing.md promises is what is computed: a model for each way of
// writing it (tests/models/described_ways.py), every stage beside NumPy's in float64.

#include "support/compare.hpp"
#include "support/files.hpp"
#include "support/run.hpp"

#include <mha/layer/graph.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/observe/trace.hpp>

#include <catch2/catch.hpp>

using namespace mha;

namespace {

/// Compares the stages of a layer, or after the last one, with the tensors that have their names.
std::size_t check_stages(const Layer& layer, const std::string& prefix,
                         const io::Contents& expected) {
  std::vector<Stage> stages;
  for (const io::Entry& entry : expected.tensors)
    if (entry.name.starts_with(prefix) && entry.name.find('.', prefix.size()) == std::string::npos)
      if (const auto stage = find_stage(entry.name.substr(prefix.size())))
        if (is_of_model(*stage) == (layer.ends != nullptr)) stages.push_back(*stage);
  // The reference has these where no norm makes them another stage than what they are made of.
  std::erase_if(stages, [&](Stage stage) {
    return (stage == Stage::attn_add || stage == Stage::mlp_add) && !has_step(layer, stage);
  });
  Trace trace(layer, stages);
  compute(layer, make_plan(layer, trace.wants()), trace, 1);
  for (const Stage stage : stages) {
    const Tensor want = tensor_in(expected, prefix + std::string(name_of(stage)));
    INFO(prefix << name_of(stage));
    CHECK(compare(trace.value(stage), want, 1e-10 * (1 + magnitude(want))) == "");
  }
  return stages.size();
}

} // namespace

TEST_CASE("a description is computed as its page says, in every way of saying it", "[model]") {
  const test::Folder folder;
  if (const test::Result made =
          test::shell("/usr/bin/python3 tests/models/described_ways.py " + folder.path());
      made.code != 0) {
    WARN("no NumPy, so nothing to compare with: " << made.err);
    return;
  }
  for (const std::string& way : folder.names()) {
    INFO(way);
    RunRequest request;
    request.sources = {folder.path(way)}, request.naming = folder.path(way) + "/naming.json";
    request.text.ids = {folder.path(way) + "/expected.npz"};
    request.dtype = DType::f64, request.shows_ends = true;
    OpenedModel model(std::move(request));
    model.threads = 1;
    const io::Contents expected = io::open(folder.path(way) + "/expected.npz");
    std::size_t compared = 0;
    for (const std::string& id : model.texts()->layers()) {
      const LoadedLayer loaded = model.load(id);
      for (const Note& note : loaded.notes) CHECK((!note.is_warning() || note.text.empty()));
      compared += check_stages(loaded.layer, "layers." + id + ".", expected);
    }
    compared += check_stages(model.load("").layer, "", expected);
    CHECK(compared >= 30);
  }
  CHECK(folder.names().size() >= 50);
}
