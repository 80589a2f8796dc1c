#include <mha/load/lengths.hpp>

#include <mha/files/text.hpp>

#include <cmath>

namespace mha {

void take_lengths(const std::vector<io::Contents>& files, Layer& layer) {
  const Dims& dims = layer.dims;
  const bool of_texts =
      dims.batched && dims.T > 0 && dims.T == dims.S && layer.X_k.empty() && layer.X_v.empty();
  for (const io::Contents& file : files) {
    const io::Entry* entry = file.format == "checkpoint" ? nullptr : file.find("lengths");
    if (!entry || !of_texts) continue;
    if (entry->shape != Shape{dims.B})
      fail("{}: lengths is {}, but the batch has {}", io::shown(file.name), to_string(entry->shape),
           counted(dims.B, "items"));
    const Tensor lengths = entry->read();
    layer.lengths.clear();
    for (std::size_t b = 0; b < dims.B; ++b) {
      const double length = value_at(lengths, b);
      if (!(length >= 1 && length <= static_cast<double>(dims.T)) || length != std::floor(length))
        fail("{}: lengths has {} for batch item {}: 1 to {} tokens expected", io::shown(file.name),
             length, b, dims.T);
      layer.lengths.push_back(static_cast<std::size_t>(length));
    }
  }
}

} // namespace mha
