#include "kernels/onednn.hpp"

#include "error.hpp"
#include "kernels/library_threads.hpp"

#include <oneapi/dnnl/dnnl.h>

namespace mha {

void multiply_onednn(Matrix<const float> a, Matrix<const float> b, bool transposed, Matrix<float> c,
                     bool accumulate) {
  use_one_library_thread();
  const auto size = [](std::size_t n) { return static_cast<dnnl_dim_t>(n); };
  const dnnl_status_t status = dnnl_sgemm(
      'N', transposed ? 'T' : 'N', size(c.rows), size(c.cols), size(a.cols), 1.0f, a.data,
      size(a.stride), b.data, size(b.stride), accumulate ? 1.0f : 0.0f, c.data, size(c.stride));
  if (status != dnnl_success)
    fail("oneDNN could not multiply {} × {} by {} × {}: status {}", a.rows, a.cols, a.cols, c.cols,
         static_cast<int>(status));
}

} // namespace mha
