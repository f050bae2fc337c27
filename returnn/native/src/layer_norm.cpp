// Layer normalization of rows (Ba et al. 2016), with its gradient, and the gradient of that.
//
// Of the forward pass nothing is kept: mean and variance are computed again. Rows whose gradient is 0, such as padded
// frames, give none to the parameters, and can be NaN.
#include "kernel.h"
#include "layer_norm.h"
#include "threads.h"

namespace returnn {
namespace RETURNN_LEVEL {
namespace {

constexpr int64_t ROWS = 32;  // of a block. Parameters get sums over blocks, whose order does not depend on threads

template <class T>
struct Rows {
  const T *data;
  int64_t stride, num, size;

  explicit Rows(const returnn_array &array)
      : data(static_cast<const T *>(array.data)), stride(array.strides[0]), num(array.sizes[0]), size(array.sizes[1]) {}

  const T *operator[](int64_t n) const { return data + n * stride; }
};

template <class T>
const T *vector_of(const returnn_array &array) {
  return static_cast<const T *>(array.data);
}

template <class T>
T *memory_of(const returnn_array &array) {
  return static_cast<T *>(array.data);
}

// Calls work(block, begin, end) for each block of rows.
template <class Work>
void for_blocks(const returnn_call *call, int64_t num, int64_t size, const Work &work) {
  const int64_t blocks = (num + ROWS - 1) / ROWS;
  with_team(call->threads, [&](Team &team) {
    const int64_t most = num * size / (1 << 14) + 1, parts = team_size(team) < most ? team_size(team) : most;
    for_each_part(team, static_cast<int>(parts), [&](int part) {
      const Range range = part_of(blocks, part, parts);
      for (int64_t block = range.begin; block < range.end; ++block)
        work(block, block * ROWS, (block + 1) * ROWS < num ? (block + 1) * ROWS : num);
    });
  });
}

// Sums over rows, by block: of one or two vectors of parameters side by side.
template <class T>
class BlockSums {
 public:
  BlockSums(int64_t num_rows, int64_t width)
      : blocks_((num_rows + ROWS - 1) / ROWS), width_(width), sums_(blocks_ * width) {
    std::memset(sums_.data(), 0, blocks_ * width * sizeof(T));
  }

  T *operator[](int64_t block) { return sums_.data() + block * width_; }

  void write(T *out, int64_t begin, int64_t size) {
    std::memset(out, 0, size * sizeof(T));
    for (int64_t block = 0; block < blocks_; ++block) {
      const T *from = (*this)[block] + begin;
      for_vectors<T>(size, [&](int64_t i, int64_t num) { store(out + i, load(out + i, num) + load(from + i, num), num); });
    }
  }

 private:
  const int64_t blocks_, width_;
  Buffer<T> sums_;
};

template <class T>
bool is_zero(const T *x, int64_t size) {
  for (int64_t i = 0; i < size; ++i)
    if (x[i] != 0) return false;
  return true;
}

template <class T>
const char *forward(const returnn_call *call) {
  const Rows<T> x(call->inputs[0]);
  const T *gamma = vector_of<T>(call->inputs[1]), *beta = vector_of<T>(call->inputs[2]);
  T *y = memory_of<T>(call->outputs[0]);
  const T epsilon = static_cast<T>(call->options[0]);
  for_blocks(call, x.num, x.size, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) layer_norm(x[n], x.size, gamma, beta, epsilon, y + n * x.size);
  });
  return nullptr;
}

template <class T>
const char *backward(const returnn_call *call) {
  const Rows<T> x(call->inputs[0]), d_y(call->inputs[2]);
  const T *gamma = vector_of<T>(call->inputs[1]);
  T *d_x = memory_of<T>(call->outputs[0]);
  const T epsilon = static_cast<T>(call->options[0]);
  const int64_t size = x.size;
  BlockSums<T> sums(x.num, 2 * size);
  for_blocks(call, x.num, size, [&](int64_t block, int64_t begin, int64_t end) {
    T *d_gamma = sums[block], *d_beta = d_gamma + size;
    for (int64_t n = begin; n < end; ++n) {
      const T *from = x[n], *d = d_y[n];
      if (is_zero(d, size)) {
        std::memset(d_x + n * size, 0, size * sizeof(T));
        continue;
      }
      const Moments<T> moments = layer_norm_grad(from, size, gamma, epsilon, d, d_x + n * size);
      for_vectors<T>(size, [&](int64_t i, int64_t num) {
        const Vector<T> d_i = load(d + i, num);
        store(d_gamma + i, multiply_add(d_i, moments.normalized(load(from + i, num)), load(d_gamma + i, num)), num);
        store(d_beta + i, load(d_beta + i, num) + d_i, num);
      });
    }
  });
  sums.write(memory_of<T>(call->outputs[1]), 0, size);
  sums.write(memory_of<T>(call->outputs[2]), size, size);
  return nullptr;
}

// Of one row: d_x = scale P(a), with a = d_y gamma, P(z) = z - mean(z) - n mean(z n), and n the normalized x.
template <class T>
struct Projection {
  Moments<T> moments;
  T mean, mean_with_n;

  // value(i, num) is a part of z.
  template <class Value>
  Projection(const Moments<T> &moments, const T *x, int64_t size, const Value &value) : moments(moments) {
    Vector<T> sum = {}, with_n = {};
    for_vectors<T>(size, [&](int64_t i, int64_t num) {
      const Vector<T> z = value(i, num);
      sum = sum + z;
      with_n = multiply_add(z, moments.normalized(load(x + i, num)), with_n);
    });
    mean = sum_of_entries<T>(sum) / T(size);
    mean_with_n = sum_of_entries<T>(with_n) / T(size);
  }

  Vector<T> operator()(Vector<T> z, Vector<T> n) const { return z - all(mean) - n * all(mean_with_n); }
};

// With v, v_gamma, v_beta the gradients of d_x, d_gamma, d_beta: those of
//
//     scale <v, P(a)> + <v_gamma, d_y n> + <v_beta, d_y>.
//
// P is symmetric. As a function of n, the change is <w, dn>, w = v_gamma d_y - scale (mean(v n) a + mean(a n) v).
template <class T>
void second_gradient_of_row(const T *x, const T *gamma, const T *d_y, const T *v, const T *v_gamma, const T *v_beta, int64_t size,
                            T epsilon, T *d_x, T *d_gamma, T *d_d_y) {
  const Moments<T> moments = moments_of(x, size, epsilon);
  const auto n_of = [&](int64_t i, int64_t num) { return moments.normalized(load(x + i, num)); };
  const auto a_of = [&](int64_t i, int64_t num) { return load(d_y + i, num) * load(gamma + i, num); };
  const Projection<T> of_v(moments, x, size, [&](int64_t i, int64_t num) { return load(v + i, num); });
  const Projection<T> of_a(moments, x, size, a_of);
  const Vector<T> scale = all(moments.scale);
  const auto w_of = [&](int64_t i, int64_t num) {
    const Vector<T> both = all(of_v.mean_with_n) * a_of(i, num) + all(of_a.mean_with_n) * load(v + i, num);
    return load(v_gamma + i, num) * load(d_y + i, num) - scale * both;
  };
  const Projection<T> of_w(moments, x, size, w_of);
  Vector<T> products = {};
  for_vectors<T>(size, [&](int64_t i, int64_t num) { products = multiply_add(load(v + i, num), a_of(i, num), products); });
  const T of_scale = sum_of_entries<T>(products) / T(size) - of_a.mean * of_v.mean - of_a.mean_with_n * of_v.mean_with_n;
  const Vector<T> factor = all(moments.scale * moments.scale * of_scale);
  for_vectors<T>(size, [&](int64_t i, int64_t num) {
    const Vector<T> n = n_of(i, num), d = load(d_y + i, num), v_of_a = scale * of_v(load(v + i, num), n);
    store(d_d_y + i, v_of_a * load(gamma + i, num) + load(v_gamma + i, num) * n + load(v_beta + i, num), num);
    store(d_gamma + i, load(d_gamma + i, num) + d * v_of_a, num);
    store(d_x + i, scale * of_w(w_of(i, num), n) - factor * n, num);
  });
}

template <class T>
const char *second_backward(const returnn_call *call) {
  const Rows<T> x(call->inputs[0]), d_y(call->inputs[2]), v(call->inputs[3]);
  const T *gamma = vector_of<T>(call->inputs[1]);
  const T *v_gamma = vector_of<T>(call->inputs[4]), *v_beta = vector_of<T>(call->inputs[5]);
  T *d_x = memory_of<T>(call->outputs[0]), *d_d_y = memory_of<T>(call->outputs[2]);
  const T epsilon = static_cast<T>(call->options[0]);
  BlockSums<T> sums(x.num, x.size);
  for_blocks(call, x.num, x.size, [&](int64_t block, int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n)
      second_gradient_of_row(x[n], gamma, d_y[n], v[n], v_gamma, v_beta, x.size, epsilon, d_x + n * x.size, sums[block],
                             d_d_y + n * x.size);
  });
  sums.write(memory_of<T>(call->outputs[1]), 0, x.size);
  return nullptr;
}

RETURNN_KERNEL(layer_norm, "x: real[N, F], gamma: real[F], beta: real[F]; epsilon: float -> y: real[N, F]") {
  return call->inputs[0].type == RETURNN_FLOAT64 ? forward<double>(call) : forward<float>(call);
}

RETURNN_KERNEL(layer_norm_grad,
               "x: real[N, F], gamma: real[F], d_y: real[N, F]; epsilon: float -> d_x: real[N, F], d_gamma: real[F], "
               "d_beta: real[F]") {
  return call->inputs[0].type == RETURNN_FLOAT64 ? backward<double>(call) : backward<float>(call);
}

RETURNN_KERNEL(layer_norm_grad_grad,
               "x: real[N, F], gamma: real[F], d_y: real[N, F], d_d_x: real[N, F], d_d_gamma: real[F], d_d_beta: real[F]; "
               "epsilon: float -> d_x: real[N, F], d_gamma: real[F], d_d_y: real[N, F]") {
  return call->inputs[0].type == RETURNN_FLOAT64 ? second_backward<double>(call) : second_backward<float>(call);
}

}  // namespace
}  // namespace RETURNN_LEVEL
}  // namespace returnn
