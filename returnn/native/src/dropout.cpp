// Dropout (Srivastava et al. 2014): y = x * scale where uniform random values are at least `rate`, otherwise x * 0.
//
// The random values are those of TensorFlow's StatelessRandomUniform, bit for bit: Philox 4x32-10 (Salmon et al. 2011, "Parallel
// random numbers: as easy as 1, 2, 3"), each of whose blocks is four numbers, and a key and first counter that are made
// of the seed by one block.
#include "kernel.h"
#include "simd.h"
#include "threads.h"

namespace returnn {
namespace RETURNN_LEVEL {
namespace {

constexpr int BLOCKS = 16, NUMBERS = 4 * BLOCKS;  // computed side by side

struct Philox {
  uint32_t key[2], counter[2];  // the upper half of it; the lower one is the number of the block

  explicit Philox(const int64_t *seed) {
    const uint64_t first = static_cast<uint64_t>(seed[0]), second = static_cast<uint64_t>(seed[1]);
    const Philox of_seed(0x3ec8f720u, 0x02461e29u, static_cast<uint32_t>(second), static_cast<uint32_t>(second >> 32));
    uint32_t mixed[NUMBERS];
    of_seed.blocks(first, mixed);
    key[0] = mixed[0];
    key[1] = mixed[1];
    counter[0] = mixed[2];
    counter[1] = mixed[3];
  }

  Philox(uint32_t key0, uint32_t key1, uint32_t counter0, uint32_t counter1) : key{key0, key1}, counter{counter0, counter1} {}

  // The numbers of some blocks from `first` on. On its own: inside of another loop, compilers find no vectors in it.
  __attribute__((noinline)) void blocks(uint64_t first, uint32_t *__restrict numbers) const {
    uint32_t a[BLOCKS], b[BLOCKS], c[BLOCKS], d[BLOCKS], high_a[BLOCKS], low_a[BLOCKS], high_c[BLOCKS], low_c[BLOCKS];
    for (int i = 0; i < BLOCKS; ++i) {
      a[i] = static_cast<uint32_t>(first + i);
      b[i] = static_cast<uint32_t>((first + i) >> 32);
      c[i] = counter[0];
      d[i] = counter[1];
    }
    uint32_t key0 = key[0], key1 = key[1];
    for (int round = 0; round < 10; ++round) {
      multiply(a, 0xD2511F53u, high_a, low_a);
      multiply(c, 0xCD9E8D57u, high_c, low_c);
      for (int i = 0; i < BLOCKS; ++i) {
        a[i] = high_c[i] ^ b[i] ^ key0;
        c[i] = high_a[i] ^ d[i] ^ key1;
        b[i] = low_c[i];
        d[i] = low_a[i];
      }
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
    for (int i = 0; i < BLOCKS; ++i) {
      numbers[4 * i] = a[i];
      numbers[4 * i + 1] = b[i];
      numbers[4 * i + 2] = c[i];
      numbers[4 * i + 3] = d[i];
    }
  }

 private:
  static void multiply(const uint32_t *x, uint32_t factor, uint32_t *high, uint32_t *low) {
    for (int i = 0; i < BLOCKS; ++i) {
      const uint64_t product = static_cast<uint64_t>(factor) * x[i];
      high[i] = static_cast<uint32_t>(product >> 32);
      low[i] = static_cast<uint32_t>(product);
    }
  }
};

// In [0, 1).
RETURNN_INLINE float uniform(uint32_t number) {
  const uint32_t bits = (number & 0x7fffffu) | 0x3f800000u;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value - 1.0f;
}

// Bytes could be part of anything, as far as the compiler knows: so it is told that they are not.
RETURNN_INLINE void drop(const uint32_t *__restrict numbers, int64_t num, float rate, float scale, const float *__restrict x,
                         float *__restrict y, uint8_t *__restrict keep) {
  for (int64_t i = 0; i < num; ++i) y[i] = x[i] * (uniform(numbers[i]) >= rate ? scale : 0.0f);
  for (int64_t i = 0; i < num; ++i) keep[i] = uniform(numbers[i]) >= rate;
}

// Calls work(begin, end) for parts of `num` values; each but the last one is a whole number of blocks.
template <class Work>
void for_parts(const returnn_call *call, int64_t num, const Work &work) {
  constexpr int64_t LEAST = 1 << 14;
  with_team(call->threads, [&](Team &team) {
    const int64_t groups = (num + NUMBERS - 1) / NUMBERS, most = num / LEAST + 1;
    const int64_t parts = team_size(team) < most ? team_size(team) : most;
    for_each_part(team, static_cast<int>(parts), [&](int part) {
      const Range range = part_of(groups, part, parts);
      work(range.begin * NUMBERS, range.end * NUMBERS < num ? range.end * NUMBERS : num);
    });
  });
}

const char *dropout_forward(const returnn_call *call) {
  const float *x = static_cast<const float *>(call->inputs[0].data);
  float *y = static_cast<float *>(call->outputs[0].data);
  uint8_t *keep = static_cast<uint8_t *>(call->outputs[1].data);
  const float rate = static_cast<float>(call->options[0]), scale = static_cast<float>(call->options[1]);
  const Philox random(static_cast<const int64_t *>(call->inputs[1].data));
  for_parts(call, call->inputs[0].sizes[0], [&](int64_t begin, int64_t end) {
    uint32_t numbers[NUMBERS];
    for (; begin < end; begin += NUMBERS) {
      random.blocks(static_cast<uint64_t>(begin / 4), numbers);
      if (end - begin < NUMBERS)
        drop(numbers, end - begin, rate, scale, x + begin, y + begin, keep + begin);
      else
        drop(numbers, NUMBERS, rate, scale, x + begin, y + begin, keep + begin);
    }
  });
  return nullptr;
}

RETURNN_INLINE void mask(int64_t num, float scale, const uint8_t *__restrict keep, const float *__restrict d, float *__restrict out) {
  for (int64_t i = 0; i < num; ++i) out[i] = d[i] * (static_cast<float>(keep[i]) * scale);
}

// Linear in d: its own gradient.
const char *masked(const returnn_call *call) {
  const uint8_t *keep = static_cast<const uint8_t *>(call->inputs[0].data);
  const float *d = static_cast<const float *>(call->inputs[1].data);
  float *out = static_cast<float *>(call->outputs[0].data);
  const float scale = static_cast<float>(call->options[0]);
  for_parts(call, call->inputs[0].sizes[0], [&](int64_t begin, int64_t end) {
    mask(end - begin, scale, keep + begin, d + begin, out + begin);
  });
  return nullptr;
}

RETURNN_KERNEL(dropout,
               "x: float32[N], seed: int64[2]; rate: float, scale: float -> y: float32[N], keep: uint8[N]") {
  return dropout_forward(call);
}

RETURNN_KERNEL(dropout_grad, "keep: uint8[N], d_y: float32[N]; scale: float -> d_x: float32[N]") { return masked(call); }

RETURNN_KERNEL(dropout_grad_grad, "keep: uint8[N], d_d_x: float32[N]; scale: float -> d_d_y: float32[N]") {
  return masked(call);
}

}  // namespace
}  // namespace RETURNN_LEVEL
}  // namespace returnn
