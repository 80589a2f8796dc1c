#include <mha/load/model_reader.hpp>

#include <mha/system/words.hpp>
#include <mha/tensor/parts.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

using naming::DescribedNorm;
using naming::DescribedTensor;
using naming::Description;
using naming::Group;

namespace {

Tensor times_factor(const Tensor& weight, double factor) {
  std::vector<double> numbers(weight.count());
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = factor * value_at(weight, i);
  return Tensor::of<double>(weight.shape(), numbers);
}

/// The map of the columns [first, first + count) of two maps side by side.
LinearMap half_of(const LinearMap& both, std::size_t first, std::size_t count) {
  LinearMap half = both;
  half.W = columns_when_read(both.W, first, count);
  if (!both.b.empty()) half.b = part_of_axis(both.b, 0, first, count);
  return half;
}

} // namespace

ModelReader::ModelReader(const Group& group, const Description& description)
    : group_(group), description_(description), file_(description, group) {
  if (description.is_family && file_.block().empty())
    fail("{}: {} is not below {}.N, as in a whole model; {}", group.contents->name, group.prefix,
         layers_word(description), or_describe_it);
}

Tensor ModelReader::table(const char* key) const {
  const DescribedTensor* const tensor = description_.tensor(key);
  return tensor ? group_.read(file_.rows(*tensor)) : Tensor();
}

LinearMap ModelReader::linear(const char* key, std::size_t in, std::size_t out) const {
  const DescribedTensor* const found = description_.tensor(key);
  if (!found) fail("{}: {} does not describe {}", group_.contents->name, description_.title, key);
  const DescribedTensor& tensor = *found;
  const bool embeds = tensor.key == "embed.linear";
  const DescribedFile::Map map = embeds ? file_.embedding_map(tensor) : file_.map(tensor);
  description_.is_family ? check_linear(tensor, map, in, out)
                         : check_described(tensor, map, in, out);
  LinearMap linear;
  linear.W = group_.read(map.W);
  if (map.b) linear.b = group_.read(*map.b);
  return linear;
}

void ModelReader::check_linear(const DescribedTensor& tensor, const DescribedFile::Map& map,
                               std::size_t in, std::size_t out) const {
  const std::string name = file_.whole_name(tensor.key, tensor.name);
  const io::Entry& stored = *file_.weight(tensor);
  const std::size_t takes = map.W.shape[0], gives = map.W.shape[1];
  if (takes != in || (out > 0 && gives != out))
    fail("{}: {} is {}: it takes {} and gives {}, but {}{} expected", group_.contents->name, name,
         to_string(stored.shape), takes, gives, in,
         out > 0 ? fmt::format(" and {} are", out) : " taken are");
  if (map.b && count_of(map.b->shape) != gives)
    fail("{}: {} is {}: {} expected", group_.contents->name, tensor.bias ? map.b->name : name,
         to_string(map.b->shape), counted(gives, "numbers"));
}

/// Checks a map that a line of the user's description describes.
void ModelReader::check_described(const DescribedTensor& tensor, const DescribedFile::Map& map,
                                  std::size_t in, std::size_t out) const {
  const bool last = tensor.key == "mlp.out", of_mlp = tensor.key.starts_with("mlp.");
  file_.require_axis(tensor, map.W, last ? 1 : 0, last ? out : in, last ? "gives" : "takes");
  const std::size_t inner = map.W.shape[last ? 0 : 1], expected = last ? in : out;
  if (of_mlp && expected > 0 && inner != expected)
    fail("{}: {}: {}, read as {}, has {} numbers inside of the feed-forward, another map {}",
         tensor.where, group_.contents->name, map.W.own_name, tensor.layout, inner, expected);
  if (map.b) file_.require_bias(tensor, *map.b, map.W.shape[1]);
}

Norm ModelReader::form(const DescribedNorm& described) const {
  Norm norm;
  norm.kind = described.kind == "rms"     ? InputNorm::rms
              : described.kind == "batch" ? InputNorm::affine
                                          : InputNorm::layer;
  norm.one_plus = described.one_plus;
  if (described.kind != "batch") norm.eps = naming::epsilon_of(described, group_);
  return norm;
}

Norm ModelReader::norm(const char* key, std::size_t width) const {
  const DescribedNorm* const described = description_.norm(key);
  if (!described) return {};
  Norm norm = form(*described);
  const auto [weight, bias] = file_.norm(*described, width);
  if (weight) norm.weight = group_.read(*weight);
  if (bias) norm.bias = group_.read(*bias);
  if (!weight && described->optional) return {};
  if (described->scale.is_given()) {
    const bool by_root = described->scale.value(group_) == "1/sqrt_d_model";
    const double scale = by_root ? 1 / std::sqrt(static_cast<double>(width))
                                 : described->scale.number(group_).value_or(1);
    if (norm.weight.empty() || norm.one_plus)
      fail("{}: scale expects a weight, and no one_plus", described->where);
    norm.weight = times_factor(norm.weight, scale);
  }
  return norm;
}

Activation ModelReader::activation(const naming::DescribedValue& described) const {
  const std::string name = described.is_given() ? described.value(group_).value_or("gelu") : "gelu";
  if (const std::optional<Activation> known = activation_named(name)) return *known;
  std::string_view key = "the activation";
  for (const std::string& word : described.keys)
    if (group_.configured(word)) {
      key = word;
      break;
    }
  fail("config.json: {} is '{}', which is not known here: {}; {}", key, name, activation_names(),
       give_X_instead);
}

/// Reads the first map of the feed-forward; of a gated one both factors.
void ModelReader::read_factors(std::size_t width, FeedForward& mlp) const {
  const DescribedTensor* const both = description_.tensor("mlp.in_up");
  if (!both) {
    mlp.in = linear("mlp.in", width);
    if (description_.tensor("mlp.up")) mlp.up = linear("mlp.up", width, mlp.in.out());
    return;
  }
  const LinearMap map = linear("mlp.in_up", width);
  if (map.out() % 2 != 0)
    fail("{}: {} gives {} numbers: a gate and as many of the other factor expected",
         group_.contents->name, file_.whole_name(both->key, both->name), map.out());
  const std::size_t half = map.out() / 2;
  const bool gate_first = both->split.empty() || both->split[0] == "in";
  mlp.in = half_of(map, gate_first ? 0 : half, half);
  mlp.up = half_of(map, gate_first ? half : 0, half);
}

FeedForward ModelReader::feed_forward(std::size_t width) const {
  FeedForward mlp;
  if (!description_.tensor("mlp.out")) return mlp;
  if (description_.is_family && !description_.tensor("W_router")) refuse_experts();
  mlp.activation = activation(description_.activation);
  mlp.clamp = clamp();
  read_factors(width, mlp);
  if (const DescribedTensor* bias = description_.tensor("mlp.product_bias")) {
    if (mlp.up.W.empty())
      fail("{}: {} has mlp.product_bias without mlp.up", group_.contents->name, description_.title);
    if (!mlp.up.b.empty())
      fail("{}: {} is a bias of mlp.up beside mlp.product_bias: one of them alone is covered here; "
           "\"bias\": false leaves it out",
           description_.tensor("mlp.up")->where, file_.bias(*description_.tensor("mlp.up"))->name);
    const io::Entry* const stored = file_.weight(*bias);
    if (stored || !description_.is_family) mlp.product_bias = group_.read(file_.as_stored(*bias));
    if (stored && count_of(stored->shape) != mlp.up.out())
      fail("{}: {} is {}: {} expected", group_.contents->name, stored->name,
           to_string(stored->shape), counted(mlp.up.out(), "numbers"));
  }
  mlp.inner = norm("mlp.inner_norm", mlp.in.out());
  mlp.out = linear("mlp.out", mlp.in.out(), width);
  return mlp;
}

double ModelReader::stream_scale() const {
  const DescribedTensor* const described = description_.tensor("mlp.stream_scale");
  const io::Entry* const entry = described ? file_.weight(*described) : nullptr;
  if (!entry && described && !described->optional && description_.is_users(*described))
    file_.as_stored(*described); // throws Error
  if (!entry) return 1;
  if (count_of(entry->shape) != 1)
    fail("{}: {} is {}: one number expected", group_.contents->name, entry->name,
         to_string(entry->shape));
  return value_at(group_.read(*entry), 0);
}

Supplement ModelReader::supplement(std::size_t width) const {
  Supplement part;
  if (!description_.tensor("mlp.layer_in")) return part;
  part.activation = activation(description_.activation);
  part.in = linear("mlp.layer_in", width);
  part.out = linear("mlp.layer_out", part.in.out(), width);
  part.norm = norm("mlp.layer_norm", width);
  return part;
}

TransformerBlock ModelReader::block(std::size_t width) const {
  TransformerBlock block;
  block.shape = description_.block;
  block.mixture = mixture(width);
  if (!block.mixture) block.mlp = feed_forward(width);
  const bool after = block.shape == BlockShape::post,
             inside = block.shape == BlockShape::post_inside;
  block.post_attention_norm = inside                                ? norm("norm", width)
                              : block.shape == BlockShape::sandwich ? norm("post_norm", width)
                                                                    : Norm{};
  if (!inside) block.pre_mlp_norm = norm(after ? "norm" : "mlp.norm", width);
  block.post_mlp_norm = inside                                ? norm("mlp.norm", width)
                        : block.shape == BlockShape::sandwich ? norm("mlp.post_norm", width)
                                                              : Norm{};
  if (after) block.post_block_norm = norm("mlp.norm", width);
  block.supplement = supplement(width);
  block.stream_scale = stream_scale();
  // A norm that only multiplies, after each sublayer.
  const double scale = description_.residual_scale.number(group_).value_or(1);
  if (scale != 1) {
    block.shape = BlockShape::sandwich;
    const std::vector<double> factors(width, scale);
    Norm times;
    times.kind = InputNorm::affine;
    times.weight = Tensor::of<double>({width}, factors);
    for (Norm* norm : {&block.post_attention_norm, &block.post_mlp_norm})
      if (norm->weight.empty())
        *norm = times;
      else
        norm->weight = times_factor(norm->weight, scale);
  }
  return block;
}

void ModelReader::require_always() const {
  for (const std::string& name : description_.always) {
    const std::vector<std::string_view> spellings = words_of(name, "|");
    if (spellings.empty()) continue;
    const auto is_there = [&](std::string_view own) {
      return group_.elsewhere(file_.block() + std::string(own));
    };
    if (std::ranges::any_of(spellings, is_there)) continue;
    fail("{}: {}{} is missing, which models of this kind have; {}", group_.contents->name,
         file_.block(), spellings[0], give_X_instead);
  }
}

const io::Entry* ModelReader::head_bias(bool tied) const {
  const DescribedTensor* const head = description_.tensor("head");
  const DescribedTensor* const other = description_.tensor("head.bias");
  const io::Entry* const elsewhere = other ? file_.weight(*other) : nullptr;
  const io::Entry* const own = head ? file_.bias(*head) : nullptr;
  return !own || (tied && elsewhere) ? elsewhere : own;
}

void ModelReader::refuse_experts() const {
  for (std::string_view router :
       {"block_sparse_moe.gate.weight", "mlp.gate.weight", "mlp.router.weight"})
    if (group_.elsewhere(file_.block() + std::string(router)))
      fail("{}: {}{}: a mixture of experts is not covered as a whole model yet; {}",
           group_.contents->name, file_.block(), router, give_X_instead);
}

/// Throws Error where the layer before or after this one has a tensor that this one lacks.
void ModelReader::require_as_beside(const DescribedTensor& tensor) const {
  const std::size_t layer = group_.number().value_or(0);
  const std::string own = fmt::format("{}.", layer);
  if (!file_.block().ends_with("." + own)) return;
  const std::string before = file_.block().substr(0, file_.block().size() - own.size());
  for (const std::size_t other : {layer + 1, layer - 1})
    for (const std::string_view name : words_of(tensor.name, "|"))
      if (const std::string beside = fmt::format("{}{}.{}", before, other, name);
          group_.contents->find(beside))
        fail("{}: {}{} is missing, though {} is there; {}", group_.contents->name, file_.block(),
             name, beside, give_X_instead);
}

} // namespace mha
