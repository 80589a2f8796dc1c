#include <mha/load/sizes.hpp>
#include <mha/naming/tensor_names.hpp>

#include <fmt/ranges.h>

#include <algorithm>

namespace mha {

namespace {

class SizeFinder {
public:
  SizeFinder(const NamedTensors& parts, const GivenNames& given, const Settings& settings,
             std::vector<Note>& notes)
      : sizes_(parts, given, settings), notes_(notes) {}

  HeadCounts heads() {
    sizes_.learn_heads();
    if (!H.known && needs_heads()) {
      if (is_input_alone())
        fail("{}: there is an input, but nothing that makes queries, keys and values: add W_q, "
             "W_k, "
             "W_v and W_o, (columns of X) × (columns of all heads), and num_heads; or give Q, K "
             "and V "
             "themselves; to take X for all three, give {}",
             where(), choices_of_heads());
      if (!are_not_projected())
        fail("{}: the number of heads is not known; give {}", where(), choices_of_heads());
      H.learn(1, "one head");
      std::vector<std::string_view> packed;
      for (const std::string_view name : {"Q", "K", "V"})
        if (part(name)) packed.push_back(name);
      const std::string last(packed.back());
      packed.pop_back();
      notes_.push_back(message(
          "{}{} taken as one head: no number of heads is given; <num_heads> splits {} columns",
          packed.empty() ? "" : fmt::format("{} and ", fmt::join(packed, ", ")),
          packed.empty() ? last + " is" : last + " are", packed.empty() ? "its" : "their"));
    }
    return {H.value, H_kv.value};
  }

  Dims find(HeadCounts heads) {
    if (heads.H > 0) H.learn(heads.H, "num_heads");
    if (heads.H_kv > 0) H_kv.learn(heads.H_kv, "num_kv_heads");
    learn_inputs();
    learn_latent();
    learn_given();
    learn_keys();
    learn_widths();
    learn_output();
    sizes_.learn_gate(input());
    return sizes_.dims();
  }

private:
  const NamedTensor* part(std::string_view name) const { return sizes_.part(name); }
  /// The input of the projections: x if it is given, else X.
  const NamedTensor* input() const {
    const auto x = given_.find(Stage::x);
    return part(x == given_.end() ? "X" : x->second);
  }
  std::string where() const {
    if (parts_.empty()) return "no tensors";
    const std::string& source = parts_.begin()->second.source;
    return source.substr(0, source.find(": "));
  }
  /// Whether there is an input and neither weights nor stages, as in a beginner's first file.
  bool is_input_alone() const {
    return given_.empty() && std::all_of(parts_.begin(), parts_.end(), [](const auto& entry) {
             const TensorInfo* const info = find_tensor_name(entry.first);
             return info && info->role != TensorRole::weight && info->role != TensorRole::packed;
           });
  }
  /// Whether there are Q, K and V by themselves, as in a beginner's first file.
  bool are_not_projected() const {
    return part("Q") && std::none_of(parts_.begin(), parts_.end(), [](const auto& entry) {
             return entry.first.starts_with("X") || entry.first.starts_with("W_") ||
                    entry.first.starts_with("b_") || entry.first == "x";
           });
  }
  /// "--num-heads 1 for a single head, or 2, 4, 8: what 8 columns of W_q split into".
  Message choices_of_heads() const {
    const NamedTensor* of = nullptr;
    std::string name;
    for (const char* candidate : {"W_q", "Q", "X"})
      if (const NamedTensor* p = part(candidate); !of && p && p->tensor.rank() >= 1)
        of = p, name = candidate;
    const Message single = message("<num_heads> 1 for a single head"),
                  in_file = where().ends_with(".json") ? "; in the file: \"num_heads\": 1" : "";
    if (!of || of->tensor.shape().back() < 2) return single + in_file;
    const std::size_t columns = of->tensor.shape().back();
    std::string list;
    std::size_t listed = 0;
    for (std::size_t n = 2; n <= columns && listed < 8; ++n)
      if (columns % n == 0) list += fmt::format("{}{}", listed++ > 0 ? ", " : "", n);
    return message("{}, or {}: what {} columns of {} split into{}", single, list, columns, name,
                   in_file);
  }
  /// Whether the number of heads is needed: all steps but the merge of the heads need it.
  bool needs_heads() const {
    const bool merged = part("concat") || part("output") || part("residual");
    return (part("X") && !merged) ||
           std::any_of(parts_.begin(), parts_.end(), [](const auto& entry) {
             const std::string& name = entry.first;
             return name != "concat" && name != "output" && name != "residual" && name != "W_o" &&
                    name != "b_o" && name != "X";
           });
  }

  void learn_inputs() {
    if (const NamedTensor* p = part("X")) {
      if (p->tensor.rank() == 1)
        T.learn(1, p->source), d_model.learn(p->tensor.shape()[0], p->source);
      else
        sizes_.learn_axes(*p, {Dim::T, Dim::d_model});
    }
    Size in_k{"columns"}, in_v{"columns"};
    if (const NamedTensor* p = part("X_kv")) {
      if (const NamedTensor* other = part("X_k") ? part("X_k") : part("X_v"))
        fail("{} and {} are both given: X_kv is both X_k and X_v", p->source, other->source);
      sizes_.learn_axes(*p, {&S, &in_k}, "S, d_in");
      source_k_ = source_v_ = p;
    }
    if (const NamedTensor* p = part("X_k"))
      sizes_.learn_axes(*p, {&S, &in_k}, "S, d_in"), source_k_ = p;
    if (const NamedTensor* p = part("X_v"))
      sizes_.learn_axes(*p, {&S, &in_v}, "S, d_in"), source_v_ = p;
  }

  /// The tensor that W multiplies in latent attention, or nullptr.
  const NamedTensor* compressed(std::string_view W) const {
    return part(W == "W_q" ? "W_q_a" : "W_c_kv");
  }
  /// Learns the widths of latent attention's compressed rows.
  void learn_latent() {
    for (const auto& [name, width] :
         {std::pair("W_q_a", &r_q), {"W_c_kv", &r_kv}, {"W_k_pe", &d_pe}}) {
      const NamedTensor* p = part(name);
      if (!p) continue;
      const Shape& shape = p->tensor.shape();
      if (input() && input()->tensor.shape().back() != shape[0])
        fail("{} is {}: {}, but {} has {}", p->source, to_string(shape), counted(shape[0], "rows"),
             input()->source, counted(input()->tensor.shape().back(), "columns"));
      width->learn(shape[1], p->source, &shape);
    }
  }

  void learn_given() {
    for (const auto& [stage, name] : given_) {
      const NamedTensor& p = parts_.at(name);
      if (!is_packed(name)) {
        const std::vector<Dim>& letters = info_of(stage).letters;
        sizes_.learn_axes(p, TensorForm(letters.begin(), letters.end()));
      } else if (stage == Stage::q) {
        sizes_.learn_axes(p, {&T, &width_q}, "T, H·d_k");
      } else {
        sizes_.learn_axes(p, {&S, stage == Stage::k ? &width_k : &width_v}, "S, H_kv·d");
      }
    }
  }

  void learn_keys() {
    for (const char* name : {"k_past", "v_past"})
      if (const NamedTensor* p = part(name))
        sizes_.learn_axes(*p, {&H_kv, &past, std::string_view(name) == "k_past" ? &d_k : &d_v},
                          "H_kv, P, d");
    for (const auto& [k, v] : {std::pair("k_past", "v_past"), {"k_extra", "v_extra"}})
      if (!part(k) != !part(v))
        fail("{} is alone: {} and {} come together; give {}", (part(k) ? part(k) : part(v))->source,
             k, v, part(k) ? v : k);
    const std::size_t others =
        past.value + (part("k_extra") ? 1 : 0) + (settings_.zero_attn ? 1 : 0);
    if (!S.known && S_all.known) {
      if (S_all.value < others)
        fail("{}: {}, but there are {} past, extra and zero ones", S_all.source,
             counted(S_all.value, "keys"), others);
      S.learn(S_all.value - others, S_all.source);
    }
    // Self-attention: keys and values come from the same tokens.
    if (!S.known && T.known && input()) S.learn(T.value, T.source);
    if (S.known) S_all.learn(S.value + others, past.known ? past.source : S.source);
    if (part("X") && S.known && T.known && S.value != T.value) {
      if (!source_k_ && !given_.count(Stage::k) &&
          (part("W_k") || part("W_q") || !given_after(Stage::scores)))
        wrong_source("keys");
      if (!source_v_ && !given_.count(Stage::v) && !given_after(Stage::head_out))
        wrong_source("values");
    }
  }
  [[noreturn]] void wrong_source(std::string_view what) const {
    fail("{}: {}, but the {} come from {}, which has {}; give X_kv, or {}", S.source,
         counted(S.value, "keys"), what, part("X")->source, counted(T.value, "tokens"),
         what == "keys" ? "k" : "v");
  }
  /// Whether a stage from `first` on is given. The computation cannot start from row_max alone.
  bool given_after(Stage first) const {
    return std::any_of(given_.begin(), given_.end(), [&](const auto& entry) {
      return entry.first >= first && entry.first != Stage::row_max;
    });
  }

  /// The columns of a projection's output, or its input's if there is none; checks its rows. `from`
  /// gets the tensor that they are from.
  /// Whether a weight (H·d, d_in) fits an input whose tokens are its columns, (d_in, T).
  bool are_columns(const Shape& input, const Shape& weight) const {
    return !settings_.columns && input.size() == 2 && weight.size() == 2 && weight[1] == input[0];
  }

  std::optional<std::size_t> projected(const char* W, const NamedTensor* source,
                                       const NamedTensor** from) {
    const NamedTensor* p = part(W);
    if (compressed(W)) source = compressed(W);
    *from = p ? p : source;
    const NamedTensor* multiplied = source == part("X") ? input() : source;
    if (!p) return source ? std::optional(source->tensor.shape().back()) : std::nullopt;
    const Shape& shape = p->tensor.shape();
    if (shape.size() != 2 && shape.size() != 3)
      fail("{} is {}: expected (d_in, H·d) or one matrix per head, (H, d_in, d)", p->source,
           to_string(shape));
    const std::size_t rows = shape[shape.size() - 2];
    if (multiplied && multiplied->tensor.shape().back() != rows)
      fail("{} is {}: {}, but {} has {}{}", p->source, to_string(shape), counted(rows, "rows"),
           multiplied->source, counted(multiplied->tensor.shape().back(), "columns"),
           shape.back() == multiplied->tensor.shape().back()
               ? message("; stored as (out, in)? <transpose {}>", W)
           : are_columns(multiplied->tensor.shape(), shape)
               ? message("; tokens as columns? <columns> reads them so")
               : "");
    return shape.size() == 3 ? shape[0] * shape[2] : shape[1];
  }

  /// Learns d, the width of one of `heads` in `columns`, or throws Error with the calculation. `W`
  /// is the projection; where it is absent, its input is split and the message names both.
  void learn_width(Size& d, std::size_t columns, const Size& heads, const NamedTensor& from,
                   const char* W = nullptr) {
    const std::size_t width = split(columns, heads, from);
    if (d.known && d.value != width) {
      if (W && !part(W) && is_input(from))
        fail(
            "{} is {}: there is no {}, so each head gets {} of its columns, but {} expected, as in "
            "{}; give {}",
            from.source, to_string(from.tensor.shape()), W, width, d.value, d.source, W);
      fail(
          "{} is {}: {} in {} are {} each, but {} expected, as in {}; give <num_{}heads> or fix {}",
          from.source, to_string(from.tensor.shape()), counted(columns, "columns"),
          counted(heads.value, heads.meaning), width, counted(d.value, d.meaning), d.source,
          &heads == &H_kv ? "kv_" : "", name_in(from.source));
    }
    d.learn(width, from.source);
  }

  /// "W_k" of "weights.npz: W_k".
  static std::string name_in(const std::string& source) {
    const std::size_t colon = source.rfind(": ");
    const std::string name = source.substr(colon == std::string::npos ? 0 : colon + 2);
    return name.substr(0, name.find(", ")); // without the conversion
  }

  /// Splits `columns` into `heads`, or throws Error.
  std::size_t split(std::size_t columns, const Size& heads, const NamedTensor& from) {
    if (heads.value == 0 || columns % heads.value != 0)
      fail("{} is {}: {} do not split into {}; give <num_{}heads> or fix {}", from.source,
           to_string(from.tensor.shape()), counted(columns, "columns"),
           counted(heads.value, heads.meaning), &heads == &H_kv ? "kv_" : "", name_in(from.source));
    return columns / heads.value;
  }

  /// Whether a width comes from an input itself.
  bool is_input(const NamedTensor& from) const {
    return &from == part("X") || &from == source_k_ || &from == source_v_;
  }

  void learn_widths() {
    if (!H.known) return; // only concat or output is given
    // With a given T × S stage, queries and keys are not needed and X need not split into them.
    const bool late = given_after(Stage::scores);
    const auto usable = [&](const char* W, std::size_t columns, const Size& heads) {
      return part(W) || !late || (heads.value > 0 && columns % heads.value == 0);
    };
    // X need not have as many tokens as there are keys either.
    const auto from_others = [&](const NamedTensor* source) {
      return !source && S.known && T.known && S.value != T.value;
    };
    const NamedTensor* from = nullptr;
    const NamedTensor* packed_q =
        given_.count(Stage::q) && given_.at(Stage::q) == "Q" ? part("Q") : nullptr;
    if (packed_q)
      learn_width(d_k, width_q.value, H, *packed_q);
    else if (const auto columns = projected("W_q", part("X"), &from);
             columns && !given_.count(Stage::q) && usable("W_q", *columns, H))
      learn_width(d_k, *columns, H, *from, "W_q");

    const auto keys = [&](Stage stage, const char* packed, Size& width, const char* W,
                          const NamedTensor* source, Size& d) {
      std::size_t columns = 0;
      // Keys and values that are given after their norm or rotation are not made here.
      const bool is_later = stage == Stage::k
                                ? given_.count(Stage::k_norm) || given_.count(Stage::k_rope)
                                : given_.count(Stage::v_norm) > 0;
      if (is_later && !part(W)) return;
      if (given_.count(stage)) {
        if (given_.at(stage) != packed) return; // per head: learned already
        from = part(packed), columns = width.value;
      } else {
        const auto found = projected(W, source ? source : part("X"), &from);
        if (!found || !usable(W, *found, H_kv.known ? H_kv : H) || from_others(source)) return;
        columns = *found;
      }
      if (!H_kv.known) infer_kv_heads(columns, *from);
      learn_width(d, columns, H_kv, *from, given_.count(stage) ? nullptr : W);
    };
    keys(Stage::k, "K", width_k, "W_k", source_k_, d_k);
    keys(Stage::v, "V", width_v, "W_v", source_v_, d_v);
    if (!H_kv.known) H_kv.learn(H.value, H.source);
  }

  /// Without a setting: the keys' columns divided by the width of a query head, where that is
  /// whole.
  void infer_kv_heads(std::size_t columns, const NamedTensor& from) {
    const std::size_t n =
        d_k.known && d_k.value > 0 && columns % d_k.value == 0 ? columns / d_k.value : H.value;
    if (n == 0 || n == H.value || H.value % n != 0) {
      H_kv.learn(H.value, H.source);
      return;
    }
    H_kv.learn(n, from.source);
    notes_.push_back(
        fmt::format("num_kv_heads {} is taken from the {} columns of {}", n, columns, from.source));
  }

  void learn_output() {
    if (const NamedTensor* p = part("W_o")) {
      const Shape& shape = p->tensor.shape();
      if (shape.size() != 2 && shape.size() != 3)
        fail("{} is {}: expected (H·d_v, d_model) or (H, d_v, d_model)", p->source,
             to_string(shape));
      const std::size_t rows = shape.size() == 3 ? shape[0] * shape[1] : shape[0];
      if (H.known && !d_v.known && H.value > 0 && rows % H.value == 0)
        d_v.learn(rows / H.value, p->source);
      const std::size_t width = H.known ? H.value * d_v.value : concat_width();
      if (rows != width)
        fail("{} is {}: {}, but {} {} wide{}", p->source, to_string(shape), counted(rows, "rows"),
             H.known ? fmt::format("{} of {} are", counted(H.value, "heads"),
                                   counted(d_v.value, "values"))
                     : H_d_v.source + " is",
             width, shape.back() == width ? message("; stored as (out, in)? <transpose W_o>") : "");
      d_out.learn(shape.back(), p->source, &shape);
    }
    if (H.known && d_v.known && !d_out.known) d_out.learn(H.value * d_v.value, d_v.source);
    if (!d_out.known && concat_width() > 0) d_out.learn(concat_width(), H_d_v.source);
    if (const NamedTensor* p = part("b_o"))
      d_out.learn(p->tensor.count(), p->source, &p->tensor.shape());
    if (H_d_v.known && H.known) {
      if (!d_v.known && H_d_v.value % H.value == 0) d_v.learn(H_d_v.value / H.value, H_d_v.source);
      if (!d_v.known)
        fail("{}: {} do not split into {}; give <num_heads>", H_d_v.source,
             counted(H_d_v.value, "columns"), counted(H.value, "heads"));
      if (H_d_v.value != H.value * d_v.value)
        fail("{} is {} wide, but {} of {} are {}", H_d_v.source, H_d_v.value,
             counted(H.value, "heads"), counted(d_v.value, "values"), H.value * d_v.value);
    }
    if (!H.known && H_d_v.known)
      H.learn(1, H_d_v.source), H_kv.learn(1, H_d_v.source), d_v.learn(H_d_v.value, H_d_v.source);
  }

  std::size_t concat_width() const { return H_d_v.known ? H_d_v.value : 0; }

  LearnedSizes sizes_;
  const NamedTensors& parts_ = sizes_.parts();
  const GivenNames& given_ = sizes_.given();
  const Settings& settings_ = sizes_.settings();
  std::vector<Note>& notes_;
  Size &T = sizes_[Dim::T], &S = sizes_[Dim::S], &S_all = sizes_[Dim::S_all],
       &past = sizes_[Dim::P], &H = sizes_[Dim::H], &H_kv = sizes_[Dim::H_kv],
       &d_model = sizes_[Dim::d_model], &d_k = sizes_[Dim::d_k], &d_v = sizes_[Dim::d_v],
       &d_out = sizes_[Dim::d_out], &H_d_v = sizes_[Dim::H_d_v], &r_q = sizes_[Dim::r_q],
       &r_kv = sizes_[Dim::r_kv], &d_pe = sizes_[Dim::d_pe];
  Size width_q{"columns"}, width_k{"columns"}, width_v{"columns"}; // of packed q, k and v
  const NamedTensor *source_k_ = nullptr, *source_v_ = nullptr;
};

} // namespace

bool is_packed(const std::string& name) {
  return name == "Q" || name == "K" || name == "V";
}

HeadCounts find_heads(const NamedTensors& parts, const GivenNames& given, const Settings& settings,
                      std::vector<Note>& notes) {
  return SizeFinder(parts, given, settings, notes).heads();
}

Dims find_sizes(const NamedTensors& parts, const GivenNames& given, const Settings& settings,
                HeadCounts heads, std::vector<Note>& notes) {
  return SizeFinder(parts, given, settings, notes).find(heads);
}

} // namespace mha
