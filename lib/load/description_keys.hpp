#pragma once
// The keys of a description, each once: its reader, its schema and its writer take them from here.

#include <array>
#include <string_view>

namespace mha::description {

/// One key of an object.
struct Key {
  std::string_view name;
  std::string_view schema; ///< what JSON it takes, as a JSON schema
  std::string_view text;   ///< what it means
};

// clang-format off
inline constexpr std::string_view text_schema = R"({"type": "string"})";
inline constexpr std::string_view flag_schema = R"({"type": "boolean"})";
inline constexpr std::string_view value_schema = R"({"$ref": "#/definitions/value"})";
inline constexpr std::string_view tensor_schema = R"({"$ref": "#/definitions/tensor"})";
inline constexpr std::string_view norm_schema = R"({"$ref": "#/definitions/norm_of"})";

inline constexpr std::array top_keys{
  Key{"$schema", text_schema, "not read"},
  Key{"title", text_schema, "how the model is called in headlines"},
  Key{"layers", R"({"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]})",
      "the prefix of the names of a layer's tensors, with {layer} for its number; without {layer} the layers share their weights; a list has one prefix a layer"},
  Key{"num_layers", value_schema, "how many layers there are; else as many as the file has"},
  Key{"block", R"({"enum": ["pre", "post", "parallel", "sandwich", "post_inside", "attention_only"]})",
      "the order of norms, attention and feed-forward in a layer"},
  Key{"activation", value_schema, "of the feed-forward"},
  Key{"norm", R"({"$ref": "#/definitions/norm_form"})", "the kind of every norm without a kind of its own"},
  Key{"embed", R"({"type": "array", "items": {"$ref": "#/definitions/embed_step"}})",
      "what enters the first layer: tables whose rows are added, a linear map, rows in front, a norm"},
  Key{"tensors", R"({"type": "object"})", "the tensors of a layer"},
  Key{"final_norm", norm_schema, "the norm before the head"},
  Key{"head", R"({"$ref": "#/definitions/head"})", "what makes logits"},
  Key{"settings", R"({"type": "object"})", "of attention: num_heads, causal, rope …; a list is one of each layer"},
  Key{"sizes", R"({"type": "object"})", "how much letters of shapes are in layers that are not computed: H, H_qk, d_k, d_v …"},
  Key{"ignore", R"({"type": "array", "items": {"type": "string"}})", "tensors that are not part of the model; * is any text"},
  Key{"residual_scale", value_schema, "multiplies what attention and feed-forward add to the stream"},
  Key{"some_layers_lack", R"({"type": "array", "items": {"type": "string"}})", "tensors that some layers lack on purpose"},
};
/// Further keys of a family's file (lib/load/families, or a user's).
inline constexpr std::array family_keys{
  Key{"models", text_schema, "the model_types whose attention it describes"},
  Key{"whole_models", text_schema, "those whose whole model it describes; *: any"},
  Key{"needs", text_schema, "names that a layer's module has, by which it is found; a|b is one of the two"},
  Key{"knows", text_schema, "further names in a layer's module"},
  Key{"recognised", R"({"type": "object"})", "when a module with these names is this family's"},
  Key{"tests", R"({"type": "object"})", "conditions by name, for {\"test\": NAME}"},
  Key{"beside", text_schema, "what blocks have beside attention"},
  Key{"present", text_schema, "a function that presents the file's layers under other names"},
  Key{"attention", text_schema, "the module that attention is, below its block"},
  Key{"biases", R"({"type": "object"})", "whether qkv, output, mlp and norms have biases"},
  Key{"also_ignore", R"({"type": "array"})", "in a case: added to ignore"},
  Key{"sublayers", text_schema, "what layers with several mixers call them: self_attn=attn mamba=ssm"},
  Key{"always", R"({"type": "array"})", "what every block has"},
  Key{"returns", R"({"type": "object"})", "the stages that modules return, attention and mlp"},
  Key{"predicts", R"({"enum": ["next", "masked"]})", "which token the logits are of"},
  Key{"known", R"({"type": "array"})", "keys of config.json without effect"},
  Key{"steps", R"({"type": "object"})", "named functions for what data cannot express of a layer"},
  Key{"model_steps", R"({"type": "object"})", "named functions for what data cannot express of the whole model"},
  Key{"note", R"({"type": "array"})", "a note with every layer"},
  Key{"warn", R"({"type": "array"})", "a warning with every layer"},
  Key{"refuse", R"({"type": "array"})", "why it is not computed"},
};
/// Keys that put others together, and are gone once a layer's are.
inline constexpr std::array case_keys{
  Key{"like", text_schema, "the family whose keys count where this file has none"},
  Key{"cases", R"({"type": "array"})", "words that hold when a condition does, each with \"when\""},
  Key{"model_cases", R"({"type": "array"})", "the same of a whole model, whose conditions a lone layer does not ask"},
  Key{"when", R"({"type": "object"})", "the condition of a case"},
};
/// Keys of a value that is an object.
inline constexpr std::array value_keys{
  Key{"config", text_schema, "a key of config.json; a|b is the first that is there"},
  Key{"default", R"({"type": ["number", "boolean", "string"]})", "where config.json has none of the keys"},
  Key{"optional", flag_schema, "without a value where config.json has none of the keys"},
  Key{"inverse", flag_schema, "1 divided by it"},
  Key{"positive", flag_schema, "a number above 0 is expected"},
  Key{"from", text_schema, "where it comes from, for people"},
};
inline constexpr std::array norm_form_keys{
  Key{"kind", R"({"enum": ["layer", "std", "rms", "batch", "none"]})",
      "std: divides by the deviation of n − 1 plus eps; batch: with its running mean and variance"},
  Key{"eps", value_schema, "epsilon"},
  Key{"one_plus", flag_schema, "multiplies by 1 + weight"},
  Key{"affine", flag_schema, "false: without weight and bias"},
};
inline constexpr std::array norm_keys{
  Key{"weight", text_schema, "the weight's name"},
  Key{"bias", R"({"type": ["string", "boolean"]})", "the bias' name; false: none; else beside the weight"},
  Key{"optional", flag_schema, "layers may lack it"},
  Key{"scale", value_schema, "multiplies the weight: a number, or 1/sqrt_d_model"},
  Key{"mean", text_schema, "of a batch norm; else running_mean beside the weight"},
  Key{"variance", text_schema, "of a batch norm; else running_var beside the weight"},
};
inline constexpr std::array tensor_keys{
  Key{"name", text_schema, "after the prefix in `layers`; with {layer} a whole name; {head} is a head's number, {expert} an expert's"},
  Key{"layout", R"({"type": "string", "pattern": "^[ehio]{2,3}$"})",
      "its axes: o outputs, i inputs, h heads, e experts; oi, as nn.Linear stores it, by default"},
  Key{"split", text_schema, "what is side by side in its outputs: q,k,v or k,v or in,up; of W_mixer any of q,k,v,gate,beta,decay, of W_q q,gate"},
  Key{"by", R"({"enum": ["block", "head", "row"]})", "head: each key/value head's parts together; row: of experts.in_up, outputs alternate"},
  Key{"groups", R"({"type": "integer"})", "instead of by: how many groups are side by side, each with all parts (CodeGen's 4)"},
  Key{"bias", R"({"type": ["string", "boolean"]})", "the bias' name; false: none; true: beside the weight, always; else beside it, if it is there"},
  Key{"optional", flag_schema, "layers may lack it"},
  Key{"times", text_schema, "a vector that multiplies its outputs, one number each"},
  Key{"values", R"({"type": "array", "items": {"type": "number"}})", "numbers instead of a tensor of the file"},
};
inline constexpr std::array embed_keys{
  Key{"table", text_schema, "a matrix whose rows are added"},
  Key{"by", R"({"enum": ["token", "position", "type", "layer"]})", "what chooses the row: the token's number, its position; type: the first row; layer: the token's number, whose row has columns for each layer"},
  Key{"map", text_schema, "of a table by layer: the linear map of what enters the first layer"},
  Key{"map_norm", norm_schema, "of a table by layer: the norm of the map's result"},
  Key{"sinusoid", R"({"enum": ["interleaved", "half"]})",
      "positions' rows that are computed: interleaved, sin and cos of a pair side by side; half, all sines, then all cosines"},
  Key{"base", value_schema, "of sinusoid; 10000 by default"},
  Key{"inclusive", flag_schema, "of sinusoid: the slowest pair turns by 1 / base, as in tensor2tensor and fairseq"},
  Key{"length", value_schema, "of sinusoid: how many positions there are; 4096 by default"},
  Key{"scale", value_schema, "of the tokens' rows: a number, or sqrt_d_model; of the positions' rows: a number"},
  Key{"first", R"({})", "the first token's position; \"pad\": pad_token_id + 1, and padding has pad_token_id"},
  Key{"linear", text_schema, "a linear map of the sum so far"},
  Key{"layout", text_schema, "of table or linear: io or oi"},
  Key{"bias", R"({"type": ["string", "boolean"]})", "of linear"},
  Key{"shared", text_schema, "of the tokens' table: its name at the top, where models of several parts share it"},
  Key{"drops_mask", flag_schema, "of the tokens' table: the row of mask_token_id is zero, and rows are scaled by what is masked"},
  Key{"prepend", text_schema, "rows before those of the vectors that come in: a class token"},
  Key{"norm", norm_schema, "a norm of the sum so far"},
};
inline constexpr std::array head_keys{
  Key{"tied", flag_schema, "its weight is the tokens' table"},
  Key{"name", text_schema, "its weight's name"},
  Key{"layout", text_schema, "oi or io"},
  Key{"bias", R"({"type": ["string", "boolean"]})", "the bias' name; false: none; else beside the weight, if it is there"},
  Key{"own_bias", flag_schema, "beside a bias of another name: whether the weight's own counts as well"},
  Key{"own_vocabulary", flag_schema, "its rows need not be the embedding's"},
  Key{"dense", tensor_schema, "a linear map before it"},
  Key{"activation", value_schema, "of dense"},
  Key{"norm", norm_schema, "after dense"},
  Key{"softcap", value_schema, "softcap · tanh(logits / softcap)"},
  Key{"scale", value_schema, "multiplies the logits"},
  Key{"unit_inputs", value_schema, "whether the weights of each of its inputs are divided by their length + 10⁻⁷"},
};
/// Settings of layers that are read and not computed.
inline constexpr std::array kind_settings{
  Key{"mixer", R"({"enum": ["softmax", "recurrent", "convolution"]})", "how tokens are mixed"},
  Key{"keys", R"({"enum": ["own", "earlier"]})", "whose keys and values the heads read: the layer's own, or those of the last earlier layer of its keys_kind that has its own"},
  Key{"keys_kind", value_schema, "a word for layers that may share keys"},
  Key{"experts_per_token", value_schema, "how many experts are chosen for a token"},
  Key{"router_score", value_schema, "softmax, sigmoid, sqrt_softplus or logits"},
  Key{"router_softcap", value_schema, "of the router's logits: softcap · tanh(x / softcap)"},
  Key{"router_groups", value_schema, "groups of experts, of which some are kept"},
  Key{"router_kept_groups", value_schema, "how many"},
  Key{"group_score", value_schema, "of a group: top_two or maximum"},
  Key{"masked_groups", value_schema, "scores of the others: zero or minus_infinity"},
  Key{"router_weight", value_schema, "as_is, renormalised or softmax_chosen"},
  Key{"router_factor", value_schema, "multiplies the experts' weights"},
  Key{"weigh_input", value_schema, "whether the weight multiplies an expert's input"},
  Key{"experts_activation", value_schema, "of the experts"},
  Key{"experts_clamp", value_schema, "the largest number inside of an expert"},
  Key{"mlp_clamp", value_schema, "the same of a dense feed-forward, and of shared experts"},
  Key{"clamp_activated", value_schema, "whether the gate is limited after its activation, not before"},
  Key{"head_norm_span", value_schema, "what the norm after the heads is over"},
  Key{"delta_rule", value_schema, "whether a new value replaces what the state has for its key"},
  Key{"decay_kind", value_schema, "none, constant, head or channel"},
  Key{"qk_heads", value_schema, "which heads of queries and keys a state reads: grouped or tiled"},
  Key{"index_top", value_schema, "how many keys the indexer keeps"},
};
/// Keys of `tensors` besides the names of a layer's own tensors (`mha-inspect names`).
inline constexpr std::array layer_tensor_keys{
  Key{"W_kv", tensor_schema, "keys' and values' projections in one"},
  Key{"W_qk", tensor_schema, "queries' and keys' projections in one"},
  Key{"W_mixer", tensor_schema, "several maps of a mixer that is not computed in one: W_gate, W_beta …"},
  Key{"W_rates", tensor_schema, "W_beta and W_decay in one"},
  Key{"conv", tensor_schema, "its convolutions in one"},
  Key{"experts.in_up", tensor_schema, "experts.in and experts.up in one"},
  Key{"experts.out_stacked", tensor_schema, "experts.out where the file has all experts in one tensor, beside experts.out by number"},
  Key{"shared.in_up", tensor_schema, "shared.in and shared.up in one"},
  Key{"mlp.in", tensor_schema, "the feed-forward's first map; the gate of a gated one"},
  Key{"mlp.up", tensor_schema, "the other factor of a gated feed-forward"},
  Key{"mlp.in_up", tensor_schema, "both in one"},
  Key{"mlp.product_bias", tensor_schema, "added to the product of a gated feed-forward's factors"},
  Key{"mlp.out", tensor_schema, "the feed-forward's second map"},
  Key{"mlp.layer_in", tensor_schema, "the first map of what a layer adds of the tokens' embedding for it"},
  Key{"mlp.layer_out", tensor_schema, "the second"},
  Key{"mlp.stream_scale", tensor_schema, "one number that multiplies the stream after the layer"},
};
inline constexpr std::array layer_norm_keys{
  Key{"norm", norm_schema, "before attention; of x + attention in a post block; of attention in post_inside"},
  Key{"post_norm", norm_schema, "of attention's output in a sandwich"},
  Key{"mlp.norm", norm_schema, "the same of the feed-forward"},
  Key{"mlp.post_norm", norm_schema, "of the feed-forward's output in a sandwich"},
  Key{"mlp.layer_norm", norm_schema, "of what a layer adds of the tokens' embedding for it"},
  Key{"mlp.inner_norm", norm_schema, "of what mlp.out multiplies"},
  Key{"router.norm", norm_schema, "of the stream, for a mixture's router; else it sees what mlp.norm makes"},
  Key{"experts.norm", norm_schema, "the same for the experts that it chooses"},
  Key{"experts.post_norm", norm_schema, "of the chosen experts' weighed sum"},
  Key{"shared.post_norm", norm_schema, "of the shared experts' result"},
};
// clang-format on

} // namespace mha::description
