// The matrix product of one step: some rows of a state times a panel of weights, and what becomes of the sums.
//
// A panel has COLUMNS columns of the weights, for all of the depth one row after the other. The warps of a block take chunks
// of the depth in turns. A lane has 4 columns of 4 rows, whose sums stay in its registers; where there are few rows,
// lanes take different rows of weights (splits). In the end, the sums of all of these are added up, always in the same order.
//
// A chunk of the state goes through shared memory, where the rows of a lane lie side by side. So it is read once, 32 entries
// of a row by 32 lanes, and a lane does 16 multiplications with two loads from shared memory, of 16 bytes each.
#pragma once

#include "numbers.h"

namespace returnn {
namespace RETURNN_LEVEL {

constexpr int BLOCK_THREADS = 256, WARP_SIZE = 32, BLOCK_WARPS = BLOCK_THREADS / WARP_SIZE;
constexpr int CHUNK = WARP_SIZE;  // of the depth, to whose multiples panels are filled up with zeros

RETURNN_METHOD constexpr int64_t round_up(int64_t size, int64_t unit) { return (size + unit - 1) / unit * unit; }

struct alignas(16) Floats4 {
  float values[4];
};

struct alignas(8) Bits4 {
  uint16_t values[4];
};

RETURNN_DEVICE Floats4 load4(const float *from) { return *reinterpret_cast<const Floats4 *>(from); }

template <class T>
RETURNN_DEVICE Floats4 load4(const T *from) {
  const Bits4 bits = *reinterpret_cast<const Bits4 *>(from);
  return {{to_float(T{bits.values[0]}), to_float(T{bits.values[1]}), to_float(T{bits.values[2]}), to_float(T{bits.values[3]})}};
}

template <int COLUMNS_, int ROWS_>
struct Tile {
  static constexpr int COLUMNS = COLUMNS_, ROWS = ROWS_;
  static constexpr int LANE_COLUMNS = 4, LANE_ROWS = 4;
  static constexpr int COLUMN_LANES = COLUMNS / LANE_COLUMNS, ROW_LANES = ROWS / LANE_ROWS;
  static constexpr int SPLITS = WARP_SIZE / (COLUMN_LANES * ROW_LANES);
  static constexpr int ROW_STRIDE = ROWS + 4;  // in which 8 lanes write to different banks
  static constexpr int STAGED = CHUNK * ROW_STRIDE, PARTIAL = SPLITS * ROWS * COLUMNS;
  static constexpr int WARP_FLOATS = STAGED > PARTIAL ? STAGED : PARTIAL;
  static constexpr int64_t SHARED_BYTES = BLOCK_WARPS * WARP_FLOATS * sizeof(float) + ROWS * sizeof(void *);
  static_assert(SPLITS * COLUMN_LANES * ROW_LANES == WARP_SIZE && ROWS % LANE_ROWS == 0, "lanes have to have equal parts");
};

// All threads of a block call these, one after the other.
template <class TileType, class T>
class TileProduct {
 public:
  using S = TileType;

  // `shared` lies on 16 bytes.
  RETURNN_DEVICE explicit TileProduct(char *shared)
      : floats_(reinterpret_cast<float *>(shared)),
        rows_(reinterpret_cast<const T **>(shared + BLOCK_WARPS * S::WARP_FLOATS * sizeof(float))) {}

  // Of `num_rows` rows, which row(i) points to, with a panel. `depth` is that of the rows.
  template <class Row>
  RETURNN_DEVICE void multiply(const T *panel, int64_t depth, int num_rows, const Row &row) {
    const int lane = thread() % WARP_SIZE, warp = thread() / WARP_SIZE;
    const int column = lane % S::COLUMN_LANES * S::LANE_COLUMNS, first = lane / S::COLUMN_LANES % S::ROW_LANES * S::LANE_ROWS;
    const int split = lane / (S::COLUMN_LANES * S::ROW_LANES);
    float *const staged = floats_ + warp * S::WARP_FLOATS;
    if (thread() < S::ROWS) rows_[thread()] = thread() < num_rows ? row(thread()) : nullptr;
    sync_block();  // also, all of the tile before has been summed up
    float sums[S::LANE_ROWS][S::LANE_COLUMNS] = {};
    for (int64_t begin = warp * CHUNK; begin < depth; begin += BLOCK_WARPS * CHUNK) {
      stage(begin + lane, depth, staged + lane * S::ROW_STRIDE);
      sync_warp();
#pragma unroll 8
      for (int i = 0; i < CHUNK / S::SPLITS; ++i) {
        const int k = i * S::SPLITS + split;
        const Floats4 weights = load4(panel + (begin + k) * S::COLUMNS + column);
        const Floats4 values = load4(staged + k * S::ROW_STRIDE + first);
#pragma unroll
        for (int r = 0; r < S::LANE_ROWS; ++r)
#pragma unroll
          for (int c = 0; c < S::LANE_COLUMNS; ++c) sums[r][c] = fmaf(values.values[r], weights.values[c], sums[r][c]);
      }
      sync_warp();
    }
#pragma unroll
    for (int r = 0; r < S::LANE_ROWS; ++r) {
      float *to = staged + (split * S::ROWS + first + r) * S::COLUMNS + column;
      *reinterpret_cast<Floats4 *>(to) = Floats4{{sums[r][0], sums[r][1], sums[r][2], sums[r][3]}};
    }
    sync_block();
  }

  // Of one row, the sums of NUM columns side by side.
  template <int NUM>
  RETURNN_DEVICE void sum_up(int row, int column, float *sums) const {
#pragma unroll
    for (int c = 0; c < NUM; ++c) sums[c] = 0.f;
    for (int warp = 0; warp < BLOCK_WARPS; ++warp)
#pragma unroll
      for (int split = 0; split < S::SPLITS; ++split)
#pragma unroll
        for (int c = 0; c < NUM; ++c)
          sums[c] += floats_[warp * S::WARP_FLOATS + (split * S::ROWS + row) * S::COLUMNS + column + c];
  }

 private:
  // The entry `k` of all rows; 0 behind their ends.
  RETURNN_DEVICE void stage(int64_t k, int64_t depth, float *to) const {
    float values[S::ROWS];
#pragma unroll
    for (int r = 0; r < S::ROWS; ++r) {
      const T *row = rows_[r];
      values[r] = row != nullptr && k < depth ? to_float(load_fresh(row + k)) : 0.f;
    }
#pragma unroll
    for (int r = 0; r < S::ROWS; r += 4)
      *reinterpret_cast<Floats4 *>(to + r) = Floats4{{values[r], values[r + 1], values[r + 2], values[r + 3]}};
  }

  float *const floats_;
  const T **const rows_;
};

// Lays out weights in panels: column c of panel p is what weight(k, p * COLUMNS + c) says, 0 below the depth.
template <class T, class Weight>
struct PackPanels {
  static constexpr int THREADS = BLOCK_THREADS;
  T *panels;
  int64_t depth, columns;  // columns of a panel
  int64_t num;             // of all entries
  Weight weight;

  RETURNN_DEVICE void operator()() const {
    const int64_t at = static_cast<int64_t>(block_x()) * THREADS + thread(), rows = round_up(depth, CHUNK);
    if (at >= num) return;
    const int64_t column = at % columns, k = at / columns % rows, panel = at / columns / rows;
    panels[at] = k < depth ? weight(k, panel, column) : as<T>(0.f);
  }
};

}  // namespace RETURNN_LEVEL
}  // namespace returnn
