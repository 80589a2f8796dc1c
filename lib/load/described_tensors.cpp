#include <mha/load/described_tensors.hpp>

#include <mha/maths/functions.hpp>
#include <mha/tensor/parts.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace mha {

namespace {

io::Entry made_entry(const io::Entry& from, Shape shape, std::function<Tensor()> read) {
  io::Entry entry;
  entry.name = from.name, entry.own_name = from.name_in_file();
  entry.dtype = from.dtype, entry.shape = std::move(shape), entry.read = std::move(read);
  return entry;
}

/// a = weight / √(variance + eps), or bias − mean · a.
Tensor folded(double eps, const std::vector<io::Entry>& parts, bool bias) {
  std::vector<Tensor> read;
  for (const io::Entry& part : parts)
    read.push_back(part.read ? convert(part.read(), DType::f64) : Tensor());
  const auto &weight = read[0], &offset = read[1], &mean = read[2], &variance = read[3];
  std::vector<double> values(mean.count());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double a =
        (weight.empty() ? 1 : value_at(weight, i)) / std::sqrt(value_at(variance, i) + eps);
    values[i] = bias ? (offset.empty() ? 0 : value_at(offset, i)) - value_at(mean, i) * a : a;
  }
  return Tensor::of<double>({values.size()}, values);
}

io::Entry folded_entry(const BatchNorm& norm, bool bias) {
  std::vector<io::Entry> parts;
  for (const io::Entry* part : {norm.weight, norm.bias, norm.mean, norm.variance})
    parts.push_back(part ? *part : io::Entry{});
  io::Entry entry = made_entry(*(bias && norm.bias ? norm.bias
                                 : norm.weight     ? norm.weight
                                                   : norm.mean),
                               norm.mean->shape,
                               [eps = norm.eps, parts, bias] { return folded(eps, parts, bias); });
  entry.dtype = DType::f64;
  return entry;
}

/// The numbers of the parts in sequence, in the first part's type.
io::Entry joined_entry(const std::vector<io::Entry>& parts, const Shape& shape) {
  return made_entry(parts[0], shape, [parts, shape] {
    Tensor all = Tensor::uninitialised(parts[0].dtype, shape);
    std::byte* to = all.raw_mutable();
    for (const io::Entry& part : parts) {
      const Tensor converted = convert(part.read(), parts[0].dtype);
      to = std::copy_n(converted.raw(), converted.bytes(), to);
    }
    return all;
  });
}

} // namespace

Shape squeezed(const Shape& shape, std::size_t rank) {
  Shape kept = shape;
  for (std::size_t i = kept.size(); i-- > 0 && kept.size() > rank;)
    if (kept[i] == 1) kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
  return kept.size() == rank ? kept : shape;
}

io::Entry turned_entry(const io::Entry& from, const std::string& letters,
                       const std::string& wanted) {
  const Shape axes = squeezed(from.shape, letters.size());
  std::vector<std::size_t> order;
  Shape shape;
  for (char letter : wanted) {
    order.push_back(letters.find(letter));
    shape.push_back(axes[order.back()]);
  }
  return made_entry(from, shape, [from, axes, order] {
    const Tensor tensor = from.read().reshaped(axes);
    if (std::ranges::is_sorted(order)) return tensor;
    return order.size() == 2 ? transposed_when_read(tensor) : permuted(tensor, order);
  });
}

io::Entry stacked_entry(const std::vector<io::Entry>& of_heads) {
  Shape shape = of_heads[0].shape;
  shape.insert(shape.begin(), of_heads.size());
  return joined_entry(of_heads, shape);
}

io::Entry reshaped_entry(const io::Entry& from, const Shape& shape) {
  return made_entry(from, shape, [from, shape] { return from.read().reshaped(shape); });
}

io::Entry scaled_entry(const io::Entry& from, double scale) {
  io::Entry entry = made_entry(from, from.shape, [from, scale] {
    const Tensor rows = from.read();
    std::vector<double> scaled(rows.count());
    for (std::size_t i = 0; i < scaled.size(); ++i) scaled[i] = scale * value_at(rows, i);
    return Tensor::of<double>(rows.shape(), scaled);
  });
  entry.dtype = DType::f64;
  return entry;
}

io::Entry multiplied_entry(const io::Entry& from, const io::Entry& by) {
  io::Entry entry = made_entry(from, from.shape, [from, by] {
    const Tensor values = convert(from.read(), DType::f64),
                 factors = convert(by.read(), DType::f64);
    const std::span<const double> x = values.as<double>(), a = factors.as<double>();
    std::vector<double> scaled(values.count());
    for (std::size_t i = 0; i < scaled.size(); ++i) scaled[i] = x[i] * a[i % a.size()];
    return Tensor::of<double>(values.shape(), scaled);
  });
  entry.dtype = DType::f64;
  return entry;
}

io::Entry below_entry(const std::vector<io::Entry>& parts) {
  if (parts.size() == 1) return parts[0];
  std::size_t rows = 0;
  for (const io::Entry& part : parts) rows += part.shape[0];
  return joined_entry(parts, {rows, parts[0].shape[1]});
}

io::Entry values_entry(const std::string& file, std::vector<double> values) {
  io::Entry entry;
  entry.name = entry.own_name = file, entry.dtype = DType::f64, entry.shape = {values.size()};
  entry.read = [values = std::move(values), shape = entry.shape] {
    return Tensor::of<double>(shape, values);
  };
  return entry;
}

double deviation_scale(const io::Entry& weight) {
  const auto n = static_cast<double>(count_of(weight.shape));
  return n > 1 ? std::sqrt((n - 1) / n) : 1;
}

io::Entry sinusoid_entry(const Sinusoid& sinusoid) {
  io::Entry entry;
  entry.name = entry.own_name = "sinusoid", entry.dtype = DType::f64;
  entry.shape = {sinusoid.length, sinusoid.width};
  entry.read = [sinusoid, shape = entry.shape] {
    Tensor rows(DType::f64, shape);
    const std::size_t pairs = (sinusoid.width + 1) / 2;
    const double steps = static_cast<double>(sinusoid.width) / 2 - (sinusoid.inclusive ? 1 : 0);
    double* row = rows.as_mutable<double>().data();
    for (std::size_t p = 0; p < sinusoid.length; ++p, row += sinusoid.width)
      for (std::size_t i = 0; i < pairs; ++i) {
        const double exponent = i == 0 ? 0 : static_cast<double>(i) / steps,
                     angle = static_cast<double>(p) * maths::pow(sinusoid.base, -exponent);
        const auto [sine, cosine] = maths::sin_cos(angle);
        row[sinusoid.halves ? i : 2 * i] = sine;
        if (const std::size_t at = sinusoid.halves ? pairs + i : 2 * i + 1; at < sinusoid.width)
          row[at] = cosine;
      }
    return rows;
  };
  return entry;
}

io::Entry columns_entry(const io::Entry& from, std::size_t first, std::size_t count) {
  Shape shape = from.shape;
  shape.back() = count;
  return made_entry(from, shape, [from, first, count] {
    const Tensor whole = from.read();
    return whole.rank() == 2 ? columns_when_read(whole, first, count)
                             : part_of_axis(whole, whole.rank() - 1, first, count);
  });
}

io::Entry every_second_entry(const io::Entry& from, std::size_t first) {
  Shape shape = from.shape;
  shape.back() /= 2;
  return made_entry(from, shape, [from, first] {
    const Tensor whole = from.read();
    std::vector<std::size_t> columns;
    for (std::size_t i = first; i < whole.shape().back(); i += 2) columns.push_back(i);
    return at_positions(whole, whole.rank() - 1, columns);
  });
}

io::Entry grouped_entry(const io::Entry& from, std::size_t groups,
                        const std::vector<std::size_t>& sizes, std::size_t which) {
  const std::size_t columns = from.shape.back(),
                    all = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}),
                    before = std::accumulate(sizes.begin(),
                                             sizes.begin() + static_cast<std::ptrdiff_t>(which),
                                             std::size_t{0});
  const std::size_t unit = columns / (groups * all), width = unit * sizes[which];
  Shape shape = from.shape;
  shape.back() = groups * width;
  return made_entry(from, shape, [from, shape, groups, all, before, unit, width, columns] {
    const Tensor whole = from.read();
    const Tensor of_groups = whole.reshaped({whole.count() / columns * groups, all * unit});
    return part_of_axis(of_groups, 1, before * unit, width).reshaped(shape);
  });
}

io::Entry folded_weight(const BatchNorm& norm) {
  return folded_entry(norm, false);
}
io::Entry folded_bias(const BatchNorm& norm) {
  return folded_entry(norm, true);
}

} // namespace mha
