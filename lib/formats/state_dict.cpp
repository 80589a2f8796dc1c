
#include <mha/files/text.hpp>
#include <mha/formats/pickle_walk.hpp>
#include <mha/system/one_of.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_set>

namespace mha::io {

namespace {

/// Keys under which checkpoints keep the model's tensors.
constexpr std::string_view state_keys[] = {"state_dict", "model_state_dict", "model", "module",
                                           "net",        "params",           "ema"};
/// Keys of the model's own arguments, and of the settings of the whole run, which are used if there
/// are not model arguments.
constexpr std::string_view model_config_keys[] = {"model_args", "model_config", "dims"};
constexpr std::string_view run_config_keys[] = {
    "hyper_parameters", "hparams", "config", "cfg", "args", "opt"};
/// Prefixes of keys that belong to a training run.
constexpr std::string_view training_keys[] = {
    "optim",       "opt_",   "lr_",   "sched",     "scaler",  "grad_scaler", "amp",     "rng",
    "cuda_rng",    "random", "loops", "callbacks", "loss",    "best",        "epoch",   "step",
    "global_step", "iter",   "train", "history",   "metrics", "criterion",   "baseline"};
constexpr std::string_view compiled = "_orig_mod.";

bool is_training(std::string_view key) {
  return std::ranges::any_of(training_keys,
                             [&](std::string_view begin) { return key.starts_with(begin); }) ||
         is_one_of(key, model_config_keys) || is_one_of(key, run_config_keys);
}

/// "encoder.weight" for torch.compile's "_orig_mod.encoder._orig_mod.weight".
std::string without_wrapper(std::string name) {
  for (std::size_t at = 0; (at = name.find(compiled, at)) != name.npos;)
    if (at == 0 || name[at - 1] == '.')
      name.erase(at, compiled.size());
    else
      ++at;
  return name;
}

class StateDictFinder {
public:
  StateDictFinder(const Pickle& pickle, const std::string& stem) : pickle_(pickle), stem_(stem) {}

  StateDict find() {
    const PickleRef root = within_list(pickle_.root());
    const std::vector<PickleMember> attributes = members(pickle_, root),
                                    top = PickleWalk(pickle_).is_module(root)
                                              ? std::vector<PickleMember>{}
                                              : attributes;
    add_config(attributes, model_config_keys);
    if (found_.config.empty()) add_config(attributes, run_config_keys);
    const std::vector<PickleMember> chosen = states_in(top);
    PickleWalk walk(pickle_);
    if (chosen.empty()) {
      leave_out_training(top, walk);
      walk.add_numbers(root, "", found_.tensors);
      if (!pickle_.is(root, PickleKind::record)) add_plain(top);
    }
    for (const auto& [key, value] : chosen)
      walk.add_numbers(value, chosen.size() > 1 ? key : "", found_.tensors);
    if (!chosen.empty()) note_aside(top, chosen);
    aside_.insert(aside_.end(), walk.optimizers().begin(), walk.optimizers().end());
    if (!aside_.empty()) {
      const std::vector<std::string_view> views(aside_.begin(), aside_.end());
      found_.notes.push_back("set aside: " + listed(views));
    }
    if (walk.unnamed() > 0)
      found_.notes.push_back(
          fmt::format("left out: {} under keys that are neither text nor whole numbers",
                      counted(walk.unnamed(), "tensors")));
    if (found_.config.empty()) PickleWalk(pickle_).add_attributes(root, found_.config);
    finish_names();
    note_classes();
    return std::move(found_);
  }

private:
  /// In a list or tuple with a single object that has tensors (a state dictionary and its training
  /// state), that object; otherwise `root` itself.
  PickleRef within_list(PickleRef root) {
    if (!pickle_.is(root, PickleKind::list) && !pickle_.is(root, PickleKind::tuple)) return root;
    std::vector<PickleRef> with_numbers;
    PickleWalk walk(pickle_);
    for (const PickleRef item : pickle_.items(root))
      if (has_numbers(pickle_, item) ||
          (walk.count_numbers(item) > 0 && !is_optimizer(pickle_, item)))
        with_numbers.push_back(item);
    if (with_numbers.size() != 1 || has_numbers(pickle_, with_numbers[0])) return root;
    return with_numbers[0];
  }

  /// The members that are state dictionaries; none if the object itself is one.
  std::vector<PickleMember> states_in(const std::vector<PickleMember>& top) {
    std::vector<PickleMember> states;
    bool others = false; // tensors that do not belong to a training run
    PickleWalk walk(pickle_);
    for (const auto& [key, value] : top) {
      const bool numbers = has_numbers(pickle_, value);
      if (is_one_of(key, state_keys) && !numbers && PickleWalk(pickle_).count_numbers(value) > 0)
        states.emplace_back(key, value);
      else if (!is_training(key) &&
               (numbers || (walk.count_numbers(value) > 0 && !is_optimizer(pickle_, value))))
        others = true;
    }
    const bool named = std::ranges::any_of(states, [](const PickleMember& state) {
      return state.first == "state_dict" || state.first == "model_state_dict";
    });
    // {"model": …, "head": …} is one dictionary that is split into parts.
    if (others && !named) return {};
    if (states.size() > 1) {
      std::vector<std::string_view> keys;
      for (const PickleMember& state : states) keys.push_back(state.first);
      found_.notes.push_back(message("several state dictionaries: {}; <prefix> {} chooses one",
                                     listed(keys), shown(keys[0])));
    }
    return states;
  }

  /// If the object itself is the model in parts, leaves out the values and optimizers of a training
  /// run beside them.
  void leave_out_training(const std::vector<PickleMember>& top, PickleWalk& walk) {
    constexpr std::string_view optimizer = "optim";
    PickleWalk counts(pickle_);
    for (const auto& [key, value] : top) {
      if (has_numbers(pickle_, value) || top.size() == 1 || !is_training(key)) continue;
      const std::size_t numbers = counts.count_numbers(value);
      if (numbers > 0 && !key.starts_with(optimizer)) continue;
      set_aside(key, numbers);
      walk.leave_out(value);
    }
  }

  void set_aside(const std::string& key, std::size_t numbers) {
    aside_.push_back(numbers == 0 ? key : fmt::format("{} ({})", key, counted(numbers, "tensors")));
  }

  void note_aside(const std::vector<PickleMember>& top, const std::vector<PickleMember>& chosen) {
    PickleWalk walk(pickle_);
    for (const auto& [key, value] : top) {
      if (std::ranges::find(chosen, key, &PickleMember::first) != chosen.end()) continue;
      set_aside(key, walk.count_numbers(value));
    }
  }

  void add_config(const std::vector<PickleMember>& top, std::span<const std::string_view> keys) {
    for (const std::string_view key : keys)
      for (const auto& [name, value] : top) {
        if (name != key || has_numbers(pickle_, value)) continue;
        std::vector<std::pair<std::string, std::string>> plain;
        PickleWalk(pickle_).add_plain(value, plain);
        for (auto& [path, text] : plain)
          if (!path.empty()) found_.config.emplace(std::move(path), std::move(text));
      }
  }

  /// Adds top-level numbers, texts and lists of texts, as in an NPZ.
  void add_plain(const std::vector<PickleMember>& top) {
    for (const auto& [name, value] : top) {
      if (is_training(name) && top.size() > 1) continue; // set aside
      if (auto text = plain_text(pickle_, value)) found_.scalars.emplace_back(name, *text);
      const auto items = pickle_.items(value);
      const auto is_text = [&](PickleRef item) { return pickle_.is(item, PickleKind::text); };
      if (!pickle_.is(value, PickleKind::list) || items.empty() ||
          !std::ranges::all_of(items, is_text))
        continue;
      std::vector<std::string> texts;
      std::size_t left = pickle_.end(); // a list may repeat one long text very often
      for (const PickleRef item : items)
        if (auto text = key_text(pickle_, item); text && text->size() <= left) {
          left -= text->size();
          texts.push_back(std::move(*text));
        }
      if (texts.size() == items.size()) found_.labels.emplace_back(name, std::move(texts));
    }
  }

  void finish_names() {
    std::unordered_set<std::string> names;
    for (auto& [name, value] : found_.tensors) {
      name = without_wrapper(std::move(name));
      if (name.empty()) name = stem_;
      if (!names.insert(name).second)
        fail("{}: tensor '{}' appears twice", pickle_.where(), shown(name));
    }
  }

  void note_classes() {
    constexpr std::size_t most_classes = 1000;
    std::vector<std::string> classes;
    std::set<std::string> known;
    for (PickleRef at = 0; at < pickle_.count() && classes.size() < most_classes; ++at)
      if (pickle_.is(at, PickleKind::record))
        if (std::string name = pickle_.record_class(at); known.insert(name).second)
          classes.push_back(std::move(name));
    if (classes.empty()) return;
    const std::vector<std::string_view> views(classes.begin(), classes.end());
    found_.notes.push_back("objects of other classes, only whose attributes are read: " +
                           listed(views));
  }

  const Pickle& pickle_;
  const std::string& stem_;
  StateDict found_;
  std::vector<std::string> aside_; ///< values that do not belong to the model
};

} // namespace

StateDict find_state_dict(const Pickle& pickle, const std::string& stem) {
  return StateDictFinder(pickle, stem).find();
}

} // namespace mha::io
