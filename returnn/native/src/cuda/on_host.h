// Kernels of a GPU on one thread of a CPU, to test them: `device.h` once more.
//
// Each thread of a block is a fiber with a stack of its own, which runs until it has to wait. Who runs next is drawn by
// chance, from a seed in the environment variable RETURNN_CUDA_SEED. So a kernel that does not wait where it has to
// computes something else, for some seed. Blocks that do not run together run one after the other.
#pragma once

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "../portable.h"

namespace returnn {
namespace RETURNN_LEVEL {

struct Grid {
  int64_t x, y;
};

using Stream = void *;

namespace detail {

constexpr size_t STACK_BYTES = 1 << 16;
constexpr int WARP = 32;
constexpr int64_t PROCESSORS = 12, SHARED_BYTES = 96 << 10;  // of the GPU that is played

// Who has come to a place where all of a group wait for each other.
struct Meeting {
  int size = 0, come = 0;
  unsigned round = 0;

  bool arrive() {
    const bool is_last = ++come == size;
    if (is_last) {
      come = 0;
      ++round;
    }
    return is_last;
  }
};

struct Block {
  int x, y;
  Meeting threads;
  std::vector<Meeting> warps;
  std::vector<char> shared;

  Block(int x, int y, int num_threads, int64_t shared_bytes) : x(x), y(y), shared(shared_bytes + 16, char(0xFF)) {
    threads.size = num_threads;
    warps.resize((num_threads + WARP - 1) / WARP);
    for (size_t w = 0; w < warps.size(); ++w) {
      const int left = num_threads - static_cast<int>(w) * WARP;
      warps[w].size = left < WARP ? left : WARP;
    }
  }
};

struct Fiber {
  ucontext_t start;  // where it begins its life; afterwards, jumps are faster, as they do not call the system
  jmp_buf place;
  bool is_new = true, is_done = false;
  Block *block = nullptr;
  int thread = 0;
  const Meeting *waits_for = nullptr;
  unsigned round = 0;
};

struct State {
  jmp_buf scheduler;
  std::vector<std::unique_ptr<Fiber>> fibers;  // they go on with the next kernel
  Fiber *fiber = nullptr;                      // the one that runs
  void (*run)(const void *) = nullptr;
  const void *kernel = nullptr;
  int64_t grid_x = 0;
  uint64_t seed = 0;
  int64_t num_switches = 0;
};

inline State &state() {
  static State state;
  return state;
}

inline uint64_t random_number() {
  uint64_t &x = state().seed;  // xorshift, Marsaglia 2003
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return x;
}

[[noreturn]] inline void fail(const char *message) {
  std::fprintf(stderr, "kernel on the host: %s\n", message);
  std::abort();
}

inline void give_way() {
  if (_setjmp(state().fiber->place) == 0) _longjmp(state().scheduler, 1);
}

inline void meet(Meeting &meeting) {
  Fiber &fiber = *state().fiber;
  fiber.round = meeting.round;
  if (meeting.arrive()) return;
  fiber.waits_for = &meeting;
  give_way();
}

[[noreturn]] inline void fiber_main() {
  for (;;) {
    state().run(state().kernel);
    state().fiber->is_done = true;
    give_way();
  }
}

inline std::unique_ptr<Fiber> new_fiber() {
  auto fiber = std::make_unique<Fiber>();
  void *stack = mmap(nullptr, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED) fail("there is no memory for stacks");
  getcontext(&fiber->start);
  fiber->start.uc_stack.ss_sp = stack;
  fiber->start.uc_stack.ss_size = STACK_BYTES;
  fiber->start.uc_link = nullptr;
  makecontext(&fiber->start, reinterpret_cast<void (*)()>(fiber_main), 0);
  return fiber;
}

// Until it gives way.
__attribute__((noinline)) inline void resume(Fiber &fiber) {
  state().fiber = &fiber;
  if (_setjmp(state().scheduler) != 0) return;
  if (!fiber.is_new) _longjmp(fiber.place, 1);
  fiber.is_new = false;
  setcontext(&fiber.start);
}

// Runs all threads of these blocks to their end.
inline void run_together(std::vector<std::unique_ptr<Block>> &blocks, int num_threads) {
  constexpr int64_t MANY_SWITCHES = int64_t(1) << 32;
  size_t num = blocks.size() * num_threads;
  while (state().fibers.size() < num) state().fibers.push_back(new_fiber());
  std::vector<Fiber *> fibers;
  for (size_t i = 0; i < num; ++i) {
    fibers.push_back(state().fibers[i].get());
    fibers[i]->block = blocks[i / num_threads].get();
    fibers[i]->thread = static_cast<int>(i % num_threads);
    fibers[i]->is_done = false;
  }
  while (num > 0) {
    bool has_run = false;
    for (size_t i = num; i > 1; --i) std::swap(fibers[i - 1], fibers[random_number() % i]);
    for (size_t i = 0; i < num;) {
      Fiber &fiber = *fibers[i];
      if (fiber.waits_for != nullptr && fiber.waits_for->round == fiber.round) {
        ++i;
        continue;
      }
      fiber.waits_for = nullptr;
      has_run = true;
      if (++state().num_switches > MANY_SWITCHES) fail("it does not end");
      resume(fiber);
      if (fiber.is_done)
        std::swap(fibers[i], fibers[--num]);
      else
        ++i;
    }
    if (num > 0 && !has_run) fail("all threads wait for each other");
  }
}

template <class Kernel>
const char *run(const Kernel &kernel, Grid grid, int64_t shared_bytes, bool is_together) {
  State &now = state();
  const char *seed = std::getenv("RETURNN_CUDA_SEED");
  now.seed = 88172645463325252ull + (seed == nullptr ? 0 : std::strtoull(seed, nullptr, 10) * 2654435761ull);
  now.kernel = &kernel;
  now.run = [](const void *kernel) { (*static_cast<const Kernel *>(kernel))(); };
  now.grid_x = grid.x;
  now.num_switches = 0;
  if (shared_bytes > SHARED_BYTES) return "too much shared memory";
  std::vector<std::unique_ptr<Block>> blocks;
  for (int64_t y = 0; y < grid.y; ++y)
    for (int64_t x = 0; x < grid.x; ++x) {
      blocks.push_back(std::make_unique<Block>(static_cast<int>(x), static_cast<int>(y), Kernel::THREADS, shared_bytes));
      if (is_together) continue;
      run_together(blocks, Kernel::THREADS);
      blocks.clear();
    }
  run_together(blocks, Kernel::THREADS);
  return nullptr;
}

}  // namespace detail

inline int thread() { return detail::state().fiber->thread; }
inline int block_x() { return detail::state().fiber->block->x; }
inline int block_y() { return detail::state().fiber->block->y; }
inline int grid_x() { return static_cast<int>(detail::state().grid_x); }

inline void sync_block() { detail::meet(detail::state().fiber->block->threads); }
inline void sync_warp() { detail::meet(detail::state().fiber->block->warps[thread() / detail::WARP]); }

inline char *shared_memory() {
  char *memory = detail::state().fiber->block->shared.data();
  return memory + (16 - reinterpret_cast<uintptr_t>(memory) % 16) % 16;
}

template <class T>
T load_fresh(const T *from) {
  return *from;
}

inline void wait_for_blocks(unsigned *counter, unsigned target) {
  sync_block();
  if (thread() == 0) {
    ++*counter;
    while (*static_cast<volatile unsigned *>(counter) < target) detail::give_way();
  }
  sync_block();
}

template <class Kernel>
const char *launch(const Kernel &kernel, Grid grid, int64_t shared_bytes, Stream) {
  return detail::run(kernel, grid, shared_bytes, false);
}

template <class Kernel>
const char *launch_together(const Kernel &kernel, Grid grid, int64_t shared_bytes, Stream) {
  return detail::run(kernel, grid, shared_bytes, true);
}

template <class Kernel>
int64_t blocks_together(int64_t shared_bytes) {
  return shared_bytes > detail::SHARED_BYTES ? 0 : detail::PROCESSORS;
}

inline const char *clear(void *data, int64_t bytes, Stream) {
  if (bytes > 0) std::memset(data, 0, bytes);
  return nullptr;
}

}  // namespace RETURNN_LEVEL
}  // namespace returnn
