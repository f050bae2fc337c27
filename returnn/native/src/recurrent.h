// What recurrent units have in common: sequences of different lengths, and who computes what in each step.
//
// Sequences are sorted by length, so that those that have not ended are the first ones, and steps get cheaper as sequences
// end. Threads have sequences each for themselves, over all steps, if there are enough; otherwise they share the units of
// each step.
#pragma once

#include "frames.h"
#include "kernel.h"
#include "simd.h"
#include "threads.h"

namespace returnn {
namespace RETURNN_LEVEL {

// Sequences of a thread: sorted ones `first`, `first + every`, ...
struct Rows {
  int64_t first, every;

  int64_t operator[](int64_t i) const { return first + i * every; }
  int64_t num_below(int64_t end) const { return end > first ? (end - first + every - 1) / every : 0; }
};

class Sequences {
 public:
  Sequences(const int32_t *lengths, int64_t num, int64_t num_frames, bool backward)
      : num(num), num_frames(num_frames), backward_(backward), order_(num), lengths_(num), active_(num_frames + 1) {
    for (int64_t t = 0; t <= num_frames; ++t) active_[t] = 0;
    for (int64_t n = 0; n < num; ++n) {
      if (lengths[n] < 0 || lengths[n] > num_frames) {
        error = "a length is below 0, or above the number of frames";
        return;
      }
      for (int64_t t = 0; t < lengths[n]; ++t) ++active_[t];
      total += lengths[n];
      if (lengths[n] > steps) steps = lengths[n];
    }
    sort(lengths);
  }

  // How many sequences have this step; they are the first ones.
  int64_t active(int64_t step) const { return step < steps ? active_[step] : 0; }

  // The place of a sorted sequence in the batch.
  int64_t entry(int64_t sorted) const { return order_[sorted]; }

  int64_t length(int64_t sorted) const { return lengths_[sorted]; }

  int64_t frame(int64_t sorted, int64_t step) const { return backward_ ? lengths_[sorted] - 1 - step : step; }

  // Sets what is behind the ends to 0.
  template <class T>
  void clear_padding(Team &team, const Frames<T> &frames, int64_t size) const {
    for_each_part(team, team_size(team), [&](int part) {
      const Range range = part_of(num_frames, part, team_size(team));
      for (int64_t t = range.begin; t < range.end; ++t)
        for (int64_t sorted = t < steps ? active_[t] : 0; sorted < num; ++sorted)
          std::memset(frames.at(t, entry(sorted)), 0, size * sizeof(T));
    });
  }

  const int64_t num, num_frames;
  int64_t steps = 0, total = 0;
  const char *error = nullptr;

 private:
  // Long ones first, by counting; of the same length, in their order.
  void sort(const int32_t *lengths) {
    const Buffer<int64_t> place(num_frames + 2);
    for (int64_t t = 0; t < num_frames + 2; ++t) place[t] = 0;
    for (int64_t n = 0; n < num; ++n) ++place[lengths[n]];
    int64_t before = 0;
    for (int64_t t = num_frames + 1; t-- > 0;) {
      const int64_t here = place[t];
      place[t] = before;
      before += here;
    }
    for (int64_t n = 0; n < num; ++n) {
      const int64_t at = place[lengths[n]]++;
      order_[at] = n;
      lengths_[at] = lengths[n];
    }
  }

  const bool backward_;
  const Buffer<int64_t> order_, lengths_, active_;
};

// Calls step(i, stage, rows, panels) for i in the order begin, begin + by, ... end (which is not included), and in each for
// all stages, for all sequences and all panels of units. When it is called, all of the stage before is done for these
// sequences.
template <class Step>
static void for_each_step(Team &team, const Sequences &sequences, int64_t num_panels, int num_stages, int64_t begin, int64_t end,
                          int64_t by, const Step &step) {
  constexpr int64_t ENOUGH_ROWS = 16;
  const int64_t threads = team_size(team);
  if (threads == 1 || sequences.num >= threads * ENOUGH_ROWS) {
    for_each_part(team, static_cast<int>(threads), [&](int part) {
      for (int64_t i = begin; i != end; i += by)
        for (int stage = 0; stage < num_stages; ++stage) step(i, stage, Rows{part, threads}, Range{0, num_panels});
    });
    return;
  }
  const int64_t parts = num_panels < threads ? num_panels : threads;
  for (int64_t i = begin; i != end; i += by)
    for (int stage = 0; stage < num_stages; ++stage)
      for_each_part(team, static_cast<int>(parts), [&](int part) {
        step(i, stage, Rows{0, 1}, part_of(num_panels, part, parts));
      });
}

}  // namespace RETURNN_LEVEL
}  // namespace returnn
