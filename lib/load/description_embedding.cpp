#include <mha/load/description_parts.hpp>

#include <fmt/format.h>

#include <utility>

namespace mha::description {

using naming::DescribedTensor;
using naming::Description;

namespace {

class EmbeddingReader {
public:
  EmbeddingReader(const Parse& parse, Description& description)
      : parse_(parse), description_(description) {}

  void read(const JsonTree& tree) {
    if (!tree.is_list() && !tree.is_object())
      tree.refuse("embed must be a list of steps: table, sinusoid, linear, prepend or norm");
    for (const JsonTree& step : tree.elements) read_step(step);
    // A family's file names its steps, so that a case can change one of them.
    for (const auto& [name, step] : tree.members)
      if (!step.is_null()) read_step(step);
    if (!adds_after_linear_) return;
    if (description_.linear_place != ProjectionPlace::tokens)
      tree.refuse("tables come before and after the linear map, but only the tokens' table may "
                  "come before it");
  }

private:
  void read_step(const JsonTree& step) {
    require_known(step, "a step of embed", embed_keys);
    const JsonTree *table = step.find("table"), *map = step.find("linear"),
                   *norm = step.find("norm"), *sinusoid = step.find("sinusoid"),
                   *rows = step.find("prepend");
    const bool adds_rows = table || sinusoid;
    if (adds_rows + (map != nullptr) + (norm != nullptr) + (rows != nullptr) != 1 ||
        (table && sinusoid))
      step.refuse("a step of embed is one of table, sinusoid, linear, prepend and norm");
    for (const char* key : {"shared", "drops_mask"})
      if (const JsonTree* member = step.find(key); member && !table)
        member->refuse(fmt::format("{} is only for a table", key));
    for (const char* key : {"base", "inclusive", "length"})
      if (const JsonTree* member = step.find(key); member && !sinusoid)
        member->refuse(fmt::format("{} is only for sinusoid", key));
    for (const char* key : {"map", "map_norm"})
      if (const JsonTree* member = step.find(key); member && !is_by_layer(step))
        member->refuse(fmt::format("{} is only for a table by layer", key));
    if (is_by_layer(step)) {
      read_layer_table(step);
    } else if (adds_rows) {
      if (has_norm_) step.refuse("a table after embed's norm is not supported yet");
      sinusoid ? read_sinusoid(step) : read_table(step);
      adds_after_linear_ = adds_after_linear_ || has_linear_;
    } else if (map) {
      if (std::exchange(has_linear_, true)) step.refuse("a second linear map is not supported yet");
      read_linear(step);
    } else if (rows) {
      read_prepended_rows(step, *rows);
    } else {
      if (std::exchange(has_norm_, true)) step.refuse("a second norm is not supported yet");
      add_norm(*norm);
    }
  }

  void add_norm(const JsonTree& tree) {
    if (tree.is_null()) return;
    naming::DescribedNorm norm = parse_.norm("embed.norm", tree);
    if (norm.kind != "none") description_.norms.emplace("embed.norm", std::move(norm));
  }

  static bool is_by_layer(const JsonTree& step) {
    const JsonTree* const by = step.find("by");
    return by && step.find("table") && by->is_text() && by->text == "layer";
  }

  /// Of the tokens' embeddings for each layer: their table, and a map and a norm.
  void read_layer_table(const JsonTree& step) {
    DescribedTensor table = parse_.tensor_named("embed.layer", *step.find("table"));
    table.bias = "", table.layout = "io";
    description_.tensors.emplace("embed.layer", std::move(table));
    const JsonTree *map = step.find("map"), *norm = step.find("map_norm");
    if (!map) step.refuse("a table by layer needs a map");
    DescribedTensor described = parse_.tensor_named("embed.layer_map", *map);
    described.bias = "", described.layout = "oi";
    description_.tensors.emplace("embed.layer_map", std::move(described));
    if (norm)
      description_.norms.emplace("embed.layer_norm", parse_.norm("embed.layer_norm", *norm));
  }

  void read_table(const JsonTree& step) {
    const JsonTree *by = step.find("by"), *scale = step.find("scale");
    const std::string kind = by ? by->as_text("by") : "token";
    if (kind != "token" && kind != "position" && kind != "type")
      by->refuse(fmt::format("by is '{}': token, position, type or layer expected", kind));
    const std::string key = "embed." + kind;
    refuse_second_table(step, key, kind);
    if (has_linear_ && kind == "token")
      step.refuse("the tokens' table comes after linear, but must come before it");
    if (kind == "token" && !description_.first_rows.empty())
      step.refuse("prepend is for models that take vectors, but embed has a table by token");
    if (step.find("bias")) step.find("bias")->refuse("a table has no bias");
    DescribedTensor table = parse_.tensor_named(key, *step.find("table"));
    table.bias = "", table.layout = "io";
    if (const JsonTree* layout = step.find("layout")) table.layout = layout_of(*layout, 2);
    description_.tensors.emplace(key, std::move(table));
    if (const JsonTree* shared = step.find("shared"))
      description_.shared_tokens = shared->as_text("shared");
    if (const JsonTree* drops = step.find("drops_mask"))
      description_.drops_mask = drops->as_boolean("drops_mask");
    if (scale) {
      if (kind == "type") scale->refuse("scale is only for a table by token or position");
      (kind == "token" ? description_.token_scale : description_.position_scale) =
          value_of(*scale, "scale");
    }
    if (const JsonTree* first = step.find("first")) {
      if (kind != "position") first->refuse("first is only for a table by position");
      read_first_position(*first);
    }
  }

  void read_sinusoid(const JsonTree& step) {
    refuse_second_table(step, "embed.position", "position");
    description_.sinusoid = sinusoid_of(step);
    if (const JsonTree* scale = step.find("scale"))
      description_.position_scale = value_of(*scale, "scale");
    if (const JsonTree* first = step.find("first")) read_first_position(*first);
  }

  /// Whether embed has more tables than the tokens'.
  bool has_other_tables() const {
    return description_.tensors.contains("embed.position") || description_.sinusoid.is_given() ||
           description_.tensors.contains("embed.type");
  }

  void refuse_second_table(const JsonTree& step, const std::string& key,
                           std::string_view kind) const {
    if (description_.tensors.contains(key) ||
        (kind == "position" && description_.sinusoid.is_given()))
      step.refuse(fmt::format("a second table by {}", kind));
  }

  void read_first_position(const JsonTree& first) {
    if (first.is_text() && first.text == "pad")
      description_.counts_from_pad = true;
    else
      description_.first_position = value_of(first, "first");
  }

  void refuse_table_keys(const JsonTree& step) const {
    for (const char* key : {"by", "scale", "first"})
      if (const JsonTree* member = step.find(key))
        member->refuse(fmt::format("{} is only for a table", key));
  }

  void read_linear(const JsonTree& step) {
    refuse_table_keys(step);
    if (!description_.first_rows.empty())
      step.refuse("a linear map after prepend is not supported yet");
    DescribedTensor map = parse_.tensor_named("embed.linear", *step.find("linear"));
    map.layout = "oi";
    if (const JsonTree* layout = step.find("layout")) map.layout = layout_of(*layout, 2);
    if (const JsonTree* bias = step.find("bias")) {
      map.needs_bias = bias->is_true();
      if (!map.needs_bias) map.bias = bias_of(*bias);
    }
    description_.tensors.emplace("embed.linear", std::move(map));
    description_.linear_place = has_norm_            ? ProjectionPlace::normed
                                : has_other_tables() ? ProjectionPlace::sum
                                                     : ProjectionPlace::tokens;
  }

  /// Reads rows that precede the input vectors, such as a class token.
  void read_prepended_rows(const JsonTree& step, const JsonTree& rows) {
    refuse_table_keys(step);
    for (const char* key : {"layout", "bias"})
      if (const JsonTree* member = step.find(key))
        member->refuse(fmt::format("{} is only for a table or a linear map", key));
    if (description_.tensors.contains("embed.token"))
      step.refuse("prepend is for models that take vectors, but embed has a table by token");
    if (has_norm_ || has_other_tables())
      step.refuse("prepend after a table or the norm is not supported yet");
    DescribedTensor tensor = parse_.tensor_named("embed.prepend", rows);
    tensor.bias = "", tensor.layout = "io";
    description_.first_rows.push_back(std::move(tensor));
  }

  const Parse& parse_;
  Description& description_;
  bool has_norm_ = false, has_linear_ = false; ///< among the steps read so far
  bool adds_after_linear_ = false;             ///< whether a table follows the linear map
};

} // namespace

void read_embedding(const JsonTree& embed, const Parse& parse, Description& description) {
  EmbeddingReader(parse, description).read(embed);
}

} // namespace mha::description
