// Losses of transducers: minus the log probability of all ways in which the frames can yield the labels.
//
// RNN-T (Graves 2012): in each frame any number of labels, then a blank, which goes on to the next frame. Monotonic: in each
// frame one label or a blank, as in RNA (Sak et al. 2017) and monotonic RNN-T (Tripathi et al. 2019).
//
// In both, a step is at a number of labels u; step i of RNN-T is in frame i - u, so a step is a diagonal of frames and labels.
#include "kernel.h"
#include "log_space.h"
#include "simd.h"
#include "threads.h"

namespace returnn {
namespace RETURNN_LEVEL {
namespace {

// The arrays that both kernels have.
template <class T>
class Batch {
 public:
  explicit Batch(const returnn_call *call)
      : num(call->inputs[0].sizes[0]), max_frames(call->inputs[0].sizes[1]), positions(call->inputs[0].sizes[2]),
        num_classes(call->inputs[0].sizes[3]), blank(static_cast<int64_t>(call->options[0])), monotonic(call->options[1] != 0),
        logits_(call->inputs[0]), labels_(call->inputs[1]), frames_(static_cast<const int32_t *>(call->inputs[2].data)),
        num_labels_(static_cast<const int32_t *>(call->inputs[3].data)) {
    error = check();
  }

  int64_t frames(int64_t n) const { return frames_[n]; }
  int64_t num_labels(int64_t n) const { return num_labels_[n]; }
  int64_t label(int64_t n, int64_t u) const { return static_cast<const int32_t *>(labels_.data)[n * labels_.strides[0] + u]; }

  // Of all classes.
  const T *logits(int64_t n, int64_t t, int64_t u) const {
    return static_cast<const T *>(logits_.data) + n * logits_.strides[0] + t * logits_.strides[1] + u * logits_.strides[2];
  }

  bool is_used(int64_t n, int64_t t, int64_t u) const { return t < frames(n) && u <= num_labels(n); }
  int64_t place(int64_t n, int64_t t, int64_t u) const { return (n * max_frames + t) * positions + u; }

  const int64_t num, max_frames, positions, num_classes, blank;
  const bool monotonic;
  const char *error = nullptr;

 private:
  const char *check() const {
    if (blank < 0 || blank >= num_classes) return "blank is not one of the classes";
    for (int64_t n = 0; n < num; ++n) {
      if (frames(n) < 0 || frames(n) > max_frames) return "a number of frames is below 0, or above that of the logits";
      if (num_labels(n) < 0 || num_labels(n) >= positions) return "a number of labels is below 0, or above that of the labels";
      for (int64_t u = 0; u < num_labels(n); ++u)
        if (label(n, u) < 0 || label(n, u) >= num_classes) return "a label is not one of the classes";
    }
    return nullptr;
  }

  const returnn_array &logits_, &labels_;
  const int32_t *frames_, *num_labels_;
};

// Calls work(n, t, u) for all positions, also those that are padded.
template <class T, class Work>
void for_each_position(Team &team, const Batch<T> &batch, const Work &work) {
  const int64_t total = batch.num * batch.max_frames, parts = total < 64 ? total : 64;
  for_each_part(team, static_cast<int>(parts), [&](int part) {
    const Range range = part_of(total, part, parts);
    for (int64_t i = range.begin; i < range.end; ++i)
      for (int64_t u = 0; u < batch.positions; ++u) work(i / batch.max_frames, i % batch.max_frames, u);
  });
}

// All ways of one sequence.
template <class T>
class Ways {
 public:
  Ways(const Batch<T> &batch, int64_t n, const T *normalizers)
      : num_labels(batch.num_labels(n)), num_steps(batch.frames(n) + (batch.monotonic ? 0 : num_labels)), batch_(batch), n_(n),
        blank_(num_steps, num_labels + 1), label_(num_steps, num_labels + 1), forward_(num_steps + 1, num_labels + 1) {
    for (int64_t i = 0; i < num_steps; ++i)
      for (int64_t u = 0; u <= num_labels; ++u) {
        const int64_t t = frame(i, u);
        if (t < 0 || t >= batch.frames(n)) continue;
        const T *logits = batch.logits(n, t, u);
        const double normalizer = static_cast<double>(normalizers[batch.place(n, t, u)]);
        blank_.row(i)[u] = at_least_never(logits[batch.blank] - normalizer);
        if (u < num_labels) label_.row(i)[u] = at_least_never(logits[batch.label(n, u)] - normalizer);
      }
    forward_.row(0)[0] = 0;
  }

  // Returns the log probability of all ways.
  double go_forward() const {
    for (int64_t i = 0; i < num_steps; ++i) {
      const double *before = forward_.row(i), *blank = blank_.row(i), *label = label_.row(i);
      for (int64_t u = 0; u <= num_labels; u += DOUBLES)
        store(forward_.row(i + 1) + u, at_least_never(log_add(load(before + u) + load(blank + u),
                                                              load(before + u - 1) + load(label + u - 1))));
    }
    return forward_.row(num_steps)[num_labels];
  }

  // The probability that a way is at a position and goes on with blank, or with the label: use(place, blank, label).
  template <class Use>
  void shares(double total, const Use &use) const {
    const StateRows rows(2, num_labels + 1);
    rows.row(num_steps % 2)[num_labels] = 0;
    for (int64_t i = num_steps; i-- > 0;) {
      const double *after = rows.row((i + 1) % 2), *before = forward_.row(i);
      double *behind = rows.row(i % 2);
      for (int64_t u = 0; u <= num_labels; u += DOUBLES) {
        const Doubles blank = load(blank_.row(i) + u) + load(after + u), label = load(label_.row(i) + u) + load(after + u + 1);
        const Doubles here = load(before + u) - all(total);
        const Doubles of_blank = probability(here + blank), of_label = probability(here + label);
        for (int64_t k = 0; k < DOUBLES && u + k <= num_labels; ++k) {
          const int64_t t = frame(i, u + k);
          if (t >= 0 && t < batch_.frames(n_)) use(batch_.place(n_, t, u + k), of_blank[k], of_label[k]);
        }
        store(behind + u, at_least_never(log_add(blank, label)));
      }
    }
  }

  const int64_t num_labels, num_steps;

 private:
  int64_t frame(int64_t step, int64_t u) const { return batch_.monotonic ? step : step - u; }

  const Batch<T> &batch_;
  const int64_t n_;
  const StateRows blank_, label_, forward_;
};

template <class T>
const char *loss(const returnn_call *call) {
  const Batch<T> batch(call);
  if (batch.error != nullptr) return batch.error;
  const auto output = [&](int i) { return static_cast<T *>(call->outputs[i].data); };
  T *losses = output(0), *of_blank = output(1), *of_label = output(2), *normalizers = output(3);
  with_team(call->threads, [&](Team &team) {
    for_each_position(team, batch, [&](int64_t n, int64_t t, int64_t u) {
      const int64_t place = batch.place(n, t, u);
      normalizers[place] = batch.is_used(n, t, u) ? log_normalizer(batch.logits(n, t, u), batch.num_classes) : T(0);
      of_blank[place] = of_label[place] = 0;
    });
    for_each_part(team, static_cast<int>(batch.num), [&](int n) {
      const Ways<T> ways(batch, n, normalizers);
      const double total = ways.go_forward();
      losses[n] = static_cast<T>(is_possible(total) ? -total : __builtin_inf());
      if (!is_possible(total)) return;
      ways.shares(total, [&](int64_t place, double blank, double label) {
        of_blank[place] = static_cast<T>(blank);
        of_label[place] = static_cast<T>(label);
      });
    });
  });
  return nullptr;
}

template <class T>
const char *loss_grad(const returnn_call *call) {
  const Batch<T> batch(call);
  if (batch.error != nullptr) return batch.error;
  const T *losses = static_cast<const T *>(call->inputs[4].data), *d_loss = static_cast<const T *>(call->inputs[8].data);
  const auto at = [&](int input, int64_t n, int64_t t, int64_t u) {
    const returnn_array &x = call->inputs[input];
    return static_cast<const T *>(x.data)[n * x.strides[0] + t * x.strides[1] + u];
  };
  T *d_logits = static_cast<T *>(call->outputs[0].data);
  with_team(call->threads, [&](Team &team) {
    for_each_position(team, batch, [&](int64_t n, int64_t t, int64_t u) {
      T *to = d_logits + batch.place(n, t, u) * batch.num_classes;
      if (!batch.is_used(n, t, u) || losses[n] == T(__builtin_inf())) {
        std::memset(to, 0, batch.num_classes * sizeof(T));
        return;
      }
      const T blank = d_loss[n] * at(5, n, t, u), label = d_loss[n] * at(6, n, t, u);
      scaled_softmax(batch.logits(n, t, u), batch.num_classes, at(7, n, t, u), blank + label, to);
      to[batch.blank] -= blank;
      if (u < batch.num_labels(n)) to[batch.label(n, u)] -= label;
    });
  });
  return nullptr;
}

// `logits` are normalized here. `of_blank`, `of_label`: the probability of each blank and label, over all ways. Where there is
// no way, the loss is infinite, and its gradient 0.
RETURNN_KERNEL(transducer_loss,
               "logits: real[B, T, U+1, V], labels: int32[B, U], num_frames: int32[B], num_labels: int32[B]; "
               "blank: int, monotonic: bool -> "
               "loss: real[B], of_blank: real[B, T, U+1], of_label: real[B, T, U+1], normalizers: real[B, T, U+1]") {
  return call->inputs[0].type == RETURNN_FLOAT64 ? loss<double>(call) : loss<float>(call);
}

RETURNN_KERNEL(transducer_loss_grad,
               "logits: real[B, T, U+1, V], labels: int32[B, U], num_frames: int32[B], num_labels: int32[B], "
               "loss: real[B], of_blank: real[B, T, U+1], of_label: real[B, T, U+1], normalizers: real[B, T, U+1], "
               "d_loss: real[B]; blank: int, monotonic: bool -> d_logits: real[B, T, U+1, V]") {
  return call->inputs[0].type == RETURNN_FLOAT64 ? loss_grad<double>(call) : loss_grad<float>(call);
}

}  // namespace
}  // namespace RETURNN_LEVEL
}  // namespace returnn
