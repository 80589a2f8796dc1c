#include <mha/load/described.hpp>

#include <mha/layer/names.hpp>
#include <mha/load/described_file.hpp>
#include <mha/load/described_names.hpp>
#include <mha/load/described_tensors.hpp>
#include <mha/system/one_of.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mha {

using naming::DescribedNorm;
using naming::DescribedTensor;
using naming::Description;
using naming::Group;

namespace {

class Presenter : DescribedFile {
public:
  Presenter(const Description& said, const io::Contents& file, const Group& base,
            const naming::Options& options)
      : DescribedFile(said, file), base_(base), options_(options) {}

  io::Contents contents() {
    count_layers();
    present_embedding();
    for (std::size_t n = 0; n < layers_; ++n) present_layer(n);
    present_ends();
    present_no_tokens();
    io::Contents made = file_;
    made.tensors.clear(), made.order = nullptr;
    made.tensors = std::move(entries_);
    for (const io::Entry& entry : file_.tensors)
      if (!claimed_.contains(entry.name) && !is_ignored(entry.name)) made.tensors.push_back(entry);
    return made;
  }

private:
  bool is_ignored(const std::string& name) const {
    return std::ranges::any_of(said_.ignore,
                               [&](const std::string& pattern) { return is_like(name, pattern); });
  }

  void count_layers() {
    constexpr std::size_t most = 4096;
    if (said_.layers.size() > 1) {
      layers_ = said_.layers.size();
    } else if (said_.num_layers.said()) {
      const double count = said_.num_layers.number(base_).value_or(0);
      if (!(count >= 1 && count <= most) || count != std::floor(count))
        fail("{}: num_layers is {}: a whole number from 1 to {} expected", said_.num_layers.where,
             count, most);
      layers_ = static_cast<std::size_t>(count);
    } else {
      for (const auto& [key, tensor] : said_.tensors)
        if (naming::is_of_layer(key) && tensor.values.empty())
          for (const io::Entry& entry : file_.tensors)
            if (const auto n = number_in(entry.name, whole_pattern(said_, tensor.name, 0)))
              layers_ = std::max(layers_, *n + 1);
      if (layers_ > most) fail("{}: {} layers: at most {} expected", said_.file, layers_, most);
    }
    for (const auto& [name, setting] : said_.settings)
      if (!setting.layers.empty() && setting.layers.size() != layers_)
        fail("{}: {} of {}, but the model has {}", setting.where,
             counted(setting.layers.size(), "values"), name, counted(layers_, "layers"));
  }

  // The layers.

  void present_layer(std::size_t n) {
    const std::string at =
        fmt::format("{}{}.{}.", naming::described_model, naming::described_layers, n);
    inner_ = 0;
    for (const auto& [key, tensor] : said_.tensors) {
      if (!naming::is_of_layer(key)) continue;
      if (!tensor.values.empty())
        add(at + key, values_entry(said_.file, tensor.values));
      else if (tensor.optional && !file_.find(whole_name(said_, tensor.name, n)))
        continue;
      else if (key.starts_with("mlp."))
        present_mlp(at, tensor, n);
      else if (key.starts_with("W_"))
        present_projection(at, tensor, n);
      else
        present_other(at, tensor, n);
    }
    for (const auto& [key, norm] : said_.norms)
      if (naming::is_of_layer(key))
        present_norm(at + key, norm, n, key == "mlp.inner_norm" ? 0 : width_);
  }

  void present_mlp(const std::string& at, const DescribedTensor& tensor, std::size_t n) {
    const std::string name = whole_name(said_, tensor.name, n);
    if (tensor.key == "mlp.product_bias")
      return add(at + "mlp.up.bias", *find(name, tensor.where, true));
    const io::Entry W = multiplied(tensor, matrix(tensor, name, "io"), n);
    const bool out = tensor.key == "mlp.out";
    require_axis(tensor, W, out ? 1 : 0, width_, out ? "gives" : "takes");
    const std::size_t inner = W.shape[out ? 0 : 1] / (tensor.split.empty() ? 1 : 2);
    if (inner_ > 0 && inner != inner_)
      fail("{}: {}: {}, read as {}, has {} numbers inside of the feed-forward, another map {}",
           tensor.where, file_.name, W.own_name, tensor.layout, inner, inner_);
    inner_ = inner;
    const std::optional<io::Entry> b = bias_of(tensor, name, n);
    if (b) require_bias(tensor, *b, W.shape[1]);
    if (b && tensor.key == "mlp.up" && said_.tensors.contains("mlp.product_bias"))
      fail("{}: {} is a bias of mlp.up beside mlp.product_bias: one of them alone is covered here; "
           "\"bias\": false leaves it out",
           tensor.where, b->name_in_file());
    if (tensor.split.empty()) {
      add(at + tensor.key + ".weight", W);
      if (b) add(at + tensor.key + ".bias", *b);
      return;
    }
    for (std::size_t half = 0; half < 2; ++half) {
      const std::string part = at + "mlp." + tensor.split[half];
      add(part + ".weight", columns_entry(W, half * inner, inner));
      if (b) add(part + ".bias", columns_entry(*b, half * inner, inner));
    }
  }

  void present_projection(const std::string& at, const DescribedTensor& tensor, std::size_t n) {
    const std::string name = whole_name(said_, tensor.name, n);
    const io::Entry W = multiplied(tensor, matrix(tensor, name, "io"), n);
    const std::string bias_key = "b" + tensor.key.substr(1);
    // A bias of its own here is one that layers may lack, or values.
    const bool own_bias = said_.tensors.contains(bias_key);
    const std::optional<io::Entry> b = own_bias ? std::nullopt : bias_of(tensor, name, n);
    const bool output = tensor.key == "W_o", main = tensor.split.empty() || tensor.key == "W_qkv";
    if (!output && tensor.key.find("_b") == std::string::npos) {
      if (width_ == 0) width_ = W.shape[W.shape.size() - 2];
      require_axis(tensor, W, W.shape.size() - 2, width_, "takes");
    } else if (output) {
      require_axis(tensor, W, W.shape.size() - 1, width_, "gives");
    }
    if (b) {
      const bool by_heads = W.shape.size() == 3 && tensor.key != "W_o";
      require_bias(tensor, *b, W.shape.back() * (by_heads ? W.shape[0] : 1));
    }
    const bool canonical =
        main && tensor.groups == 0 &&
        (!tensor.by_head || tensor.split == std::vector<std::string>{"q", "k", "v"});
    if (canonical) {
      add(at + tensor.key, W);
      if (b) add(at + bias_key, *b);
      return;
    }
    split_projection(at, tensor, W, b, n);
  }

  void split_projection(const std::string& at, const DescribedTensor& tensor, const io::Entry& W,
                        const std::optional<io::Entry>& b, std::size_t n) {
    const bool has_q = is_one_of("q", tensor.split);
    std::size_t heads = 1, kv_heads = 1;
    if (has_q || tensor.by_head || tensor.groups > 0) {
      heads = count_of(tensor, "num_heads", n, 0);
      kv_heads = count_of(tensor, "num_kv_heads", n, heads);
    }
    if (heads % kv_heads != 0)
      fail("{}: {} heads do not share {} key/value heads", tensor.where, heads, kv_heads);
    const std::size_t groups = tensor.groups > 0 ? tensor.groups : tensor.by_head ? kv_heads : 1;
    if (heads % groups != 0 || kv_heads % groups != 0)
      fail("{}: {} heads and {} key/value heads do not split into {} groups", tensor.where, heads,
           kv_heads, groups);
    std::vector<std::size_t> sizes;
    std::size_t all = 0;
    for (const std::string& part : tensor.split) {
      sizes.push_back((part == "q" ? heads : kv_heads) / groups);
      all += groups * sizes.back();
    }
    if (W.shape[1] % all != 0)
      fail("{}: {}: {}, read as {}, gives {} numbers, which do not split into {} parts of heads",
           tensor.where, file_.name, W.own_name, tensor.layout, W.shape[1], all);
    std::size_t before = 0;
    for (std::size_t i = 0; i < tensor.split.size(); ++i) {
      const std::size_t count = W.shape[1] / all * groups * sizes[i];
      const auto part = [&](const io::Entry& entry) {
        return groups == 1 ? columns_entry(entry, before, count)
                           : grouped_entry(entry, groups, sizes, i);
      };
      add(at + "W_" + tensor.split[i], part(W));
      if (b) add(at + "b_" + tensor.split[i], part(*b));
      before += count;
    }
  }

  std::size_t count_of(const DescribedTensor& tensor, const char* setting, std::size_t n,
                       std::size_t otherwise) {
    std::optional<double> count;
    if (const auto option = options_.find(setting); option != options_.end()) {
      naming::DescribedValue given;
      given.where = "options", given.constant = option->second;
      count = given.number(base_);
    } else if (const auto said = said_.settings.find(setting); said != said_.settings.end()) {
      count = said->second.number(base_, n);
    } else if (otherwise > 0) {
      return otherwise;
    }
    if (!count || !(*count >= 1 && *count <= 1e6) || *count != std::floor(*count))
      fail("{}: {} must be known to split it; say it in settings, or give <{}>", tensor.where,
           setting, setting);
    return static_cast<std::size_t>(*count);
  }

  /// Biases of their own, norms of queries and keys, sinks: as they lie.
  void present_other(const std::string& at, const DescribedTensor& tensor, std::size_t n) {
    const std::string name = whole_name(said_, tensor.name, n);
    const io::Entry entry = head_mark_in(name) == std::string::npos
                                ? *find(name, tensor.where, true)
                                : stacked_entry(of_heads(tensor, name, true));
    if (tensor.key != "q_norm" && tensor.key != "k_norm") return add(at + tensor.key, entry);
    add(at + tensor.key + ".weight", entry);
    if (const auto bias = bias_of(tensor, name, n)) add(at + tensor.key + ".bias", *bias);
  }

  void present_norm(const std::string& to, const DescribedNorm& norm, std::size_t n,
                    std::size_t width) {
    const bool of_layer = naming::is_of_layer(norm.key);
    const auto named = [&](const std::string& name) {
      return of_layer ? whole_name(said_, name, n) : name;
    };
    const std::string weight = norm.weight.empty() ? "" : named(norm.weight);
    if (norm.optional && !file_.find(weight)) return;
    const auto found = [&](const std::string& name, bool needed) -> const io::Entry* {
      const io::Entry* entry = name.empty() ? nullptr : find(name, norm.where, needed);
      if (entry && width > 0 && mha::count_of(entry->shape) != width)
        fail("{}: {}: {} is {}: {} numbers expected", norm.where, file_.name, name,
             to_string(entry->shape), width);
      return entry;
    };
    const bool said_bias = norm.bias.has_value();
    BatchNorm of;
    of.weight = found(weight, true);
    of.bias = found(said_bias ? (norm.bias->empty() ? "" : named(*norm.bias)) : bias_beside(weight),
                    said_bias && !norm.bias->empty());
    if (said_bias && norm.bias->empty()) claim_all(bias_beside(weight));
    if (norm.kind == "batch") {
      const std::string module = weight.substr(0, weight.rfind('.') + 1);
      of.mean = found(norm.statistics.name.empty() ? module + "running_mean"
                                                   : named(norm.statistics.name),
                      true);
      of.variance =
          found(norm.statistics.bias ? named(*norm.statistics.bias) : module + "running_var", true);
      of.eps = norm.eps.number(base_).value_or(1e-5);
      if (!module.empty()) find(module + "num_batches_tracked", norm.where, false);
      for (const io::Entry* entry : {of.weight, of.bias, of.variance})
        if (entry && entry->shape != of.mean->shape)
          fail("{}: {}: {} is {}, but {} is {}", norm.where, file_.name, entry->name,
               to_string(entry->shape), of.mean->name, to_string(of.mean->shape));
      add(to + ".weight", folded_weight(of)), add(to + ".bias", folded_bias(of));
      return;
    }
    if (of.weight) {
      const io::Entry plain = reshaped_entry(*of.weight, {mha::count_of(of.weight->shape)});
      add(to + ".weight", norm.kind == "std" ? scaled_entry(plain, deviation_scale(plain)) : plain);
    } else if (norm.kind == "std") {
      const std::vector<double> each(width > 0 ? width : inner_, 1);
      const io::Entry ones = values_entry(said_.file, each);
      add(to + ".weight", scaled_entry(ones, deviation_scale(ones)));
    }
    if (of.bias && norm.kind != "rms")
      add(to + ".bias", reshaped_entry(*of.bias, {mha::count_of(of.bias->shape)}));
  }

  // The ends.

  const DescribedTensor* said_tensor(const char* key) const {
    const auto at = said_.tensors.find(key);
    return at == said_.tensors.end() ? nullptr : &at->second;
  }

  void present_embedding() {
    const DescribedTensor *tokens = said_tensor("embed.token"), *map = said_tensor("embed.linear");
    const std::string model(naming::described_model);
    if (tokens) {
      const io::Entry rows = table(*tokens);
      narrow_ = width_ = rows.shape[1];
      add(model + "embed.token.weight", rows);
    }
    if (map) {
      const io::Entry W = embedding_map(*map);
      if (!tokens) narrow_ = W.shape[1];
      require_axis(*map, W, 1, narrow_, "takes");
      width_ = W.shape[0];
      add(model + "embed.linear.weight", W);
      if (const auto bias = bias_of(*map, map->name, 0)) {
        require_bias(*map, *bias, width_);
        add(model + "embed.linear.bias", *bias);
      }
    }
    const ProjectionPlace place = said_.record.embedding_linear_place;
    if (!said_.first_rows.empty()) {
      const io::Entry rows = rows_in_front();
      if (narrow_ == 0) narrow_ = width_ = rows.shape[1];
      require_axis(said_.first_rows[0], rows, 1, width_, "has rows of");
      add(model + "embed.prepend.weight", rows);
    }
    for (const char* key : {"embed.position", "embed.type"})
      if (const DescribedTensor* other = said_tensor(key)) {
        const io::Entry others = table(*other);
        if (narrow_ == 0) narrow_ = width_ = others.shape[1];
        require_axis(*other, others, 1, map && place == ProjectionPlace::tokens ? width_ : narrow_,
                     "has rows of");
        add(model + key + ".weight", others);
      }
    if (said_.sinusoid.said())
      add(model + "embed.position.weight",
          sinusoid(map && place == ProjectionPlace::tokens ? width_ : narrow_, base_));
    if (const auto norm = said_.norms.find("embed.norm"); norm != said_.norms.end())
      present_norm(model + "embed.norm", norm->second, 0,
                   map && place == ProjectionPlace::normed ? narrow_ : width_);
  }

  io::Entry table(const DescribedTensor& said) {
    const io::Entry& entry = *find(said.name, said.where, true);
    if (entry.shape.size() == 1 && said.key == "embed.type")
      return reshaped_entry(entry, {1, entry.shape[0]});
    require_rank(said, entry, 2);
    const io::Entry rows = turned_entry(entry, said.layout, "io");
    return said.key == "embed.position" ? scaled_positions(rows, base_) : rows;
  }

  /// Vectors come in where there is no table of tokens: it is one without rows.
  void present_no_tokens() {
    if (said_tensor("embed.token")) return;
    io::Entry none;
    none.name = none.own_name = said_.file;
    none.dtype = entries_.empty() ? DType::f32 : entries_.front().dtype;
    none.shape = {0, narrow_ > 0 ? narrow_ : width_};
    none.read = [dtype = none.dtype, shape = none.shape] { return Tensor(dtype, shape); };
    add(std::string(naming::described_model) + "embed.token.weight", std::move(none));
  }

  void present_ends() {
    const std::string model(naming::described_model);
    if (const auto norm = said_.norms.find("final_norm"); norm != said_.norms.end())
      present_norm(model + "final_norm", norm->second, 0, width_);
    std::size_t width = width_;
    if (const DescribedTensor* dense = said_tensor("head.dense")) {
      const io::Entry W = matrix(*dense, dense->name, "oi");
      require_axis(*dense, W, 1, width_, "takes");
      width = W.shape[0];
      add(model + "head.dense.weight", W);
      if (const auto bias = bias_of(*dense, dense->name, 0)) {
        require_bias(*dense, *bias, width);
        add(model + "head.dense.bias", *bias);
      }
    }
    if (const auto norm = said_.norms.find("head.norm"); norm != said_.norms.end())
      present_norm(model + "head.norm", norm->second, 0, width);
    if (const DescribedTensor* head = said_tensor("head")) {
      const io::Entry W = matrix(*head, head->name, "oi");
      require_axis(*head, W, 1, width, "takes");
      add(model + "head.weight", W);
      if (const auto bias = bias_of(*head, head->name, 0)) {
        require_bias(*head, *bias, W.shape[0]);
        add(model + "head.bias", *bias);
      }
    }
    if (const DescribedTensor* bias = said_tensor("head.bias"))
      add(model + "head.bias", *find(bias->name, bias->where, true));
  }

  const Group& base_;
  const naming::Options& options_;
  std::size_t layers_ = 1, width_ = 0, narrow_ = 0, inner_ = 0;
};

} // namespace

bool has_described_tensors(const Description& description, const io::Contents& file) {
  for (const auto& [key, tensor] : description.tensors) {
    if (!tensor.values.empty()) continue;
    const std::string pattern =
        naming::is_of_layer(key) ? whole_pattern(description, tensor.name, 0) : tensor.name;
    const std::string first = with_head(with_layer(pattern, 0), 0);
    if (file.find(first)) return true;
  }
  return false;
}

io::Contents described_contents(const Description& description, const io::Contents& file,
                                const naming::Config& config, const naming::Options& options,
                                const std::shared_ptr<naming::Reads>& reads) {
  Group base;
  base.contents = &file, base.config = &config, base.reads = reads;
  return Presenter(description, file, base, options).contents();
}

} // namespace mha
