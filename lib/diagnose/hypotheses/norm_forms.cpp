#include <mha/diagnose/hypotheses/norm_forms.hpp>

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/precision.hpp>
#include <mha/forward/norm.hpp>

#include <fmt/format.h>

#include <cmath>

namespace mha {

std::string with_name(std::string text, std::string_view name) {
  for (std::size_t at = 0; (at = text.find("{}", at)) != std::string::npos; at += name.size())
    text.replace(at, 2, name);
  return text;
}

namespace {

/// The divisor of a row of n numbers; `square` is the sum of squares of the centred numbers.
double size_of_row(double square, double n, double eps, const NormForm& form) {
  const double variance = square / (form.unbiased ? n - 1 : n);
  switch (form.size) {
  case NormSize::eps_outside:
    return std::sqrt(variance) + eps;
  case NormSize::larger:
    return std::fmax(std::sqrt(variance), eps);
  case NormSize::length:
    return std::sqrt(square + eps);
  case NormSize::eps_in_sum:
    return std::sqrt(square + eps) / std::sqrt(n);
  case NormSize::variance:
    return variance + eps;
  case NormSize::root:
    break;
  }
  return std::sqrt(variance + eps);
}

} // namespace

Tensor normed(const Norm& norm, const Tensor& rows, const NormForm& form) {
  const Norm own = in_precision(norm, rows.dtype());
  const bool centres = form.centres && own.kind == InputNorm::layer;
  const std::size_t width = rows.shape().back(), texts = rows.shape()[0],
                    n = form.of_text ? rows.count() / texts : width, count = rows.count() / n;
  Tensor result = Tensor::uninitialised(rows.dtype(), rows.shape());
  by_precision(rows.dtype(), [&]<class T>(T) {
    const T* from = rows.as<T>().data();
    T* to = result.as_mutable<T>().data();
    const auto part = [](const Tensor& tensor, std::size_t i, double otherwise) {
      return tensor.empty() ? otherwise : static_cast<double>(tensor.as<T>()[i]);
    };
    for (std::size_t row = 0; row < count; ++row, from += n, to += n) {
      double mean = 0, square = 0;
      for (std::size_t i = 0; i < n; ++i) mean += static_cast<double>(from[i]);
      mean = centres ? mean / static_cast<double>(n) : 0;
      for (std::size_t i = 0; i < n; ++i) {
        const double a = static_cast<double>(from[i]) - (form.about_zero ? 0 : mean);
        square += a * a;
      }
      const double size = size_of_row(square, static_cast<double>(n), own.eps, form);
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t column = i % width;
        const double w = part(own.weight, column, 1) + (own.one_plus ? 1 : 0) + form.weight_offset;
        const double b = form.adds_bias ? part(own.bias, column, 0) : 0,
                     unit = (static_cast<double>(from[i]) - mean) / size;
        to[i] = static_cast<T>(form.bias_first ? (unit + b) * w : unit * w + b);
      }
    }
  });
  return result;
}

namespace {

/// The norm with `more` added to its weight. A one_plus is also written into the weight, because a
/// LayerNorm has none.
Norm with_offset(Norm norm, double more) {
  const double own = more + (norm.one_plus ? 1 : 0);
  norm.weight = each_number(convert(norm.weight, DType::f64), [own](double w) { return w + own; });
  norm.one_plus = false;
  return norm;
}

/// 1 + w in place of w, or the reverse.
void add_offsets(const Norm& norm, std::vector<OtherNorm>& list) {
  const auto add = [&](const char* did, const char* cure, double more) {
    list.push_back(
        {"one_plus", did, cure, [more](const Norm& own) { return with_offset(own, more); }, {}});
  };
  if (norm.one_plus) {
    add("multiplies by w in {}", "multiply by 1 + w in {}", -1);
    add("multiplies by 2 + w in {}: it adds 1 to a weight that has it", "add 1 once in {}", 1);
  } else {
    add("multiplies by 1 + w in {}", "multiply by w in {}", 1);
    add("multiplies by w − 1 in {}", "multiply by w in {}", -1);
  }
}

bool equal_numbers(const Tensor& a, const Tensor& b) {
  for (std::size_t i = 0; i < a.count(); ++i)
    if (value_at(a, i) != value_at(b, i)) return false;
  return true;
}

/// Weights rounded to a short type, as when 1 + w is computed in it.
void add_rounded_weights(const Norm& norm, std::vector<OtherNorm>& list) {
  for (const auto& [to, name] : {std::pair{DType::bf16, "bfloat16"}, {DType::f16, "float16"}}) {
    const Norm whole = with_offset(norm, 0);
    if (equal_numbers(whole.weight, rounded_to(whole.weight, to))) continue;
    list.push_back(
        {"rounded",
         fmt::format("rounds the weight{} of {{}} to {}", norm.one_plus ? " plus 1" : "", name),
         "keep the weight of {} in float32",
         [to = to](const Norm& own) {
           Norm rounded = with_offset(own, 0);
           rounded.weight = rounded_to(rounded.weight, to);
           return rounded;
         },
         {}});
  }
}

/// Forms that no Norm can represent.
void add_row_forms(const Norm& norm, bool of_all, std::vector<OtherNorm>& list) {
  const auto add = [&](const char* id, const char* did, const char* cure, NormForm form) {
    list.push_back({id, did, cure, {}, [form](const Norm& own, const Tensor& rows) {
                      return normed(own, rows, form);
                    }});
  };
  NormForm form;
  form.unbiased = true;
  add("form", "divides by the standard deviation over n − 1 in {}",
      "divide by the standard deviation over n in {}", form);
  const auto sized = [&](NormSize size, const char* did, const char* cure) {
    form = {};
    form.size = size;
    add("form", did, cure, form);
  };
  sized(NormSize::eps_outside, "adds ε to the root, not to the variance, in {}",
        "add ε under the root in {}");
  const bool centres = norm.kind == InputNorm::layer;
  if (of_all) {
    sized(NormSize::larger, "divides by the larger of the root and ε in {}",
          "add ε under the root in {}");
    sized(NormSize::length, "divides by the length of each row, √Σx², in {}",
          "divide by the root of the mean in {}");
    sized(NormSize::variance, "divides by the variance, without its root, in {}",
          "divide by the variance's root in {}");
    form = {};
    form.of_text = true;
    add("form", "uses one mean and variance for all rows of a text in {}",
        "normalise each row by itself in {}", form);
  }
  if (centres && of_all) {
    form = {};
    form.about_zero = true;
    add("form", "divides by the root mean square, though it subtracts the mean, in {}",
        "divide by the standard deviation in {}", form);
  }
  if (!centres || norm.bias.empty()) return;
  if (of_all) {
    form = {};
    form.bias_first = true;
    add("form", "adds the bias before it multiplies by the weight in {}",
        "multiply by the weight first in {}", form);
  }
  form = {};
  form.centres = false;
  add("kind", "does not subtract the mean in {}, but adds its bias", "make {} a LayerNorm", form);
}

} // namespace

OtherNorm other_epsilon(const Norm& norm, double eps) {
  return {"eps",
          fmt::format("uses ε = {:.4g} in {{}}", eps),
          fmt::format("use ε = {:g} in {{}}", norm.eps),
          [eps](Norm changed) {
            changed.eps = eps;
            return changed;
          },
          {}};
}

std::vector<OtherNorm> other_norms(const Norm& norm, bool of_all) {
  std::vector<OtherNorm> list;
  const bool rms = norm.kind == InputNorm::rms;
  const char *kind = rms ? "RMSNorm" : "LayerNorm", *other = rms ? "LayerNorm" : "RMSNorm";
  list.push_back({"kind",
                  fmt::format("uses {} for {{}}", other),
                  fmt::format("make {{}} a {}", kind),
                  [rms](Norm changed) {
                    if (changed.one_plus) changed = with_offset(changed, 0);
                    changed.kind = rms ? InputNorm::layer : InputNorm::rms;
                    return changed;
                  },
                  {}});
  for (double eps : {1e-5, 1e-6, 1e-12, 1e-8, 1e-7, 1e-4, 1e-3, 1e-2, 1e-1, 0.0})
    if (eps != norm.eps) list.push_back(other_epsilon(norm, eps));
  if (!norm.weight.empty()) {
    add_offsets(norm, list);
    add_rounded_weights(norm, list);
    list.push_back({"weight",
                    "leaves out the weight of {}",
                    "multiply by the weight of {}",
                    [](Norm changed) {
                      changed.weight = {}, changed.one_plus = false;
                      return changed;
                    },
                    {}});
  }
  if (!norm.bias.empty())
    list.push_back({"bias",
                    "leaves out the bias of {}",
                    "add the bias of {}",
                    [](Norm changed) {
                      changed.bias = {};
                      return changed;
                    },
                    {}});
  add_row_forms(norm, of_all, list);
  return list;
}

Tensor normed(const Norm& norm, const Tensor& rows) {
  Tensor result = copied(rows);
  const std::size_t d = rows.shape().back(), n = rows.count() / d;
  by_precision(rows.dtype(), [&]<class T>(T) {
    const Matrix<T> to{result.as_mutable<T>().data(), n, d, d};
    norm_rows<T>(in_precision(norm, rows.dtype()), to, to);
  });
  return result;
}

} // namespace mha
