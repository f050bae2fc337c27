// Recurrent units on a GPU: from the pointwise part and the products of a unit to kernels over all frames.
//
// A unit says what a step consists of. Each step has stages; a stage is a product of rows, one per sequence, with a matrix,
// and what becomes of the sums: `gates` of them for each unit.
//
//     struct Unit {
//       using Element = T;                       // of rows and matrices
//       static constexpr int NUM_STAGES = 1;
//       static constexpr bool IS_GRADIENT;       // steps go from the last one to step -1, the state before the first
//       RETURNN_METHOD static constexpr int gates(int stage);
//       struct Ahead;                            // what is loaded before the product, so that nobody waits for it behind it
//       Sequences sequences;
//       int64_t units;
//       int64_t depth(int stage) const;          // of rows
//       template <int STAGE> int64_t num_rows(int64_t step) const;
//       template <int STAGE> int64_t num_products(int64_t step) const;  // the first of these rows; sums of others are 0
//       template <int STAGE> const T *row(int64_t step, int64_t sorted) const;
//       template <int STAGE> Ahead ahead(int64_t step, int64_t sorted, int64_t unit) const;
//       template <int STAGE> void finish(int64_t step, int64_t sorted, int64_t unit, const float *sums, const Ahead &) const;
//     };
//
// There are two methods. *Stepwise*: a launch for each stage of each step, the matrix is read from memory each time.
// *Persistent* (Diamos et al. 2016, Persistent RNNs): one launch for all, each block keeps its panels of the matrices in
// shared memory, and blocks wait for each other behind each stage. Sequences are dealt out to groups of blocks, which need
// not wait for other groups.
#pragma once

#include "methods.h"
#include "sequences.h"
#include "tile.h"

namespace returnn {
namespace RETURNN_LEVEL {

constexpr int PANEL_UNITS = 8;

// Every `every`-th sequence from `first` on.
struct Group {
  int64_t first, every;

  RETURNN_DEVICE int64_t sorted(int64_t i) const { return first + i * every; }
  RETURNN_DEVICE int64_t num_below(int64_t end) const { return end > first ? (end - first + every - 1) / every : 0; }
};

template <class Unit, int STAGE, int ROWS>
using TileOf = Tile<PANEL_UNITS * Unit::gates(STAGE), ROWS>;

// The units of one panel, for the sequences of a group from `begin` on, as many as a tile has rows.
template <class Unit, int STAGE, int ROWS>
RETURNN_DEVICE void compute_tile(const Unit &unit, int64_t step, int64_t panel, const typename Unit::Element *weights,
                                 Group group, int64_t begin, char *shared) {
  constexpr int GATES = Unit::gates(STAGE);
  static_assert(ROWS * PANEL_UNITS <= BLOCK_THREADS, "each thread finishes one unit of one sequence");
  const int row = thread() / PANEL_UNITS, u = thread() % PANEL_UNITS;
  const int64_t index = panel * PANEL_UNITS + u, sorted = group.sorted(begin + row);
  const bool is_mine = row < ROWS && index < unit.units && begin + row < group.num_below(unit.template num_rows<STAGE>(step));
  typename Unit::Ahead ahead{};
  if (is_mine) ahead = unit.template ahead<STAGE>(step, sorted, index);
  const int64_t left = group.num_below(unit.template num_products<STAGE>(step)) - begin;
  const int num_products = static_cast<int>(left < 0 ? 0 : left > ROWS ? ROWS : left);
  TileProduct<TileOf<Unit, STAGE, ROWS>, typename Unit::Element> product(shared);
  if (num_products > 0)
    product.multiply(weights, unit.depth(STAGE), num_products,
                     [&](int i) { return unit.template row<STAGE>(step, group.sorted(begin + i)); });
  if (!is_mine) return;
  float sums[GATES] = {};
  if (row < num_products) product.template sum_up<GATES>(row, u * GATES, sums);
  unit.template finish<STAGE>(step, sorted, index, sums, ahead);
}

// Of all stages, one after the other.
template <class Unit>
struct Panels {
  const typename Unit::Element *data[Unit::NUM_STAGES];
};

template <class Unit>
RETURNN_METHOD int64_t panel_size(const Unit &unit, int stage) {
  return round_up(unit.depth(stage), CHUNK) * PANEL_UNITS * Unit::gates(stage);
}

template <class Unit, int STAGE, int ROWS>
struct OneStep {
  static constexpr int THREADS = BLOCK_THREADS;
  static constexpr int64_t SHARED_BYTES = TileOf<Unit, STAGE, ROWS>::SHARED_BYTES;
  Unit unit;
  Panels<Unit> panels;
  int64_t step;

  RETURNN_DEVICE void operator()() const {
    const int64_t begin = static_cast<int64_t>(block_y()) * ROWS, panel = block_x();
    if (begin >= unit.template num_rows<STAGE>(step)) return;
    compute_tile<Unit, STAGE, ROWS>(unit, step, panel, panels.data[STAGE] + panel * panel_size(unit, STAGE), {0, 1}, begin,
                                    shared_memory());
  }
};

template <class Unit, int ROWS>
struct AllSteps {
  static constexpr int THREADS = BLOCK_THREADS;
  Unit unit;
  Panels<Unit> panels;
  int64_t num_panels, num_slices, num_groups;
  unsigned *counters;  // of the groups

  // Of the tiles; panels are behind that.
  RETURNN_METHOD static constexpr int64_t tile_bytes() {
    int64_t most = TileOf<Unit, 0, ROWS>::SHARED_BYTES;
    if constexpr (Unit::NUM_STAGES > 1)
      most = TileOf<Unit, 1, ROWS>::SHARED_BYTES > most ? TileOf<Unit, 1, ROWS>::SHARED_BYTES : most;
    return (most + 15) / 16 * 16;
  }

  // If a block has so many panels.
  static int64_t shared_bytes(const Unit &unit, int64_t panels_of_block) {
    int64_t entries = 0;
    for (int stage = 0; stage < Unit::NUM_STAGES; ++stage) entries += panels_of_block * panel_size(unit, stage);
    return tile_bytes() + entries * static_cast<int64_t>(sizeof(typename Unit::Element));
  }

  RETURNN_DEVICE void operator()() const {
    const int64_t slice = block_x();
    const Group group{block_y(), num_groups};
    char *kept[Unit::NUM_STAGES] = {};
    char *to = shared_memory() + tile_bytes();
    for (int stage = 0; stage < Unit::NUM_STAGES; ++stage) {
      kept[stage] = to;
      to = keep_panels(stage, slice, to);
    }
    const int64_t steps = unit.sequences.length(group.first);  // it is the longest of the group
    unsigned round = 0;
    for (int64_t i = 0; i < steps + Unit::IS_GRADIENT; ++i) {
      const int64_t step = Unit::IS_GRADIENT ? steps - 1 - i : i;
      compute_stage<0>(step, slice, group, kept[0]);
      wait_for_blocks(counters + group.first, static_cast<unsigned>(++round * num_slices));
      if constexpr (Unit::NUM_STAGES > 1) {
        compute_stage<1>(step, slice, group, kept[1]);
        wait_for_blocks(counters + group.first, static_cast<unsigned>(++round * num_slices));
      }
    }
  }

 private:
  // Copies the panels of this block to its shared memory; returns where they end. Before a product, the block waits anyway.
  RETURNN_DEVICE char *keep_panels(int stage, int64_t slice, char *to) const {
    const int64_t bytes = panel_size(unit, stage) * static_cast<int64_t>(sizeof(typename Unit::Element));
    for (int64_t panel = slice; panel < num_panels; panel += num_slices) {
      const char *from = reinterpret_cast<const char *>(panels.data[stage]) + panel * bytes;
      for (int64_t at = thread() * int64_t(sizeof(Floats4)); at < bytes; at += BLOCK_THREADS * int64_t(sizeof(Floats4)))
        *reinterpret_cast<Floats4 *>(to + at) = *reinterpret_cast<const Floats4 *>(from + at);
      to += bytes;
    }
    return to;
  }

  template <int STAGE>
  RETURNN_DEVICE void compute_stage(int64_t step, int64_t slice, Group group, const char *kept) const {
    const auto *weights = reinterpret_cast<const typename Unit::Element *>(kept);
    const int64_t num_rows = group.num_below(unit.template num_rows<STAGE>(step));
    for (int64_t panel = slice; panel < num_panels; panel += num_slices, weights += panel_size(unit, STAGE))
      for (int64_t begin = 0; begin < num_rows; begin += ROWS)
        compute_tile<Unit, STAGE, ROWS>(unit, step, panel, weights, group, begin, shared_memory());
  }
};

// How the blocks of the persistent method share the work; no slices: it is not possible.
struct Shares {
  int64_t num_slices = 0, num_groups = 0, shared_bytes = 0;
};

template <class Unit, int ROWS>
Shares persistent_shares(const Unit &unit) {
  using Kernel = AllSteps<Unit, ROWS>;
  const int64_t num_panels = round_up(unit.units, PANEL_UNITS) / PANEL_UNITS;
  for (int64_t of_block = 1; of_block <= num_panels; ++of_block) {
    Shares shares;
    shares.shared_bytes = Kernel::shared_bytes(unit, of_block);
    const int64_t most = blocks_together<Kernel>(shares.shared_bytes);
    if (most == 0) return {};
    shares.num_slices = (num_panels + of_block - 1) / of_block;
    if (shares.num_slices > most) continue;
    const int64_t wanted = round_up(unit.sequences.num, ROWS) / ROWS, possible = most / shares.num_slices;
    shares.num_groups = wanted < possible ? wanted : possible;
    return shares;
  }
  return {};
}

// A kernel of the persistent method is launched, unless it is not possible: then `is_done` stays false.
template <class Unit, int ROWS>
const char *run_persistent(const Unit &unit, const Panels<Unit> &panels, const returnn_call *call, bool &is_done) {
  const Shares shares = persistent_shares<Unit, ROWS>(unit);
  if (shares.num_slices == 0) return nullptr;
  is_done = true;
  note_method(RETURNN_PERSISTENT);
  const Stream stream = static_cast<Stream>(call->stream);
  unsigned *counters = Workspace(call).get<unsigned>(shares.num_groups);
  if (const char *error = clear(counters, shares.num_groups * static_cast<int64_t>(sizeof(unsigned)), stream)) return error;
  const AllSteps<Unit, ROWS> kernel{unit,
                                    panels,
                                    round_up(unit.units, PANEL_UNITS) / PANEL_UNITS,
                                    shares.num_slices,
                                    shares.num_groups,
                                    counters};
  return launch_together(kernel, {shares.num_slices, shares.num_groups}, shares.shared_bytes, stream);
}

template <class Unit, int ROWS>
const char *run_stepwise(const Unit &unit, const Panels<Unit> &panels, const returnn_call *call) {
  note_method(RETURNN_STEPWISE);
  const Stream stream = static_cast<Stream>(call->stream);
  const int64_t steps = unit.sequences.num_frames;
  const Grid grid{round_up(unit.units, PANEL_UNITS) / PANEL_UNITS, round_up(unit.sequences.num, ROWS) / ROWS};
  for (int64_t i = 0; i < steps + Unit::IS_GRADIENT; ++i) {
    const int64_t step = Unit::IS_GRADIENT ? steps - 1 - i : i;
    using First = OneStep<Unit, 0, ROWS>;
    if (const char *error = launch(First{unit, panels, step}, grid, First::SHARED_BYTES, stream)) return error;
    if constexpr (Unit::NUM_STAGES > 1) {
      using Second = OneStep<Unit, 1, ROWS>;
      if (const char *error = launch(Second{unit, panels, step}, grid, Second::SHARED_BYTES, stream)) return error;
    }
  }
  return nullptr;
}

template <class Unit, int ROWS>
const char *run_with_rows(const Unit &unit, const Panels<Unit> &panels, const returnn_call *call) {
  bool is_done = false;
  if (method_for(unit.units, unit.sequences.num) != RETURNN_STEPWISE)
    if (const char *error = run_persistent<Unit, ROWS>(unit, panels, call, is_done)) return error;
  return is_done ? nullptr : run_stepwise<Unit, ROWS>(unit, panels, call);
}

// All steps, by the method that is set for these sizes; without one, by the persistent one where it is possible.
template <class Unit>
const char *run_unit(const Unit &unit, const Panels<Unit> &panels, const returnn_call *call) {
  constexpr int FEW = 4, MANY = 16;
  if (unit.units == 0 || unit.sequences.num == 0) return nullptr;
  return unit.sequences.num <= FEW ? run_with_rows<Unit, FEW>(unit, panels, call) : run_with_rows<Unit, MANY>(unit, panels, call);
}

// Entries of weights (depth, GATES * units) for panels: the gates of a unit side by side. Where the mask is 0, so are they.
template <class T, int GATES>
struct PanelWeight {
  Frames<const T> weights;
  Frames<const uint8_t> mask;
  int64_t units;

  RETURNN_DEVICE T operator()(int64_t k, int64_t panel, int64_t column) const {
    const int64_t unit = panel * PANEL_UNITS + column / GATES, at = column % GATES * units + unit;
    if (unit >= units || (mask.is_there() && mask.at(k)[at] == 0)) return as<T>(0.f);
    return weights.at(k)[at];
  }
};

// The same for the transpose of weights (units, depth).
template <class T>
struct TransposedPanelWeight {
  Frames<const T> weights;
  Frames<const uint8_t> mask;
  int64_t units;

  RETURNN_DEVICE T operator()(int64_t k, int64_t panel, int64_t column) const {
    const int64_t unit = panel * PANEL_UNITS + column;
    if (unit >= units || (mask.is_there() && mask.at(unit)[k] == 0)) return as<T>(0.f);
    return weights.at(unit)[k];
  }
};

// Memory with the panels of one stage. weight(k, panel, column): entry `k` of the depth, of a column of a panel.
template <class Unit, class Weight>
const char *pack_panels(const Unit &unit, int stage, const Weight &weight, const returnn_call *call, Panels<Unit> &panels) {
  using T = typename Unit::Element;
  const int64_t num = round_up(unit.units, PANEL_UNITS) / PANEL_UNITS * panel_size(unit, stage);
  T *data = Workspace(call).get<T>(num);
  panels.data[stage] = data;
  const PackPanels<T, Weight> kernel{data, unit.depth(stage), PANEL_UNITS * Unit::gates(stage), num, weight};
  return launch(kernel, {round_up(num, BLOCK_THREADS) / BLOCK_THREADS, 1}, 0, static_cast<Stream>(call->stream));
}

}  // namespace RETURNN_LEVEL
}  // namespace returnn
