// What captures of other programs may be called, asked name by name: in models of each kind of
// block, and of a lone layer.

#include "inventory/inventory.hpp"

#include <mha/compare/capture_names.hpp>
#include <mha/compare/captures.hpp>
#include <mha/compare/names.hpp>
#include <mha/system/words.hpp>

#include <map>

namespace mha::test {

namespace {

std::string names_of(const std::vector<Stage>& stages) {
  std::string text;
  for (const Stage stage : stages) text += (text.empty() ? "" : ", ") + std::string(name_of(stage));
  return text;
}

/// Blocks by the words that stand before a name: "parallel: layers.3.mlp".
const std::map<std::string, TransformerBlock>& blocks() {
  static const std::map<std::string, TransformerBlock> all = [] {
    std::map<std::string, TransformerBlock> list;
    for (const auto& [word, shape] :
         std::map<std::string, BlockShape>{{"pre", BlockShape::pre},
                                           {"parallel", BlockShape::parallel},
                                           {"sandwich", BlockShape::sandwich},
                                           {"post", BlockShape::post},
                                           {"post_inside", BlockShape::post_inside}})
      list[word].shape = shape;
    list["gated"].mlp.up.W = list["gated"].mlp.out.W = Tensor(DType::f32, {1, 1});
    for (auto& [word, block] : list) block.mlp.out.W = Tensor(DType::f32, {1, 1});
    return list;
  }();
  return all;
}

/// "gated: layers.3.mlp" → what it means; "" where nothing is known of it.
std::string meaning_of_capture(const std::string& question) {
  const std::size_t colon = question.find(": ");
  const std::string word = question.substr(0, colon);
  Surroundings model;
  if (const auto block = blocks().find(word); block != blocks().end())
    model.block = &block->second;
  else if (word == "added")
    model.bare_embedding = false;
  const Capture capture = capture_of(question.substr(colon + 2), model);
  std::string text = names_of(capture.stages);
  if (!capture.side_by_side.empty()) text += "columns of " + names_of(capture.side_by_side);
  if (text.empty()) return capture.why.empty() ? "" : "no step of a layer or model, with a reason";
  if (capture.layer) text += " of layer " + std::to_string(*capture.layer);
  if (capture.of_last) text += " of the last layer";
  if (capture.product) text += ", without bias";
  if (capture.cached) text += ", of a cache";
  if (capture.is_layer) text += ", the layer itself";
  if (capture.element) text += ", element " + std::to_string(*capture.element);
  return text;
}

Names captures_asked() {
  std::vector<std::string> before{"unknown", "added"};
  for (const auto& [word, block] : blocks()) before.push_back(word);
  Names questions;
  for (const CaptureRow& row : capture_rows())
    for (const std::string& words : words_of<std::string>(row.words, " "))
      for (const std::string& block : before)
        for (const char* end : {"", ".input"})
          questions.insert(block + ": " + (row.of_model ? "" : "layers.3.") + words + end);
  return questions;
}

/// A module's and a node's names in the ways in which programs write paths.
Names paths_asked() {
  Names questions;
  for (const char* path : {"model.layers.3.mlp.down_proj.input",
                           "model.layers.3.mlp.down_proj.output",
                           "ffn_inp-3",
                           "ffn_out-3",
                           "Qcur-3",
                           "Qcur-3 (reshaped)",
                           "kq_soft_max_ext-3",
                           "l_out-3",
                           "transformer.h[3].output[0]",
                           "transformer.h.3.output.0",
                           "transformer.h.3.mlp.c_fc",
                           "blocks.3.hook_resid_mid",
                           "blocks.3.attn.hook_pattern",
                           "blocks.3.mlp.hook_post",
                           "layers.3.mlp_act",
                           "layers.3.weights",
                           "/model/layers.3/mlp/Mul_output_0",
                           "/model/layers.3/mlp/down_proj/MatMul_output_0",
                           "/model/layers.3/self_attn/Softmax_output_0",
                           "present.3.key",
                           "present.3.value",
                           "past_key_values.3.key",
                           "past_key_values.3.value",
                           "model_layers_3_mlp_down_proj",
                           "model_layers_3_self_attn_q_proj",
                           "layer3_attn_out",
                           "attn_out_3",
                           "intermediates/layers_3/mlp/__call__/0",
                           "blk.3.ffn_down",
                           "encoder.layer.3.attention.self",
                           "bert.encoder.layer.3.output.dense",
                           "gpt_neox.layers.3.attention.dense",
                           "hidden_states.3",
                           "hidden_states[3]",
                           "attentions.3",
                           "attentions[3]",
                           "decoder.block.3.layer.0.SelfAttention",
                           "model.embed_tokens",
                           "model.norm",
                           "model.norm.input",
                           "lm_head",
                           "lm_head.input",
                           "transformer.wte",
                           "transformer.ln_f",
                           "logits",
                           "result_output",
                           "result_norm",
                           "inp_embd"})
    for (const char* block : {"unknown", "pre", "gated", "post"})
      questions.insert(std::string(block) + ": " + path);
  return questions;
}

Names layer_words() {
  Names questions;
  for (const char* word : {"layers", "layer", "h", "blk", "blocks", "block", "resblocks",
                           "encoder_layers", "stages", "level", "stack"})
    questions.emplace(word);
  return questions;
}

Names words_of_results() {
  Names questions;
  for (const auto& [word, stages] : result_words()) {
    questions.emplace(word);
    questions.insert("blocks.0.attn." + std::string(word));
    questions.insert("ref_" + std::string(word));
    questions.insert(std::string(word) + "_fp32");
  }
  return questions;
}

} // namespace

std::vector<Section> capture_sections() {
  return {
      asked("captures of modules and nodes", captures_asked, meaning_of_capture),
      asked("captures by their paths", paths_asked, meaning_of_capture),
      asked("words before a layer's number", layer_words,
            [](const std::string& word) {
              return std::string(is_layer_word(word) ? "a layer's" : "");
            }),
      asked("names of saved results", words_of_results,
            [](const std::string& word) { return names_of(result_stages(word)); }),
  };
}

} // namespace mha::test
