// Reads the parts before and after a whole model's layers: its embedding, last norm and head.

#include <mha/load/model_reader.hpp>
#include <mha/load/whole_model.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace mha {

using naming::DescribedNorm;
using naming::DescribedTensor;
using naming::Group;

void WholeModel::read_ends() {
  const ModelReader reader(layers_[0].group, *description_);
  read_embedding(reader);
  read_layer_embedding(reader);
  read_last_norm(reader);
  read_head(reader);
}

/// A model that takes vectors instead of tokens gets a table without rows, of the stream's width.
Tensor WholeModel::no_tokens(const ModelReader& reader) const {
  const DescribedFile& file = reader.file();
  DType dtype = DType::f32;
  std::size_t width = file.stream_width().value_or(0);
  const auto is_of = [&](const io::Entry& entry) { dtype = entry.dtype; };
  if (const DescribedTensor* map = description_->tensor("embed.linear")) {
    const io::Entry W = file.embedding_map(*map).W;
    is_of(W), width = W.shape[0];
  } else if (!description_->first_rows.empty()) {
    is_of(file.rows_in_front());
  } else if (const DescribedTensor* other = description_->tensor("embed.position")) {
    is_of(file.rows(*other));
  } else {
    for (const auto& [key, tensor] : description_->tensors)
      if (const io::Entry* entry = naming::is_of_layer(key) ? file.weight(tensor) : nullptr) {
        is_of(key.starts_with("W_") || key.starts_with("mlp.") ? file.matrix(tensor) : *entry);
        break;
      }
  }
  return Tensor(dtype, {0, width});
}

namespace {

/// √n in the precision of a table's rows, as Transformers has it: √3072 = 55.4256 is 55.5 in
/// bfloat16. For GGUF in float32, whatever the table is stored in, as llama.cpp has it.
double rounded_root(std::size_t n, const Tensor& table, const Group& group) {
  const double root = std::sqrt(static_cast<double>(n));
  const DType dtype = group.contents->format == "gguf" ? DType::f32 : table.dtype();
  return value_at(convert(Tensor::of<double>({1}, std::span(&root, 1)), dtype), 0);
}

} // namespace

void WholeModel::read_embedding(const ModelReader& reader) {
  const Group& group = layers_[0].group;
  Embedding& e = embedding_;
  e.tokens = description_->tensor("embed.token") ? reader.table("embed.token") : no_tokens(reader);
  const std::size_t narrow = e.tokens.shape()[1];
  if (description_->tensor("embed.linear")) {
    e.projection = reader.linear("embed.linear", narrow);
    e.projection_place = description_->linear_place;
  }
  const std::size_t d = width(),
                    summed = e.projection_place == ProjectionPlace::tokens ? d : narrow,
                    normed = e.projection_place == ProjectionPlace::normed ? narrow : d;
  e.positions = description_->sinusoid.is_given() ? group.read(reader.file().sinusoid(summed))
                                                  : reader.table("embed.position");
  // Models without types have no table of them.
  const DescribedTensor* const types = description_->tensor("embed.type");
  if (types && (reader.file().table(*types) || !description_->is_family ||
                group.configured_number({"type_vocab_size"}).value_or(0) > 0))
    e.types = reader.table("embed.type");
  for (const auto& [key, table] :
       {std::pair("embed.position", &e.positions), std::pair("embed.type", &e.types)}) {
    if (table->empty() || table->shape()[1] == summed) continue;
    if (const DescribedTensor* described = description_->tensor(key);
        described && !description_->is_family)
      reader.file().require_axis(*described, reader.file().rows(*described), 1, summed,
                                 "has rows of");
    fail("{}: {} are {} wide, the tokens' vectors {}", group.contents->name,
         table == &e.positions ? "positions" : "types", table->shape()[1], summed);
  }
  if (!description_->first_rows.empty()) {
    const io::Entry rows = reader.file().rows_in_front();
    reader.file().require_axis(description_->first_rows[0], rows, 1, d, "has rows of");
    first_rows_ = group.read(rows);
  }
  set_token_scale();
  set_positions();
  if (description_->drops_mask) e.mask_token = mask_token();
  e.norm = reader.norm("embed.norm", normed);
}

void WholeModel::read_layer_embedding(const ModelReader& reader) {
  if (!description_->tensor("embed.layer")) return;
  LayerEmbedding& e = layer_embedding_;
  e.table = reader.table("embed.layer");
  const std::size_t columns = e.table.shape()[1], layers = layers_.size();
  if (columns % layers != 0)
    fail("{}: {} has rows of {} numbers: as many for each of {} layers expected",
         layers_[0].group.contents->name, description_->tensor("embed.layer")->name, columns,
         layers);
  e.width = columns / layers;
  e.scale = rounded_root(e.width, e.table, layers_[0].group);
  e.map = reader.linear("embed.layer_map", width(), columns);
  e.norm = reader.norm("embed.layer_norm", e.width);
}

void WholeModel::set_positions() {
  const Group& group = layers_[0].group;
  if (description_->first_position.is_given()) {
    const double first = description_->first_position.number(group).value_or(0);
    if (!(first >= 0 && first <= 1e9) || first != std::floor(first))
      fail("{}: the first position is {}: a whole number from 0 on, or \"pad\" expected",
           description_->first_position.where, first);
    embedding_.first_position = static_cast<std::size_t>(first);
  }
  if (!description_->counts_from_pad) return;
  const auto pad_id = group.configured({"pad_token_id"});
  if (pad_id && !pad())
    fail("{}: config.json has pad_token_id {}, from which positions count: a token's number "
         "expected, 0 to {}",
         group.contents->name, *pad_id, vocabulary() - 1);
  embedding_.pad = pad().value_or(1);
}

void WholeModel::read_last_norm(const ModelReader& reader) {
  last_norm_ = reader.norm("final_norm", width());
  if (!description_->is_family) return;
  const DescribedNorm* const last = description_->norm("final_norm");
  const DescribedNorm* const inner =
      description_->norm(description_->normalises_before() ? "mlp.norm" : "norm");
  if (last && inner && last_norm_.kind == InputNorm::layer && last_norm_.bias.empty() &&
      reader.file().bias(*inner))
    fail("{}: {}.bias is missing, though the layers' norms have theirs",
         layers_[0].group.contents->name, reader.file().whole_name("final_norm", last->weight));
}

namespace {

/// Each row divided by its length + 10⁻⁷: of (d_model, vocabulary), the weights of one input.
Tensor with_unit_rows(const Tensor& W) {
  constexpr double least = 1e-7;
  const std::size_t columns = W.shape()[1];
  std::vector<double> numbers = values_in_double(W);
  for (auto row = numbers.begin(); row != numbers.end();
       row += static_cast<std::ptrdiff_t>(columns)) {
    const auto end = row + static_cast<std::ptrdiff_t>(columns);
    const double length = std::sqrt(std::inner_product(row, end, row, 0.0)) + least;
    std::transform(row, end, row, [&](double number) { return number / length; });
  }
  return Tensor::of<double>(W.shape(), numbers);
}

} // namespace

/// Reads the head, which base models do not have.
void WholeModel::read_head(const ModelReader& reader) {
  const Group& group = layers_[0].group;
  const DescribedTensor* const decoder = description_->tensor("head");
  const DescribedTensor* const dense = description_->tensor("head.dense");
  if (!decoder && !description_->tied) return;
  if (description_->is_family && dense && !reader.file().weight(*dense))
    return note_lost_head(*dense);
  ModelHead head;
  head.scale = description_->head_scale.number(group).value_or(1);
  std::size_t into_decoder = width();
  if (dense) {
    head.dense = reader.linear("head.dense", into_decoder);
    head.activation =
        reader.activation(description_->head_activation.is_given() ? description_->head_activation
                                                                   : description_->activation);
    into_decoder = head.dense.out();
    head.norm = reader.norm("head.norm", into_decoder);
  }
  if (!read_decoder(reader, into_decoder, head)) return note_lost_head(*decoder);
  read_decoder_bias(reader, head);
  if (description_->unit_inputs.value(group).value_or("false") == "true")
    head.decoder.W = with_unit_rows(head.decoder.W);
  head.softcap = description_->softcap.number(group).value_or(0);
  if (description_->is_family && !description_->softcap.keys.empty() &&
      group.configured(description_->softcap.keys[0]) && !(head.softcap > 0) &&
      group.contents->format != "gguf")
    fail("config.json: {} is {}: a number above 0 expected", description_->softcap.keys[0],
         head.softcap);
  head_ = std::move(head);
}

std::optional<bool> WholeModel::tied_by_config() const {
  const Group& group = layers_[0].group;
  return group.description ? std::nullopt : group.flag({"tie_word_embeddings"});
}

namespace {

/// The name of the head's weight without its ending.
std::string name_of_weight(const ModelReader& reader, const DescribedTensor& head) {
  const std::string& name = reader.file().weight(head)->name;
  constexpr std::string_view ending = ".weight";
  return name.ends_with(ending) ? name.substr(0, name.size() - ending.size()) : name;
}

} // namespace

/// Reads the decoder's own weight, or takes the embedding's where they are tied; false where the
/// files have neither.
bool WholeModel::read_decoder(const ModelReader& reader, std::size_t in, ModelHead& head) {
  const Group& group = layers_[0].group;
  const std::optional<bool> tied = tied_by_config();
  if (tied.value_or(description_->tied)) {
    head.decoder.W = transposed_when_read(embedding_.tokens);
    if (const std::size_t narrow = embedding_.tokens.shape()[1]; narrow != in)
      fail("{}: the head is the embedding, whose rows have {}, but it gets {}",
           group.contents->name, counted(narrow, "numbers"), in);
    note_other_head(reader, tied ? "config.json ties" : "models of this kind tie");
    return true;
  }
  const DescribedTensor& decoder = *description_->tensor("head");
  if (description_->is_family && !reader.file().weight(decoder)) return false;
  head.decoder = reader.linear("head", in);
  if (const std::size_t rows = head.decoder.out();
      !description_->own_vocabulary && rows != vocabulary())
    fail("{}: {} gives {}, but the embedding has {} tokens", group.contents->name,
         name_of_weight(reader, decoder), counted(rows, "logits"), vocabulary());
  return true;
}

void WholeModel::read_decoder_bias(const ModelReader& reader, ModelHead& head) const {
  const Group& group = layers_[0].group;
  const std::string& file = group.contents->name;
  Tensor& b = head.decoder.b;
  if (const io::Entry* entry = reader.head_bias(tied_by_config().value_or(description_->tied)))
    if (b.empty() || description_->tensor("head.bias")) {
      if (description_->is_family && entry->shape.size() != 1)
        fail("{}: {} is {}: one axis expected", file, entry->name, to_string(entry->shape));
      b = group.read(*entry);
    }
  const DescribedTensor* const other = description_->tensor("head.bias");
  if (b.empty() && other && !description_->is_family)
    reader.file().as_stored(*other); // throws: it is missing
  if (b.empty() && other && !head.dense.b.empty())
    fail("{}: {} is missing, though the head has its other bias", file, other->name);
  if (!b.empty() && b.count() != head.decoder.out())
    fail("{}: the head's bias has {}, but {} tokens", file, counted(b.count(), "numbers"),
         head.decoder.out());
}

void WholeModel::set_token_scale() {
  Embedding& e = embedding_;
  const Group& group = layers_[0].group;
  const std::optional<std::string> scale = description_->token_scale.value(group);
  if (!scale) return;
  const double root = std::sqrt(static_cast<double>(width()));
  if (*scale == "sqrt_d_model")
    e.scale = root;
  else if (*scale == "rounded_sqrt_d_model")
    e.scale = rounded_root(width(), e.tokens, group);
  else
    e.scale = description_->token_scale.number(group).value_or(1);
}

/// Warns of a missing head where the model's class predicts tokens; a base model has none.
void WholeModel::note_lost_head(const DescribedTensor& lost) {
  const std::string type = layers_[0].group.configured("architectures").value_or("");
  for (const char* kind : {"ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForConditionalGeneration"})
    if (type.find(kind) != std::string::npos) {
      notes_.push_back(warning(
          fmt::format("{}: there is no {}, though config.json names {}: no logits are computed",
                      layers_[0].group.contents->name, lost.name, type)));
      return;
    }
}

/// Warns of a head in the file that differs from the embedding although the two are tied.
void WholeModel::note_other_head(const ModelReader& reader, std::string_view what_ties) {
  const DescribedTensor* const decoder = description_->tensor("head");
  const io::Entry* const entry = decoder ? reader.file().weight(*decoder) : nullptr;
  if (!entry) return;
  const Tensor other = layers_[0].group.read(*entry), &tokens = embedding_.tokens;
  if (other.dtype() == tokens.dtype() && other.shape() == tokens.shape() &&
      std::equal(other.raw(), other.raw() + other.bytes(), tokens.raw()))
    return;
  notes_.push_back(warning(fmt::format(
      "{}: {} is not the embedding, although {} the two: the embedding is the head here, as in "
      "Transformers. If the file is right, config.json must have \"tie_word_embeddings\": false",
      layers_[0].group.contents->name, entry->name, what_ties)));
}

} // namespace mha
