// Sequences of different lengths on a GPU: sorted by length, so that those that have not ended are the first ones.
//
// A length that is not between 0 and the number of frames counts as the nearest of these: to tell would mean to wait.
#pragma once

#include "../frames.h"
#include "numbers.h"
#include "tile.h"
#include "workspace.h"

namespace returnn {
namespace RETURNN_LEVEL {

struct Sequences {
  int64_t num, num_frames;
  bool backward;             // each goes from its last frame to its first
  const int32_t *order;      // sorted -> the place in the batch
  const int32_t *lengths;    // of sorted ones
  const int32_t *active;     // step -> how many sequences have it; with an entry 0 behind the last frame

  RETURNN_DEVICE int64_t entry(int64_t sorted) const { return order[sorted]; }
  RETURNN_DEVICE int64_t length(int64_t sorted) const { return lengths[sorted]; }
  RETURNN_DEVICE int64_t frame(int64_t sorted, int64_t step) const { return backward ? lengths[sorted] - 1 - step : step; }
};

// A vector of the frame before; before the first one, that of the initial state.
template <class T>
RETURNN_DEVICE T *frame_before(const Sequences &sequences, const Frames<T> &first, const Frames<T> &frames, int64_t sorted,
                               int64_t step) {
  const int64_t n = sequences.entry(sorted);
  return step == 0 ? first.at(n) : frames.at(sequences.frame(sorted, step - 1), n);
}

// Fills in what `Sequences` points to.
struct SortSequences {
  static constexpr int THREADS = BLOCK_THREADS;
  const int32_t *given;
  int64_t num, num_frames;
  int32_t *order, *lengths, *active;

  RETURNN_DEVICE int32_t clipped(int64_t n) const {
    const int32_t length = given[n], most = static_cast<int32_t>(num_frames);
    return length < 0 ? 0 : length > most ? most : length;
  }

  RETURNN_DEVICE void operator()() const {
    const int64_t i = static_cast<int64_t>(block_x()) * THREADS + thread();
    if (i < num) {
      const int32_t length = clipped(i);
      int32_t place = 0;
      for (int64_t n = 0; n < num; ++n) {
        const int32_t other = clipped(n);
        place += other > length || (other == length && n < i);
      }
      order[place] = static_cast<int32_t>(i);
      lengths[place] = length;
    }
    if (i <= num_frames) {
      int32_t longer = 0;
      for (int64_t n = 0; n < num; ++n) longer += clipped(n) > i;
      active[i] = longer;
    }
  }
};

inline const char *sort_sequences(const returnn_array &lengths, int64_t num_frames, bool backward, const returnn_call *call,
                                  Sequences &sequences) {
  const Workspace workspace(call);
  const int64_t num = lengths.sizes[0];
  SortSequences kernel{static_cast<const int32_t *>(lengths.data), num, num_frames, workspace.get<int32_t>(num),
                       workspace.get<int32_t>(num), workspace.get<int32_t>(num_frames + 1)};
  sequences = {num, num_frames, backward, kernel.order, kernel.lengths, kernel.active};
  const int64_t threads = num > num_frames + 1 ? num : num_frames + 1;
  return launch(kernel, {round_up(threads, BLOCK_THREADS) / BLOCK_THREADS, 1}, 0, static_cast<Stream>(call->stream));
}

// Sets to 0 what is behind the ends.
template <class T>
struct ClearPadding {
  static constexpr int THREADS = BLOCK_THREADS;
  Sequences sequences;
  Frames<T> frames;
  int64_t size;

  RETURNN_DEVICE void operator()() const {
    const int64_t row = static_cast<int64_t>(block_x()) * BLOCK_WARPS + thread() / WARP_SIZE;
    const int64_t t = row / sequences.num, sorted = row % sequences.num;
    if (t >= sequences.num_frames || t < sequences.length(sorted)) return;
    T *to = frames.at(t, sequences.entry(sorted));
    for (int64_t i = thread() % WARP_SIZE; i < size; i += WARP_SIZE) to[i] = as<T>(0.f);
  }

  const char *launch_in(Stream stream) const {
    return launch(*this, {round_up(sequences.num * sequences.num_frames, BLOCK_WARPS) / BLOCK_WARPS, 1}, 0, stream);
  }
};

// The state behind the last frame of each sequence, or the first state.
template <class T>
struct LastState {
  static constexpr int THREADS = BLOCK_THREADS;
  Sequences sequences;
  Frames<const T> first, frames;
  Frames<T> last;
  int64_t size;

  RETURNN_DEVICE void operator()() const {
    const int64_t n = sequences.entry(block_x()), length = sequences.length(block_x());
    const T *from = length == 0 ? first.at(n) : frames.at(sequences.frame(block_x(), length - 1), n);
    for (int64_t i = thread(); i < size; i += THREADS) last.at(n)[i] = from[i];
  }

  const char *launch_in(Stream stream) const { return launch(*this, {sequences.num, 1}, 0, stream); }
};

}  // namespace RETURNN_LEVEL
}  // namespace returnn
