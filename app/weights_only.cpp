#include "weights_only.hpp"

namespace mha::app {

namespace {

/// The request in float64.
RunRequest of_weights(RunRequest request) {
  request.dtype = DType::f64;
  request.same_x = true; // nothing is computed
  return request;
}

/// A lone layer, or every layer of several.
OpenedModel layers_of(RunRequest request) {
  const std::string chosen = request.layer;
  request.layer = "all";
  try {
    if (chosen.empty()) return OpenedModel(request);
  } catch (const Error&) {
    // One layer without a number, or what the next line says better.
  }
  request.layer = chosen;
  return OpenedModel(request);
}

} // namespace

OpenedWeights::OpenedWeights(const RunRequest& request, std::string_view command, Common& common) {
  if (request.has_text())
    throw UsageError(
        fmt::format("{} reads weights alone: the text changes nothing; leave it out", command));
  if (request.patches)
    throw UsageError(
        fmt::format("{} reads weights alone: --patch changes nothing; leave it out", command));
  if (request.dtype)
    throw UsageError(fmt::format("{} computes in float64: --dtype changes nothing", command));
  const Stopwatch watch(common.read_s);
  try {
    RunRequest model = of_weights(request);
    model.text.ids = {"0"}; // a model is opened for a text; of this one nothing is computed
    for (const std::string input : {"X=", "X_kv=", "X_k=", "X_v="}) // of no weight
      std::erase_if(model.sources,
                    [&](const std::string& source) { return source.starts_with(input); });
    if (model.layer.empty()) model.layer = "all";
    opened_.emplace(std::move(model));
    if (!common.quiet) report_notes(this->model()->notes(), common);
  } catch (const Error& error) {
    why_no_model_ = console_text(error);
    opened_.emplace(layers_of(of_weights(request)));
  }
  report_notes(idle_options(request, opened_->sources()), common);
  common.counts = opened_->sources().counts();
}

void add_unused_of_weights(Cli& cli, std::function<bool()> weights_alone) {
  cli.unused({"--tokens", "--key-tokens", "--scale", "--causal", "--causal-align", "--window-left",
              "--window-right", "--softcap", "--clip-qkv", "--alibi", "--relative-bidirectional",
              "--relative-max-distance", "--relative-key-query", "--residual", "--zero-attn",
              "--softmax", "--masked-rows", "--columns"},
             [weights_alone = std::move(weights_alone)] {
               return weights_alone()
                          ? std::string("changes nothing of the weights alone; leave it out")
                          : "";
             });
}

int OpenedWeights::token_of(const std::string& word, std::string_view option) const {
  return opened_->texts()->token_of(word, option);
}

} // namespace mha::app
