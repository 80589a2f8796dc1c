#include <mha/load/read_description.hpp>

#include <mha/layer/names.hpp>
#include <mha/load/description_keys.hpp>
#include <mha/load/description_parts.hpp>
#include <mha/load/json_tree.hpp>
#include <mha/naming/tensor_names.hpp>
#include <mha/system/named.hpp>
#include <mha/system/one_of.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

namespace mha {

using naming::DescribedNorm;
using naming::DescribedTensor;
using naming::DescribedValue;
using naming::Description;

namespace {

/// Reads the document's keys into a Description.
class DescriptionReader {
public:
  DescriptionReader(const JsonTree& tree, Description& to)
      : tree_(tree), to_(to), parse_{form_, to.is_family} {}

  void read() {
    std::vector<description::Key> keys(description::top_keys.begin(), description::top_keys.end());
    if (to_.is_family)
      keys.insert(keys.end(), description::family_keys.begin(), description::family_keys.end());
    description::require_known(tree_, "a description", keys);
    if (const JsonTree* title = tree_.find("title")) to_.title = title->as_text("title");
    if (const JsonTree* norm = tree_.find("norm")) read_form(*norm);
    read_layers();
    read_tensors();
    if (const JsonTree* embed = tree_.find("embed"))
      description::read_embedding(*embed, parse_, to_);
    if (const JsonTree* norm = tree_.find("final_norm")) add_norm("final_norm", *norm);
    if (const JsonTree* head = tree_.find("head"); head && !head->is_null()) read_head(*head);
    read_settings(), read_sizes();
    if (const JsonTree* activation = tree_.find("activation"))
      to_.activation = activation_of(*activation);
    read_ignore();
    read_lacking();
    if (const JsonTree* scale = tree_.find("residual_scale"))
      to_.residual_scale = description::value_of(*scale, "residual_scale");
    to_.block = block_shape(), to_.norm_form = form_;
    if (to_.is_family) return description::read_family_words(tree_, to_);
    to_.own_vocabulary = true;
    require_activations();
    require_norms();
  }

private:
  void read_ignore() {
    for (const char* key : {"ignore", "also_ignore"}) {
      const JsonTree* list = tree_.find(key);
      if (!list) continue;
      if (!list->is_list()) list->refuse(fmt::format("{} must be a list of names", key));
      for (const JsonTree& name : list->elements) {
        constexpr std::ptrdiff_t most = 4; // each is matched at every position
        if (std::ranges::count(name.as_text("a name"), '*') > most)
          name.refuse(fmt::format("at most {} * expected", most));
        to_.ignore.push_back(name.text);
      }
    }
  }

  void read_lacking() {
    const JsonTree* list = tree_.find("some_layers_lack");
    if (!list) return;
    if (!list->is_list()) list->refuse("some_layers_lack must be a list of names");
    for (const JsonTree& name : list->elements) to_.lacking.push_back(name.as_text("a name"));
  }

  void read_form(const JsonTree& tree) {
    description::require_known(tree, "norm", description::norm_form_keys);
    parse_.norm_form("norm", tree, form_);
  }

  void add_norm(const std::string& key, const JsonTree& tree) {
    if (key == "norm") to_.norm_is_given = true;
    if (tree.is_null()) return;
    DescribedNorm norm = parse_.norm(key, tree);
    if (norm.kind != "none") to_.norms.emplace(key, std::move(norm));
  }

  void read_layers() {
    const JsonTree* layers = tree_.find("layers");
    if (!layers && to_.is_family) return;
    if (!layers)
      tree_.refuse("layers is missing: the prefix of the names of a layer's "
                   "tensors, such as \"encoder.blocks.{layer}.\"");
    if (layers->is_list()) {
      for (const JsonTree& prefix : layers->elements)
        to_.layers.push_back(description::name_of(prefix, "the prefix of a layer's names"));
      if (to_.layers.empty()) layers->refuse("layers is an empty list");
    } else {
      to_.layers.push_back(description::name_of(*layers, "layers"));
    }
    if (const JsonTree* count = tree_.find("num_layers")) {
      to_.num_layers = description::value_of(*count, "num_layers");
      if (layers->is_list())
        count->refuse("num_layers is the length of the list layers; remove one of the two");
    }
  }

  void read_tensors() {
    const JsonTree* tensors = tree_.find("tensors");
    if (!tensors) tree_.refuse("tensors is missing: the names of a layer's tensors");
    if (!tensors->is_object()) tensors->refuse("tensors must be an object");
    for (const auto& [key, tree] : tensors->members) {
      if (find_named(description::layer_norm_keys, key)) {
        add_norm(key, tree);
        continue;
      }
      if (tree.is_null() && to_.is_family) continue; // a case that removes the tensor
      if (!description::is_tensor_key(key)) description::refuse_tensor_key(tree, key);
      to_.tensors.emplace(key, parse_.tensor(key, tree, description::layout_of_key(key)));
    }
    join_biases();
    if (to_.is_family) return;
    const auto has = [&](const char* key) { return to_.tensors.contains(key); };
    if (!has("W_q") && !has("W_qkv") && !has("W_qk"))
      tensors->refuse("no W_q, W_qkv or W_qk: which tensor makes the queries?");
    if (has("mlp.in") && has("mlp.in_up"))
      tensors->refuse("mlp.in and mlp.in_up are the same: remove one of them");
    if ((has("mlp.in") || has("mlp.in_up") || has("mlp.up")) != has("mlp.out"))
      tensors->refuse(has("mlp.out") ? "mlp.out needs mlp.in"
                                     : "mlp.out is missing, the feed-forward's second map");
    if (has("mlp.product_bias") && !has("mlp.up")) tensors->refuse("mlp.product_bias needs mlp.up");
    if (has("mlp.up") && !has("mlp.in")) tensors->refuse("mlp.up needs mlp.in");
  }

  /// A bias with a key of its own becomes the bias of its weight: split and multiplied like it.
  void join_biases() {
    for (auto& [key, weight] : to_.tensors) {
      if (!key.starts_with("W_")) continue;
      const auto own = to_.tensors.find("b" + key.substr(1));
      if (own == to_.tensors.end()) continue;
      const DescribedTensor& bias = own->second;
      if (weight.bias)
        fail("{}: {} gives its bias as well: remove one of the two", bias.where, key);
      const bool is_whole = bias.values.empty() && !bias.optional;
      if (!is_whole && (!weight.times.empty() || !weight.split.empty()))
        fail("{}: values, or a bias that layers may lack, need a {} without split and times",
             bias.where, key);
      if (!is_whole) continue;
      weight.bias = bias.name;
      to_.tensors.erase(own);
    }
  }

  void read_head(const JsonTree& tree) {
    description::require_known(tree, "head", description::head_keys);
    const JsonTree *tied = tree.find("tied"), *name = tree.find("name"), *bias = tree.find("bias");
    const bool is_tied = tied && tied->as_boolean("tied");
    if (to_.is_family) {
      if (!name) tree.refuse("head has no name");
      to_.tied = is_tied;
      read_named_head(*name, tree);
    } else if (is_tied == (name != nullptr)) {
      tree.refuse(is_tied ? "head is tied and has a name: remove one of the two"
                          : "head is neither tied nor has a name");
    } else if (is_tied) {
      if (!to_.tensors.contains("embed.token"))
        tree.refuse("head is tied, but embed has no table by token");
      if (const JsonTree* layout = tree.find("layout"))
        layout->refuse("a tied head is stored as the tokens' table is: it has no layout");
      to_.tied = true;
      if (bias && bias->is_text()) {
        DescribedTensor alone = parse_.tensor_named("head.bias", *bias);
        alone.bias = "";
        to_.tensors.emplace("head.bias", std::move(alone));
      }
    } else {
      read_named_head(*name, tree);
    }
    if (const JsonTree* dense = tree.find("dense"))
      to_.tensors.emplace("head.dense", parse_.tensor("head.dense", *dense, "oi"));
    for (const char* of_dense : {"activation", "norm"})
      if (const JsonTree* member = tree.find(of_dense); member && !tree.find("dense"))
        member->refuse(fmt::format("{} is only for dense, which head does not have", of_dense));
    if (const JsonTree* norm = tree.find("norm")) add_norm("head.norm", *norm);
    const auto take = [&](const char* key, DescribedValue& to) {
      if (const JsonTree* member = tree.find(key)) to = description::value_of(*member, key);
    };
    if (const JsonTree* member = tree.find("activation"))
      to_.head_activation = activation_of(*member);
    take("softcap", to_.softcap);
    take("scale", to_.head_scale);
    take("unit_inputs", to_.unit_inputs);
  }

  void read_named_head(const JsonTree& name, const JsonTree& tree) {
    DescribedTensor head = parse_.tensor_named("head", name);
    head.layout = "oi";
    if (const JsonTree* layout = tree.find("layout"))
      head.layout = description::layout_of(*layout, 2);
    if (const JsonTree* bias = tree.find("bias"))
      if (!(head.needs_bias = bias->is_true())) head.bias = description::bias_of(*bias);
    to_.tensors.emplace("head", std::move(head));
  }

  static DescribedValue activation_of(const JsonTree& tree) {
    DescribedValue value = description::value_of(tree, "activation");
    if (value.constant && !activation_named(*value.constant))
      tree.refuse(fmt::format("activation is '{}', which is not known here: {}", *value.constant,
                              activation_names()));
    return value;
  }

  void read_settings() {
    const JsonTree* settings = tree_.find("settings");
    if (!settings) return;
    if (!settings->is_object()) settings->refuse("settings must be an object");
    std::vector<std::string_view> names = names_of_rows(settings_table());
    for (const description::Key& of_kind : description::kind_settings)
      names.push_back(of_kind.name);
    for (const auto& [name, tree] : settings->members) {
      if (find_named(description::kind_settings, name)) {
        to_.settings.emplace(name, description::value_of(tree, name, true));
        continue;
      }
      const SettingInfo* info = find_setting(name);
      if (!info)
        tree.refuse(fmt::format("'{}' is not a setting{}", name, did_you_mean(name, names)));
      if (!description::is_setting(info->name))
        tree.refuse(fmt::format("{} is given by {}, not by a setting", info->name,
                                info->name == "qkv_order"                             ? "split"
                                : info->name == "columns" || info->name == "residual" ? "block"
                                                                                      : "norm"));
      DescribedValue value = description::value_of(tree, name, true);
      Settings tried; // reports an invalid value with its line
      const auto try_value = [&](const DescribedValue& one) {
        if (one.constant) set(tried, info->name, *one.constant, one.where);
      };
      try_value(value);
      std::ranges::for_each(value.layers, try_value);
      if (!to_.settings.emplace(info->name, std::move(value)).second)
        tree.refuse(fmt::format("{} is given twice", info->name));
    }
  }

  void read_sizes() {
    const JsonTree* sizes = tree_.find("sizes");
    if (!sizes) return;
    if (!sizes->is_object()) sizes->refuse("sizes must be an object");
    std::vector<std::string_view> letters;
    for (const TensorInfo& info : tensors_of_kinds())
      for (const TensorForm& form : info.forms)
        for (const Length& length : form)
          for (const std::optional<Dim> letter : {std::optional(length.letter), length.times})
            if (letter && *letter != Dim::widths) add_once(letters, name_of(*letter));
    for (const auto& [letter, tree] : sizes->members) {
      if (!is_one_of(letter, letters))
        tree.refuse(
            fmt::format("'{}' is not a letter of a shape{}", letter, choices_for(letter, letters)));
      to_.sizes.emplace(letter, description::value_of(tree, letter));
    }
  }

  BlockShape block_shape() const;
  void require_activations() const;
  void require_norms();

  const JsonTree& tree_;
  Description& to_;
  DescribedNorm form_; ///< the norms' default
  description::Parse parse_;
};

BlockShape DescriptionReader::block_shape() const {
  constexpr std::pair<std::string_view, BlockShape> shapes[]{
      {"pre", BlockShape::pre},
      {"post", BlockShape::post},
      {"parallel", BlockShape::parallel},
      {"sandwich", BlockShape::sandwich},
      {"post_inside", BlockShape::post_inside},
      {"attention_only", BlockShape::attention_only}};
  const JsonTree* block = tree_.find("block");
  const std::string shape = block ? block->as_text("block") : "pre";
  const auto at = std::ranges::find(shapes, shape, [](const auto& pair) { return pair.first; });
  if (at == std::end(shapes))
    block->refuse(fmt::format("block is '{}': pre, post, parallel, sandwich, post_inside or "
                              "attention_only expected",
                              shape));
  const bool mlp = to_.tensors.contains("mlp.out") || to_.tensors.contains("experts.out");
  if (to_.is_family) return at->second; // a family of lone layers describes only their attention
  if (at->second == BlockShape::attention_only && mlp)
    block->refuse("attention_only has no feed-forward, but tensors have mlp.out");
  if (at->second != BlockShape::attention_only && !mlp)
    (block ? *block : tree_)
        .refuse(fmt::format("a {} block has a feed-forward: mlp.in and mlp.out; or set \"block\": "
                            "\"attention_only\"",
                            shape));
  return at->second;
}

void DescriptionReader::require_activations() const {
  if (to_.tensors.contains("mlp.out") && !to_.activation.is_given())
    tree_.refuse("activation is missing: what the feed-forward does, such as \"gelu\"");
  if (to_.head_activation.is_given() && !to_.head_activation.keys.empty())
    fail("{}: the head's activation must be its name", to_.head_activation.where);
}

/// Throws Error for norms that the block has no place for.
void DescriptionReader::require_norms() {
  const auto refuse = [&](const char* key, const char* why) {
    if (const DescribedNorm* norm = to_.norm(key)) fail("{}: {}", norm->where, why);
  };
  // One norm serves both, unless mlp.norm is null or of kind none.
  const DescribedNorm* const norm = to_.norm("norm");
  if (to_.block == BlockShape::parallel && norm && !tree_.find("tensors")->find("mlp.norm"))
    to_.norms.emplace("mlp.norm", *norm);
  if (to_.block != BlockShape::sandwich) {
    refuse("post_norm", "only a sandwich block has a norm of attention's output");
    refuse("mlp.post_norm", "only a sandwich block has a norm of the feed-forward's output");
  }
  if (to_.block == BlockShape::attention_only)
    refuse("mlp.norm", "an attention_only block has no feed-forward");
}

} // namespace

bool is_description(std::string_view naming) {
  return naming.find('/') != std::string_view::npos || naming.ends_with(".json");
}

const naming::FamilyRow* chosen_family(std::string_view naming) {
  return naming.empty() ? nullptr : &naming::family_named(naming);
}

std::optional<io::Contents> presented(const io::Contents& file, const naming::Config& config) {
  for (const naming::FamilyRow* family : naming::families()) {
    if (!family->present) continue;
    io::Contents under_own_names = file;
    if (family->present(under_own_names, config)) return under_own_names;
  }
  return std::nullopt;
}

std::shared_ptr<const Description> described_family(const JsonTree& tree,
                                                    const naming::FamilyRow& family) {
  const auto description = std::make_shared<Description>();
  description->is_family = true;
  description->title = family.title;
  constexpr std::string_view line = ": line ";
  if (family.tree)
    description->own_words =
        family.tree->where.substr(0, family.tree->where.rfind(line) + line.size());
  DescriptionReader(tree, *description).read();
  return description;
}

UserNaming read_naming(const std::string& path) {
  const io::Bytes bytes = io::read_bytes(path);
  const JsonTree tree = read_json_tree(bytes);
  if (!tree.is_object()) tree.refuse("a description is an object");
  if (tree.find("like") || tree.find("needs")) return {nullptr, user_family(bytes, tree)};
  const auto description = std::make_shared<Description>();
  description->file = path, description->text = bytes.text();
  description->title = std::filesystem::path(path).stem().string();
  DescriptionReader(tree, *description).read();
  const std::string_view title = description->title;
  description->family = {title, title, "*", "", "", nullptr, "", "*"};
  return {description, nullptr};
}

} // namespace mha
