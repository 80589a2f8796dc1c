#include <mha/load/description_parts.hpp>

#include <fmt/format.h>

#include <utility>

namespace mha::description {

using naming::DescribedTensor;
using naming::Description;

namespace {

class EmbeddingReader {
public:
  EmbeddingReader(const Parse& parse, Description& to) : parse_(parse), to_(to) {}

  void read(const JsonTree& tree) {
    if (!tree.is_list() && !tree.is_object())
      tree.refuse("embed must be a list of tables, linear maps, rows in front and norms");
    for (const JsonTree& step : tree.elements) read_step(step);
    for (const auto& [name, step] : tree.members) // named steps, so that cases may change one
      if (!step.is_null()) read_step(step);
    if (!added_) return;
    if (to_.linear_place != ProjectionPlace::tokens)
      tree.refuse(
          "tables on each side of the linear map: only the tokens' table may come before it");
  }

private:
  void read_step(const JsonTree& step) {
    require_known(step, "a step of embed", embed_keys);
    const JsonTree *table = step.find("table"), *map = step.find("linear"),
                   *norm = step.find("norm"), *sinusoid = step.find("sinusoid"),
                   *rows = step.find("prepend");
    const bool adds = table || sinusoid;
    if (adds + (map != nullptr) + (norm != nullptr) + (rows != nullptr) != 1 || (table && sinusoid))
      step.refuse("a step of embed is one of table, sinusoid, linear, prepend and norm");
    for (const char* own : {"shared", "drops_mask"})
      if (const JsonTree* member = step.find(own); member && !table)
        member->refuse(fmt::format("{} is only for a table", own));
    for (const char* own : {"base", "inclusive", "length"})
      if (const JsonTree* member = step.find(own); member && !sinusoid)
        member->refuse(fmt::format("{} is only for sinusoid", own));
    if (adds) {
      if (normed_) step.refuse("a table after the norm of embed is not covered here yet");
      sinusoid ? read_sinusoid(step) : read_table(step);
      added_ = added_ || linear_;
    } else if (map) {
      if (std::exchange(linear_, true)) step.refuse("a second linear map is not covered here yet");
      read_linear(step);
    } else if (rows) {
      read_rows(step, *rows);
    } else {
      if (std::exchange(normed_, true)) step.refuse("a second norm is not covered here yet");
      add_norm(*norm);
    }
  }

  void add_norm(const JsonTree& tree) {
    if (tree.is_null()) return;
    naming::DescribedNorm norm = parse_.norm("embed.norm", tree);
    if (norm.kind != "none") to_.norms.emplace("embed.norm", std::move(norm));
  }

  void read_table(const JsonTree& step) {
    const JsonTree *by = step.find("by"), *scale = step.find("scale");
    const std::string kind = by ? by->as_text("by") : "token";
    if (kind != "token" && kind != "position" && kind != "type")
      by->refuse(fmt::format("by is '{}': token, position or type expected", kind));
    const std::string key = "embed." + kind;
    require_first_table(step, key, kind);
    if (linear_ && kind == "token") step.refuse("the tokens' table comes after linear");
    if (kind == "token" && !to_.first_rows.empty())
      step.refuse("a table of tokens beside prepend, which is for models that take vectors");
    if (step.find("bias")) step.find("bias")->refuse("a table has no bias");
    DescribedTensor table = parse_.tensor_named(key, *step.find("table"));
    table.bias = "", table.layout = "io";
    if (const JsonTree* layout = step.find("layout")) table.layout = layout_of(*layout, 2);
    to_.tensors.emplace(key, std::move(table));
    if (const JsonTree* shared = step.find("shared")) to_.shared_tokens = shared->as_text("shared");
    if (const JsonTree* drops = step.find("drops_mask"))
      to_.drops_mask = drops->as_boolean("drops_mask");
    if (scale) {
      if (kind == "type") scale->refuse("only the tokens' and the positions' rows are scaled");
      (kind == "token" ? to_.token_scale : to_.position_scale) = value_of(*scale, "scale");
    }
    if (const JsonTree* first = step.find("first")) {
      if (kind != "position") first->refuse("first is only for a table by position");
      read_first(*first);
    }
  }

  void read_sinusoid(const JsonTree& step) {
    require_first_table(step, "embed.position", "position");
    to_.sinusoid = sinusoid_of(step);
    if (const JsonTree* scale = step.find("scale")) to_.position_scale = value_of(*scale, "scale");
    if (const JsonTree* first = step.find("first")) read_first(*first);
  }

  bool has_others() const {
    return to_.tensors.contains("embed.position") || to_.sinusoid.is_given() ||
           to_.tensors.contains("embed.type");
  }
  void require_first_table(const JsonTree& step, const std::string& key,
                           std::string_view kind) const {
    if (to_.tensors.contains(key) || (kind == "position" && to_.sinusoid.is_given()))
      step.refuse(fmt::format("a second table by {}", kind));
  }
  void read_first(const JsonTree& first) {
    if (first.is_text() && first.text == "pad")
      to_.counts_from_pad = true;
    else
      to_.first_position = value_of(first, "first");
  }

  void refuse_of_table(const JsonTree& step) const {
    for (const char* other : {"by", "scale", "first"})
      if (const JsonTree* member = step.find(other))
        member->refuse(fmt::format("{} is only for a table", other));
  }

  void read_linear(const JsonTree& step) {
    refuse_of_table(step);
    if (!to_.first_rows.empty()) step.refuse("a linear map after prepend is not covered here yet");
    DescribedTensor map = parse_.tensor_named("embed.linear", *step.find("linear"));
    map.layout = "oi";
    if (const JsonTree* layout = step.find("layout")) map.layout = layout_of(*layout, 2);
    if (const JsonTree* bias = step.find("bias"))
      if (!(map.needs_bias = bias->is_true())) map.bias = bias_of(*bias);
    to_.tensors.emplace("embed.linear", std::move(map));
    to_.linear_place = normed_        ? ProjectionPlace::normed
                       : has_others() ? ProjectionPlace::sum
                                      : ProjectionPlace::tokens;
  }

  /// A class token: rows before those of the vectors that come in.
  void read_rows(const JsonTree& step, const JsonTree& rows) {
    refuse_of_table(step);
    for (const char* other : {"layout", "bias"})
      if (const JsonTree* member = step.find(other))
        member->refuse(fmt::format("{} is only for a table or a linear map", other));
    if (to_.tensors.contains("embed.token"))
      step.refuse("prepend is for models that take vectors, but embed has a table by token");
    if (normed_ || has_others())
      step.refuse("prepend after a table or the norm is not covered here yet");
    DescribedTensor tensor = parse_.tensor_named("embed.prepend", rows);
    tensor.bias = "", tensor.layout = "io";
    to_.first_rows.push_back(std::move(tensor));
  }

  const Parse& parse_;
  Description& to_;
  bool normed_ = false, linear_ = false, added_ = false; ///< which steps came before
};

} // namespace

void read_embedding(const JsonTree& embed, const Parse& parse, Description& to) {
  EmbeddingReader(parse, to).read(embed);
}

} // namespace mha::description
