// Edit distances (Levenshtein 1966): the least number of labels to insert, delete and substitute.
//
// A row has the distances of the labels of `a` so far to all beginnings of `b`.
#include "kernel.h"
#include "simd.h"
#include "threads.h"

namespace returnn {
namespace RETURNN_LEVEL {
namespace {

const int32_t *row_of(const returnn_array &array, int64_t n) {
  return static_cast<const int32_t *>(array.data) + n * array.strides[0];
}

// The row after one more label. They can be the same memory.
void next_row(const int32_t *row, int32_t label, const int32_t *b, int64_t num_labels, int32_t *next) {
  int32_t diagonal = row[0];
  next[0] = row[0] + 1;
  for (int64_t u = 0; u < num_labels; ++u) {
    const int32_t above = row[u + 1], changed = diagonal + (label != b[u]);
    const int32_t least = (above < next[u] ? above : next[u]) + 1;
    diagonal = above;
    next[u + 1] = changed < least ? changed : least;
  }
}

const char *check_lengths(const returnn_array &lengths, int64_t limit) {
  for (int64_t n = 0; n < lengths.sizes[0]; ++n) {
    const int32_t length = static_cast<const int32_t *>(lengths.data)[n];
    if (length < 0 || length > limit) return "a length is below 0, or above the number of labels";
  }
  return nullptr;
}

int32_t length_of(const returnn_array &lengths, int64_t n) { return static_cast<const int32_t *>(lengths.data)[n]; }

// The least of the distances `num` of them.
int32_t least_of(const int32_t *row, int64_t num) {
  int32_t least = row[0];
  for (int64_t u = 1; u < num; ++u) least = row[u] < least ? row[u] : least;
  return least;
}

// `optimal_completion`: of `a` with the best labels that could follow (Sabour et al. 2019).
RETURNN_KERNEL(edit_distance,
               "a: int32[N, T], a_lengths: int32[N], b: int32[N, U], b_lengths: int32[N]; optimal_completion: bool -> "
               "distance: int32[N]") {
  const returnn_array &a = call->inputs[0], &a_lengths = call->inputs[1], &b = call->inputs[2], &b_lengths = call->inputs[3];
  for (const char *error : {check_lengths(a_lengths, a.sizes[1]), check_lengths(b_lengths, b.sizes[1])})
    if (error != nullptr) return error;
  int32_t *distances = static_cast<int32_t *>(call->outputs[0].data);
  const bool optimal_completion = call->options[0] != 0;
  with_team(call->threads, [&](Team &team) {
    for_each_part(team, static_cast<int>(a.sizes[0]), [&](int n) {
      const int64_t num = length_of(b_lengths, n);
      const Buffer<int32_t> row(num + 1);
      for (int64_t u = 0; u <= num; ++u) row[u] = static_cast<int32_t>(u);
      for (int64_t t = 0; t < length_of(a_lengths, n); ++t) next_row(row.data(), row_of(a, n)[t], row_of(b, n), num, row.data());
      distances[n] = optimal_completion ? least_of(row.data(), num + 1) : row[num];
    });
  });
  return nullptr;
}

// All rows. Behind the end of `a`, and where a label is `blank` (below 0: none is), a row is that before it.
RETURNN_KERNEL(edit_distance_table,
               "first: int32[N, U+1], a: int32[N, T], a_lengths: int32[N], b: int32[N, U]; blank: int -> "
               "table: int32[N, T, U+1]") {
  const returnn_array &first = call->inputs[0], &a = call->inputs[1], &a_lengths = call->inputs[2], &b = call->inputs[3];
  const char *error = check_lengths(a_lengths, a.sizes[1]);
  if (error != nullptr) return error;
  int32_t *table = static_cast<int32_t *>(call->outputs[0].data);
  const int64_t blank = static_cast<int64_t>(call->options[0]), size = first.sizes[1], num = a.sizes[1];
  with_team(call->threads, [&](Team &team) {
    for_each_part(team, static_cast<int>(a.sizes[0]), [&](int n) {
      const int32_t *before = row_of(first, n);
      for (int64_t t = 0; t < num; ++t) {
        int32_t *row = table + (n * num + t) * size;
        const int32_t label = row_of(a, n)[t];
        if (t < length_of(a_lengths, n) && (blank < 0 || label != blank))
          next_row(before, label, row_of(b, n), size - 1, row);
        else
          std::memcpy(row, before, size * sizeof(int32_t));
        before = row;
      }
    });
  });
  return nullptr;
}

// The distance if one more label follows, for each of `labels`. With `ended`, and where a label is `blank`, none does.
RETURNN_KERNEL(edit_distance_of_successors,
               "row: int32[N, U+1], labels: int32[N, V], ended: uint8[N], b: int32[N, U], b_lengths: int32[N]; "
               "blank: int, optimal_completion: bool -> distances: int32[N, V]") {
  const returnn_array &rows = call->inputs[0], &labels = call->inputs[1], &ended = call->inputs[2], &b = call->inputs[3];
  const returnn_array &b_lengths = call->inputs[4];
  const char *error = check_lengths(b_lengths, b.sizes[1]);
  if (error != nullptr) return error;
  int32_t *distances = static_cast<int32_t *>(call->outputs[0].data);
  const int64_t blank = static_cast<int64_t>(call->options[0]), num_labels = labels.sizes[1];
  const bool optimal_completion = call->options[1] != 0;
  with_team(call->threads, [&](Team &team) {
    for_each_part(team, static_cast<int>(rows.sizes[0]), [&](int n) {
      const int64_t num = length_of(b_lengths, n);
      const int32_t *row = row_of(rows, n), *targets = row_of(b, n);
      // What it takes to get to the end that counts from each beginning.
      const auto rest = [&](int64_t u) { return optimal_completion ? 0 : static_cast<int32_t>(num - u); };
      int32_t without = row[num], other = row[0] + 1 + rest(0);
      if (optimal_completion) without = least_of(row, num + 1);
      for (int64_t u = 1; u <= num; ++u) {
        const int32_t least = (row[u] < row[u - 1] ? row[u] : row[u - 1]) + 1 + rest(u);
        other = least < other ? least : other;
      }
      for (int64_t v = 0; v < num_labels; ++v) {
        const int32_t label = row_of(labels, n)[v];
        int32_t best = other;
        for (int64_t u = 0; u < num; ++u) {
          const int32_t with = row[u] + rest(u + 1);
          best = label == targets[u] && with < best ? with : best;
        }
        const bool is_none = static_cast<const uint8_t *>(ended.data)[n] != 0 || (blank >= 0 && label == blank);
        distances[n * num_labels + v] = is_none ? without : best;
      }
    });
  });
  return nullptr;
}

}  // namespace
}  // namespace RETURNN_LEVEL
}  // namespace returnn
