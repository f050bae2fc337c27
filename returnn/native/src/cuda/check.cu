// Whether kernels run here: the driver may be older than the compiler, or there is no machine code for this GPU.
#include "../kernel.h"
#include "device.h"

namespace returnn {
namespace RETURNN_LEVEL {
namespace {

struct Nothing {
  static constexpr int THREADS = 32;
  RETURNN_DEVICE void operator()() const {}
};

}  // namespace
}  // namespace RETURNN_LEVEL
}  // namespace returnn

// Null, or why not.
RETURNN_API const char *returnn_device_error() {
  return returnn::RETURNN_LEVEL::launch(returnn::RETURNN_LEVEL::Nothing{}, {1, 1}, 0, nullptr);
}
