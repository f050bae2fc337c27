// Connectionist temporal classification (Graves et al. 2006).
//
// The states of a sequence are blank, label, blank, label, ..., blank. In each frame, a path stays in its state, goes to the
// next one, or from label to label over the blank in between. Before the first frame, it is in the first blank.
#include "kernel.h"
#include "log_space.h"
#include "simd.h"
#include "threads.h"

namespace returnn {
namespace RETURNN_LEVEL {
namespace {

// The arrays that all kernels here have, and what they mean.
template <class T>
class Batch {
 public:
  Batch(const returnn_call *call, int first_lengths)
      : num_classes(call->inputs[0].sizes[2]), num(call->inputs[1].sizes[0]), max_labels(call->inputs[1].sizes[1]),
        blank(static_cast<int64_t>(call->options[0])), label_loop(call->options[1] != 0),
        is_normalized(call->options[2] != 0), logits_(call->inputs[0]), targets_(call->inputs[1]),
        frames_(static_cast<const int32_t *>(call->inputs[first_lengths].data)),
        labels_(static_cast<const int32_t *>(call->inputs[first_lengths + 1].data)), time_major_(call->options[3] != 0) {
    max_frames = logits_.sizes[time_major_ ? 0 : 1];
    error = check();
  }

  int64_t frames(int64_t n) const { return frames_[n]; }
  int64_t labels(int64_t n) const { return labels_[n]; }
  const int32_t *targets(int64_t n) const { return static_cast<const int32_t *>(targets_.data) + n * targets_.strides[0]; }

  const T *logits(int64_t t, int64_t n) const { return frame(logits_, t, n); }

  // Of an array that is laid out as the logits.
  const T *frame(const returnn_array &array, int64_t t, int64_t n) const {
    return static_cast<const T *>(array.data) + t * array.strides[time_major_ ? 0 : 1] + n * array.strides[time_major_ ? 1 : 0];
  }

  // The place of a frame in such an array that is dense.
  int64_t place(int64_t t, int64_t n) const { return time_major_ ? t * num + n : n * max_frames + t; }

  const int64_t num_classes, num, max_labels, blank;
  const bool label_loop, is_normalized;
  int64_t max_frames = 0;
  const char *error = nullptr;

 private:
  const char *check() const {
    if (logits_.sizes[time_major_ ? 1 : 0] != num) return "logits and targets have different numbers of sequences";
    if (blank < 0 || blank >= num_classes) return "blank is not one of the classes";
    for (int64_t n = 0; n < num; ++n) {
      if (frames_[n] < 0 || frames_[n] > max_frames) return "a number of frames is below 0, or above that of the logits";
      if (labels_[n] < 0 || labels_[n] > max_labels) return "a number of labels is below 0, or above that of the targets";
      for (int64_t s = 0; s < labels_[n]; ++s)
        if (targets(n)[s] < 0 || targets(n)[s] >= num_classes) return "a label is not one of the classes";
    }
    return nullptr;
  }

  const returnn_array &logits_, &targets_;
  const int32_t *frames_, *labels_;
  const bool time_major_;
};

// Calls work(t, n) for all frames, also those that are padded; in parts, so that one sequence can have several threads.
template <class T, class Work>
void for_each_frame(Team &team, const Batch<T> &batch, const Work &work) {
  const int64_t total = batch.num * batch.max_frames, parts = total < 64 ? total : 64;
  for_each_part(team, static_cast<int>(parts), [&](int part) {
    const Range range = part_of(total, part, parts);
    for (int64_t i = range.begin; i < range.end; ++i) work(i / batch.num, i % batch.num);
  });
}

// The states of a sequence, and its paths.
template <class T>
class Lattice {
 public:
  Lattice(const Batch<T> &batch, int64_t n, const T *normalizers)
      : num_states(2 * batch.labels(n) + 1), num_frames(batch.frames(n)), batch_(batch), n_(n), normalizers_(normalizers),
        classes_(num_states), moves_(2, num_states), scores_(1, num_states), forward_(num_frames + 1, num_states) {
    for (int64_t s = 0; s < num_states; ++s) {
      const bool is_label = s % 2 == 1;
      classes_[s] = is_label ? batch.targets(n)[s / 2] : static_cast<int32_t>(batch.blank);
      stay()[s] = is_label && !batch.label_loop ? NEVER : 0;
      skip()[s] = is_label && s > 1 && !(batch.label_loop && classes_[s] == classes_[s - 2]) ? 0 : NEVER;
    }
    forward_.row(0)[0] = 0;
  }

  // `max_approx`: the best path in place of the sum over all. Returns its log probability, or NEVER.
  double go_forward(bool max_approx) const {
    for (int64_t t = 0; t < num_frames; ++t) {
      const double *before = forward_.row(t);
      double *after = forward_.row(t + 1);
      load_scores(t);
      for (int64_t s = 0; s < num_states; s += DOUBLES) {
        const Doubles a = load(before + s) + load(stay() + s), b = load(before + s - 1);
        const Doubles c = load(before + s - 2) + load(skip() + s);
        store(after + s, at_least_never((max_approx ? larger(a, larger(b, c)) : log_add(a, b, c)) + load(scores_.row(0) + s)));
      }
    }
    const double *end = forward_.row(num_frames) + num_states - 1;
    if (num_states == 1) return end[0];
    return max_approx ? (end[-1] > end[0] ? end[-1] : end[0]) : log_sum(end - 1, 2);
  }

  // Of each state and frame, over all paths, to `occupied`, row by row, which are `stride` apart.
  void shares(double total, T *occupied, int64_t stride) const {
    const StateRows rows(2, num_states);
    double *behind = rows.row(0), *leaving = rows.row(1);
    for (int64_t s = num_states < 2 ? 0 : num_states - 2; s < num_states; ++s) behind[s] = 0;
    for (int64_t t = num_frames; t-- > 0;) {
      load_scores(t);
      for (int64_t s = 0; s < num_states; s += DOUBLES) {
        const Doubles here = load(behind + s);
        const Doubles share = probability(load(forward_.row(t + 1) + s) + here - all(total));
        for (int64_t i = 0; i < DOUBLES && s + i < num_states; ++i) occupied[t * stride + s + i] = static_cast<T>(share[i]);
        store(leaving + s, at_least_never(here + load(scores_.row(0) + s)));
      }
      for (int64_t s = 0; s < num_states; s += DOUBLES)
        store(behind + s, at_least_never(log_add(load(leaving + s) + load(stay() + s), load(leaving + s + 1),
                                                 load(leaving + s + 2) + load(skip() + s + 2))));
    }
  }

  // Calls use(t, state) for the frames of the best path, the last one first.
  template <class Use>
  void best_path(const Use &use) const {
    const double *end = forward_.row(num_frames);
    int64_t s = num_states > 1 && end[num_states - 2] > end[num_states - 1] ? num_states - 2 : num_states - 1;
    for (int64_t t = num_frames; t-- > 0;) {
      use(t, s);
      const double *before = forward_.row(t) + s;
      const double from[] = {before[0] + stay()[s], before[-1], before[-2] + skip()[s]};
      s -= from[2] > from[0] && from[2] > from[1] ? 2 : from[1] > from[0] ? 1 : 0;
    }
  }

  int32_t class_of(int64_t state) const { return classes_[state]; }

  const int64_t num_states, num_frames;

 private:
  double *stay() const { return moves_.row(0); }
  double *skip() const { return moves_.row(1); }

  RETURNN_INLINE Doubles larger(Doubles a, Doubles b) {
    larger_first(a, b);
    return a;
  }

  void load_scores(int64_t t) const {
    const T *logits = batch_.logits(t, n_);
    const double normalizer = batch_.is_normalized ? 0.0 : static_cast<double>(normalizers_[batch_.place(t, n_)]);
    for (int64_t s = 0; s < num_states; ++s) scores_.row(0)[s] = at_least_never(logits[classes_[s]] - normalizer);
  }

  const Batch<T> &batch_;
  const int64_t n_;
  const T *normalizers_;
  const Buffer<int32_t> classes_;
  const StateRows moves_, scores_, forward_;
};

template <class T>
void compute_normalizers(Team &team, const Batch<T> &batch, T *normalizers) {
  for_each_frame(team, batch, [&](int64_t t, int64_t n) {
    const bool is_used = !batch.is_normalized && t < batch.frames(n);
    normalizers[batch.place(t, n)] = is_used ? log_normalizer(batch.logits(t, n), batch.num_classes) : T(0);
  });
}

template <class T>
const char *loss(const returnn_call *call) {
  const Batch<T> batch(call, 2);
  if (batch.error != nullptr) return batch.error;
  const bool max_approx = call->options[4] != 0;
  T *losses = static_cast<T *>(call->outputs[0].data), *occupied = static_cast<T *>(call->outputs[1].data);
  T *normalizers = static_cast<T *>(call->outputs[2].data);
  const int64_t states = 2 * batch.max_labels + 1;
  with_team(call->threads, [&](Team &team) {
    compute_normalizers(team, batch, normalizers);
    for_each_part(team, static_cast<int>(batch.num), [&](int n) {
      for (int64_t t = 0; t < batch.max_frames; ++t) std::memset(occupied + batch.place(t, n) * states, 0, states * sizeof(T));
      const Lattice<T> lattice(batch, n, normalizers);
      const double total = lattice.go_forward(max_approx);
      losses[n] = static_cast<T>(is_possible(total) ? -total : __builtin_inf());
      if (!is_possible(total)) return;
      T *first = occupied + batch.place(0, n) * states;
      const int64_t stride = (batch.place(1, n) - batch.place(0, n)) * states;
      if (max_approx)
        lattice.best_path([&](int64_t t, int64_t s) { first[t * stride + s] = 1; });
      else
        lattice.shares(total, first, stride);
    });
  });
  return nullptr;
}

template <class T>
const char *loss_grad(const returnn_call *call) {
  const Batch<T> batch(call, 2);
  if (batch.error != nullptr) return batch.error;
  const T *losses = static_cast<const T *>(call->inputs[4].data), *d_loss = static_cast<const T *>(call->inputs[7].data);
  const returnn_array &occupied = call->inputs[5], &normalizers = call->inputs[6];
  T *d_logits = static_cast<T *>(call->outputs[0].data);
  with_team(call->threads, [&](Team &team) {
    for_each_frame(team, batch, [&](int64_t t, int64_t n) {
      const int64_t num = batch.num_classes;
      T *to = d_logits + batch.place(t, n) * num;
      const bool has_gradient = t < batch.frames(n) && losses[n] != T(__builtin_inf());
      if (!has_gradient || batch.is_normalized) std::memset(to, 0, num * sizeof(T));
      if (!has_gradient) return;
      if (!batch.is_normalized) scaled_softmax(batch.logits(t, n), num, *batch.frame(normalizers, t, n), d_loss[n], to);
      const T *shares = batch.frame(occupied, t, n);
      to[batch.blank] -= d_loss[n] * shares[0];
      for (int64_t s = 0; s < batch.labels(n); ++s) {
        to[batch.targets(n)[s]] -= d_loss[n] * shares[2 * s + 1];
        to[batch.blank] -= d_loss[n] * shares[2 * s + 2];
      }
    });
  });
  return nullptr;
}

template <class T>
const char *best_path(const returnn_call *call) {
  const Batch<T> batch(call, 2);
  if (batch.error != nullptr) return batch.error;
  int32_t *path = static_cast<int32_t *>(call->outputs[0].data);
  T *scores = static_cast<T *>(call->outputs[1].data);
  const Buffer<T> normalizers(batch.num * batch.max_frames);
  with_team(call->threads, [&](Team &team) {
    compute_normalizers(team, batch, normalizers.data());
    for_each_part(team, static_cast<int>(batch.num), [&](int n) {
      for (int64_t t = 0; t < batch.max_frames; ++t)
        path[batch.place(t, n)] = t < batch.frames(n) ? static_cast<int32_t>(batch.blank) : 0;
      const Lattice<T> lattice(batch, n, normalizers.data());
      const double total = lattice.go_forward(true);
      scores[n] = static_cast<T>(is_possible(total) ? total : -__builtin_inf());
      if (!is_possible(total)) return;
      lattice.best_path([&](int64_t t, int64_t s) { path[batch.place(t, n)] = lattice.class_of(s); });
    });
  });
  return nullptr;
}

bool is_double(const returnn_call *call) { return call->inputs[0].type == RETURNN_FLOAT64; }

// `logits` are (time, batch, classes) with `time_major`, or else (batch, time, classes). `normalized`: they are log
// probabilities. `occupied` is the probability of each state in each frame, over all paths, or 1 for those on the best one.
// Where there is no path, the loss is infinite, and its gradient 0.
RETURNN_KERNEL(ctc_loss,
               "logits: real[M, N, C], targets: int32[B, S], num_frames: int32[B], num_labels: int32[B]; "
               "blank: int, label_loop: bool, normalized: bool, time_major: bool, max_approx: bool -> "
               "loss: real[B], occupied: real[M, N, 2S+1], normalizers: real[M, N]") {
  return is_double(call) ? loss<double>(call) : loss<float>(call);
}

RETURNN_KERNEL(ctc_loss_grad,
               "logits: real[M, N, C], targets: int32[B, S], num_frames: int32[B], num_labels: int32[B], "
               "loss: real[B], occupied: real[M, N, 2S+1], normalizers: real[M, N], d_loss: real[B]; "
               "blank: int, label_loop: bool, normalized: bool, time_major: bool -> d_logits: real[M, N, C]") {
  return is_double(call) ? loss_grad<double>(call) : loss_grad<float>(call);
}

// The class of each frame on the best path, blank where there is none, 0 behind the ends; and its log probability.
RETURNN_KERNEL(ctc_best_path,
               "logits: real[M, N, C], targets: int32[B, S], num_frames: int32[B], num_labels: int32[B]; "
               "blank: int, label_loop: bool, normalized: bool, time_major: bool -> path: int32[M, N], score: real[B]") {
  return is_double(call) ? best_path<double>(call) : best_path<float>(call);
}

}  // namespace
}  // namespace RETURNN_LEVEL
}  // namespace returnn
