#pragma once
// Mistakes of whole models beyond attention, planted by port.py.

#include <string>
#include <vector>

namespace planted {

struct ModelMistake {
  const char* id;      ///< the change that names it
  const char* mistake; ///< as port.py calls it
  const char* models;  ///< that can have it, of gpt2, llama and bert
  bool in_states;      ///< whether hidden states show it
};

inline const std::vector<ModelMistake>& model_mistakes() {
  static const std::vector<ModelMistake> list{
      {"block_norm.missing", "block_norm.missing", "gpt2 llama bert", true},
      {"block_norm.kind", "block_norm.kind", "gpt2 llama bert", true},
      {"block_norm.eps", "block_norm.eps", "gpt2 llama bert", true},
      {"block_norm.one_plus", "block_norm.one_plus", "gpt2 llama bert", true},
      {"block_norm.weight", "block_norm.weight", "gpt2 llama bert", true},
      {"block_norm.bias", "block_norm.bias", "gpt2 bert", true},
      {"block_norm.form", "block_norm.form", "gpt2 llama bert", true},
      {"block_norm.form", "norms.form", "gpt2 llama", true},
      {"block_norm.kind", "block_norm.not_centred", "gpt2 bert", true},
      {"block_norm.twice", "block_norm.twice", "gpt2 llama bert", true},
      {"block_norm.other", "block_norm.other", "gpt2 llama", true},
      {"block_norm.place", "block_norm.place", "gpt2 bert", true},
      {"input_norm.missing", "input_norm.missing", "gpt2 llama", true},
      {"input_norm.eps", "input_norm.eps", "gpt2 llama", true},
      {"input_norm.one_plus", "input_norm.one_plus", "gpt2 llama", true},
      {"mlp.activation", "act:relu", "gpt2 llama bert", true},
      {"mlp.activation", "act:gelu", "gpt2 llama", true},
      {"mlp.activation", "act:gelu_tanh", "llama bert", true},
      {"mlp.activation", "act:quick", "gpt2 llama bert", true},
      {"mlp.activation", "act:silu", "gpt2 bert", true},
      {"block_norm.rounded", "block_norm.rounded", "gpt2 llama bert", true},
      {"mlp.activation", "act:swish", "gpt2 llama bert", true},
      {"mlp.activation", "act:relu2", "gpt2 llama bert", true},
      {"mlp.rounded", "mlp.rounded", "gpt2 llama bert", true},
      {"mlp.swapped", "mlp.swapped", "llama", true},
      {"mlp.activated_other", "mlp.activated_other", "llama", true},
      {"mlp.gate.missing", "mlp.gate.missing", "llama", true},
      {"mlp.gate.added", "mlp.gate.added", "llama", true},
      {"mlp.gate.plus_one", "mlp.gate.plus_one", "llama", true},
      {"mlp.gate.plus_one", "mlp.gate.oss", "llama", true},
      {"mlp.interleaved", "mlp.interleaved", "llama", true},
      {"mlp.sharded", "mlp.sharded", "llama", true},
      {"mlp.transposed", "mlp.transposed", "llama", true},
      {"mlp.bias.missing", "mlp.bias.missing", "gpt2 bert", true},
      {"mlp.bias.times", "mlp.bias.times", "gpt2 bert", true},
      {"mlp.missing", "mlp.missing", "gpt2 llama", true},
      {"block.residual.normalised", "block.residual.normalised", "gpt2 llama", true},
      {"block.residual.normalised", "block.residual.both_normalised", "gpt2 llama", true},
      {"block.residual.scaled", "block.residual.scaled", "gpt2 llama", true},
      {"block.residual.scaled", "block.residual.attention_scaled", "gpt2 llama", true},
      {"block.residual.missing", "block.residual.missing", "gpt2 llama", true},
      {"block.residual.original", "block.residual.original", "gpt2 llama", true},
      {"block.residual.twice", "block.residual.twice", "gpt2 llama", true},
      {"block.residual.apart", "block.residual.apart", "gpt2 llama", true},
      {"block.attention.missing", "block.attention.missing", "gpt2 llama", true},
      {"block.handed.residual", "block.handed.residual", "gpt2 llama", true},
      {"block.parallel", "block.parallel", "gpt2 llama", true},
      {"block.skipped", "block.skipped", "gpt2 llama bert", true},
      {"block.twice", "block.twice", "gpt2 llama bert", true},
      {"block.weights.other", "block.weights.other", "gpt2 llama bert", true},
      {"embed.scale", "embed.scale", "gpt2 llama bert", true},
      {"embed.positions.missing", "embed.positions.missing", "gpt2 bert", true},
      {"embed.positions.offset", "embed.positions.offset", "gpt2 bert", true},
      {"embed.positions.twice", "embed.positions.twice", "gpt2 bert", true},
      {"embed.positions.same", "embed.positions.same", "gpt2 bert", true},
      {"dropout.on", "dropout.embed", "gpt2 llama bert", true},
      {"dropout.on", "dropout.output", "gpt2 llama bert", false},
      {"embed.types", "embed.types", "bert", true},
      {"embed.norm.missing", "embed.norm.missing", "bert", true},
      {"embed.norm.twice", "embed.norm.twice", "bert", true},
      {"embed.norm.form", "embed.norm.eps", "bert", true},
      {"last_norm.missing", "last_norm.missing", "gpt2 llama", true},
      {"last_norm.twice", "last_norm.twice", "gpt2 llama", true},
      {"last_norm.other", "last_norm.other", "gpt2 llama", true},
      {"last_norm.form", "last_norm.eps", "gpt2 llama", true},
      {"last_norm.form", "last_norm.kind", "gpt2 llama", true},
      {"head.tied", "head.tied", "llama", false},
      {"head.norm.missing", "head.norm.missing", "gpt2 llama", false},
      {"head.bias", "head.bias", "bert", false},
      {"head.softcap", "head.softcap", "gpt2 llama", false},
      {"head.scale", "head.scale", "gpt2 llama", false},
      {"head.softmax", "head.softmax", "gpt2 llama bert", false},
      {"head.centred", "head.centred", "gpt2 llama bert", false},
      {"head.activation", "head.activation", "bert", false},
      {"head.dense", "head.dense", "bert", false},
      {"scale.missing", "scale", "gpt2 llama bert", true},
      {"weight.rows", "weight.rows", "llama", true},
      {"bias.times.o", "bias.times.o", "gpt2 bert", true},
  };
  return list;
}

} // namespace planted
