#include "weights_only.hpp"

namespace mha::app {

namespace {

/// The request in float64, for weights alone.
RunRequest of_weights(RunRequest request) {
  request.dtype = DType::f64;
  request.same_x = true; // nothing is computed
  return request;
}

/// Opens the chosen layer, or all.
OpenedModel layers_of(RunRequest request) {
  const std::string chosen = request.layer;
  request.layer = "all";
  try {
    if (chosen.empty()) return OpenedModel(request);
  } catch (const Error&) {
    // A single layer without a number, or an error that the next line reports better.
  }
  request.layer = chosen;
  return OpenedModel(request);
}

} // namespace

OpenedWeights::OpenedWeights(const RunRequest& request, std::string_view command, Common& common) {
  if (request.has_text())
    throw UsageError(
        fmt::format("{} uses only weights: a text has no effect; leave it out", command));
  if (request.patches)
    throw UsageError(
        fmt::format("{} uses only weights: --patch has no effect; leave it out", command));
  if (request.dtype)
    throw UsageError(fmt::format("{} computes in float64: --dtype has no effect", command));
  const Stopwatch watch(common.read_s);
  try {
    RunRequest model = of_weights(request);
    model.text.ids = {"0"}; // a model is opened for a text; this one is never computed
    for (const std::string input : {"X=", "X_kv=", "X_k=", "X_v="}) // not weights
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
               return weights_alone() ? std::string("has no effect on weights alone; leave it out")
                                      : "";
             });
}

int OpenedWeights::token_of(const std::string& word, std::string_view option) const {
  return opened_->texts()->token_of(word, option);
}

} // namespace mha::app
