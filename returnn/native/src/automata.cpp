// Sums and maxima over all paths of frames through finite automata. An edge has a label: the class whose score a frame adds
// when the path takes the edge. The automata of all sequences are one graph; what is of a sequence is found here.
#include "kernel.h"
#include "log_space.h"
#include "simd.h"
#include "threads.h"

namespace returnn {
namespace RETURNN_LEVEL {
namespace {

// Sorts 0 ... num - 1 by key, those of the same key in their order. `first` has one entry more than there are keys.
template <class Key>
void sort_by(int64_t num, int64_t num_keys, const Key &key, int64_t *sorted, int64_t *first) {
  for (int64_t k = 0; k <= num_keys; ++k) first[k] = 0;
  for (int64_t i = 0; i < num; ++i) ++first[key(i)];
  int64_t before = 0;
  for (int64_t k = 0; k <= num_keys; ++k) {
    const int64_t here = first[k];
    first[k] = before;
    before += here;
  }
  for (int64_t i = 0; i < num; ++i) sorted[first[key(i)]++] = i;
  for (int64_t k = num_keys; k-- > 0;) first[k + 1] = first[k];
  first[0] = 0;
}

// What all kernels here get, with edges and states sorted by sequence.
template <class T>
class Graph {
 public:
  explicit Graph(const returnn_call *call)
      : scores(call->inputs[0]), num_frames(scores.sizes[0]), num(scores.sizes[1]), num_classes(scores.sizes[2]),
        source(ints(call, 1)), target(ints(call, 2)), label(ints(call, 3)), weight(reals(call, 5)), start(reals(call, 6)),
        end(reals(call, 7)), num_edges_(call->inputs[1].sizes[0]), num_states_(call->inputs[6].sizes[0]),
        sequence_(ints(call, 4)), sequence_of_state_(ints(call, 8)), mask_(call->inputs[9]), edges_(num_edges_),
        first_edge_(num + 1), states_(num_states_), first_state_(num + 1), number_(num_states_) {
    error = check();
    if (error != nullptr) return;
    sort_by(num_edges_, num, [&](int64_t e) { return sequence_[e]; }, edges_.data(), first_edge_.data());
    sort_by(num_states_, num, [&](int64_t s) { return sequence_of_state_[s]; }, states_.data(), first_state_.data());
    for (int64_t n = 0; n < num; ++n)
      for (int64_t i = first_state_[n]; i < first_state_[n + 1]; ++i) number_[states_[i]] = i - first_state_[n];
  }

  const T *frame(int64_t t, int64_t n) const {
    return static_cast<const T *>(scores.data) + t * scores.strides[0] + n * scores.strides[1];
  }
  bool has_frame(int64_t t, int64_t n) const {
    return static_cast<const uint8_t *>(mask_.data)[t * mask_.strides[0] + n * mask_.strides[1]] != 0;
  }
  int64_t num_edges(int64_t n) const { return first_edge_[n + 1] - first_edge_[n]; }
  int64_t num_states(int64_t n) const { return first_state_[n + 1] - first_state_[n]; }
  int64_t edge(int64_t n, int64_t i) const { return edges_[first_edge_[n] + i]; }
  int64_t state(int64_t n, int64_t i) const { return states_[first_state_[n] + i]; }
  int64_t number(int64_t state) const { return number_[state]; }  // within its sequence

  const returnn_array &scores;
  const int64_t num_frames, num, num_classes;
  const int32_t *const source, *const target, *const label;
  const T *const weight, *const start, *const end;
  const char *error = nullptr;

 private:
  static const int32_t *ints(const returnn_call *call, int i) { return static_cast<const int32_t *>(call->inputs[i].data); }
  static const T *reals(const returnn_call *call, int i) { return static_cast<const T *>(call->inputs[i].data); }

  const char *check() const {
    const auto is_below = [](int64_t x, int64_t limit) { return x >= 0 && x < limit; };
    for (int64_t s = 0; s < num_states_; ++s)
      if (!is_below(sequence_of_state_[s], num)) return "a state is of a sequence that there is not";
    for (int64_t e = 0; e < num_edges_; ++e) {
      if (!is_below(sequence_[e], num)) return "an edge is of a sequence that there is not";
      if (!is_below(label[e], num_classes)) return "the label of an edge is not one of the classes";
      if (!is_below(source[e], num_states_) || !is_below(target[e], num_states_))
        return "an edge begins or ends in a state that there is not";
      if (sequence_of_state_[source[e]] != sequence_[e] || sequence_of_state_[target[e]] != sequence_[e])
        return "an edge begins or ends in a state of another sequence";
    }
    return nullptr;
  }

  const int64_t num_edges_, num_states_;
  const int32_t *const sequence_, *const sequence_of_state_;
  const returnn_array &mask_;
  const Buffer<int64_t> edges_, first_edge_, states_, first_state_, number_;
};

// The edges of a sequence, sorted by the states that they lead to, or from.
template <class T>
class Edges {
 public:
  Edges(const Graph<T> &graph, int64_t n, bool by_source)
      : num(graph.num_edges(n)), num_states(graph.num_states(n)), first(num_states + 1), source(num), target(num), label(num),
        weight(num), values(num), sums_(num_states) {
    const Buffer<int64_t> sorted(num);
    const auto state = [&](int64_t i) {
      const int64_t e = graph.edge(n, i);
      return graph.number(by_source ? graph.source[e] : graph.target[e]);
    };
    sort_by(num, num_states, state, sorted.data(), first.data());
    for (int64_t i = 0; i < num; ++i) {
      const int64_t e = graph.edge(n, sorted[i]);
      source[i] = graph.number(graph.source[e]);
      target[i] = graph.number(graph.target[e]);
      label[i] = graph.label[e];
      weight[i] = static_cast<double>(graph.weight[e]);
    }
  }

  double score(const T *frame, int64_t i) const { return frame[label[i]] + weight[i]; }

  // to[state] = log of the sum of exp(values), or the largest of them, over the edges at each state. Changes `values`.
  void combine(bool max_approx, const Buffer<double> &to) const {
    for (int64_t s = 0; s < num_states; ++s) {
      double largest = NEVER;
      for (int64_t i = first[s]; i < first[s + 1]; ++i) largest = values[i] > largest ? values[i] : largest;
      for (int64_t i = first[s]; i < first[s + 1]; ++i) values[i] -= largest;
      to[s] = largest;
    }
    if (max_approx) return;
    exponentiate();
    for (int64_t s = 0; s < num_states; ++s) {
      sums_[s] = 0;
      for (int64_t i = first[s]; i < first[s + 1]; ++i) sums_[s] += values[i];
      if (first[s] == first[s + 1]) sums_[s] = 1;
    }
    for (int64_t s = 0; s < num_states; s += DOUBLES) {
      const Doubles sums = load(to.data() + s, num_states - s) + vector_log(load(sums_.data() + s, num_states - s));
      store(to.data() + s, at_least_never(sums), num_states - s);
    }
  }

  // values = exp(values)
  void exponentiate() const {
    for (int64_t i = 0; i < num; i += DOUBLES) {
      double *at = values.data() + i;
      store(at, probability(load(at, num - i)), num - i);
    }
  }

  const int64_t num, num_states;
  const Buffer<int64_t> first, source, target, label;
  const Buffer<double> weight, values;

 private:
  const Buffer<double> sums_;
};

// All paths of one sequence.
template <class T>
class Paths {
 public:
  Paths(const Graph<T> &graph, int64_t n)
      : num_states(graph.num_states(n)), graph_(graph), n_(n), incoming_(graph, n, false), frames_(graph.num_frames),
        end_(num_states) {
    for (int64_t t = 0; t < graph.num_frames; ++t)
      if (graph.has_frame(t, n)) frames_[num_frames++] = t;
    for (int64_t s = 0; s < num_states; ++s) end_[s] = at_least_never(graph.end[graph.state(n, s)]);
  }

  // Log probability of all paths, or the best one, up to each state before the first frame and after each one. Returns that
  // of those which end.
  double go_forward(bool max_approx, const Buffer<double> &forward) const {
    const Buffer<double> here(num_states);
    for (int64_t s = 0; s < num_states; ++s) forward[s] = at_least_never(graph_.start[graph_.state(n_, s)]);
    for (int64_t i = 0; i < num_frames; ++i) {
      arrive(i, forward);
      incoming_.combine(max_approx, here);
      std::memcpy(forward.data() + (i + 1) * num_states, here.data(), num_states * sizeof(double));
    }
    for (int64_t s = 0; s < num_states; ++s) here[s] = at_end(s, forward);
    if (!max_approx) return log_sum(here.data(), num_states);
    double best = NEVER;
    for (int64_t s = 0; s < num_states; ++s) best = here[s] > best ? here[s] : best;
    return best;
  }

  // The probability of each label in each frame: use(t, label, share), where shares of a label are still to be added up.
  template <class Use>
  void shares(double total, const Buffer<double> &forward, const Use &use) const {
    const Edges<T> outgoing(graph_, n_, true);
    const Buffer<double> behind(num_states), leaving(outgoing.num);
    std::memcpy(behind.data(), end_.data(), num_states * sizeof(double));
    for (int64_t i = num_frames; i-- > 0;) {
      const T *frame = graph_.frame(frames_[i], n_);
      const double *before = forward.data() + i * num_states;
      for (int64_t e = 0; e < outgoing.num; ++e) {
        leaving[e] = at_least_never(outgoing.score(frame, e) + behind[outgoing.target[e]]);
        outgoing.values[e] = before[outgoing.source[e]] + leaving[e] - total;
      }
      outgoing.exponentiate();
      for (int64_t e = 0; e < outgoing.num; ++e) use(frames_[i], outgoing.label[e], outgoing.values[e]);
      std::memcpy(outgoing.values.data(), leaving.data(), outgoing.num * sizeof(double));
      outgoing.combine(false, behind);
    }
  }

  // Calls use(t, label) for the frames of the best path, the last one first. Of equal ones, those of later edges.
  template <class Use>
  void best_path(const Buffer<double> &forward, const Use &use) const {
    int64_t state = 0;
    for (int64_t s = 0; s < num_states; ++s)
      if (at_end(s, forward) >= at_end(state, forward)) state = s;
    for (int64_t i = num_frames; i-- > 0;) {
      arrive(i, forward);
      int64_t best = incoming_.first[state];
      for (int64_t e = best; e < incoming_.first[state + 1]; ++e)
        if (incoming_.values[e] >= incoming_.values[best]) best = e;
      use(frames_[i], incoming_.label[best]);
      state = incoming_.source[best];
    }
  }

  const int64_t num_states;
  int64_t num_frames = 0;

 private:
  double at_end(int64_t s, const Buffer<double> &forward) const { return forward[num_frames * num_states + s] + end_[s]; }

  // The values of edges: log probability of the paths over them.
  void arrive(int64_t i, const Buffer<double> &forward) const {
    const T *frame = graph_.frame(frames_[i], n_);
    const double *before = forward.data() + i * num_states;
    for (int64_t e = 0; e < incoming_.num; ++e)
      incoming_.values[e] = at_least_never(before[incoming_.source[e]] + incoming_.score(frame, e));
  }

  const Graph<T> &graph_;
  const int64_t n_;
  const Edges<T> incoming_;
  const Buffer<int64_t> frames_;
  const Buffer<double> end_;
};

template <class T>
const char *posteriors(const returnn_call *call) {
  const Graph<T> graph(call);
  if (graph.error != nullptr) return graph.error;
  T *occupied = static_cast<T *>(call->outputs[0].data), *totals = static_cast<T *>(call->outputs[1].data);
  with_team(call->threads, [&](Team &team) {
    for_each_part(team, static_cast<int>(graph.num), [&](int n) {
      const auto row = [&](int64_t t) { return occupied + (t * graph.num + n) * graph.num_classes; };
      for (int64_t t = 0; t < graph.num_frames; ++t) std::memset(row(t), 0, graph.num_classes * sizeof(T));
      const Paths<T> paths(graph, n);
      const Buffer<double> forward((paths.num_frames + 1) * paths.num_states);
      const double total = paths.go_forward(false, forward);
      totals[n] = static_cast<T>(is_possible(total) ? total : -__builtin_inf());
      if (!is_possible(total)) return;
      paths.shares(total, forward, [&](int64_t t, int64_t label, double share) { row(t)[label] += static_cast<T>(share); });
    });
  });
  return nullptr;
}

template <class T>
const char *best_paths(const returnn_call *call) {
  const Graph<T> graph(call);
  if (graph.error != nullptr) return graph.error;
  int32_t *labels = static_cast<int32_t *>(call->outputs[0].data);
  T *totals = static_cast<T *>(call->outputs[1].data);
  with_team(call->threads, [&](Team &team) {
    for_each_part(team, static_cast<int>(graph.num), [&](int n) {
      for (int64_t t = 0; t < graph.num_frames; ++t) labels[t * graph.num + n] = 0;
      const Paths<T> paths(graph, n);
      const Buffer<double> forward((paths.num_frames + 1) * paths.num_states);
      const double total = paths.go_forward(true, forward);
      totals[n] = static_cast<T>(is_possible(total) ? total : -__builtin_inf());
      if (!is_possible(total)) return;
      paths.best_path(forward, [&](int64_t t, int64_t label) { labels[t * graph.num + n] = static_cast<int32_t>(label); });
    });
  });
  return nullptr;
}

bool is_double(const returnn_call *call) { return call->inputs[0].type == RETURNN_FLOAT64; }

// `scores`, `weight`, `start` and `end` are log probabilities; a state that no path begins or ends in has -1e30 there. Only
// frames with `mask` count. `occupied`: the probability of each class in each frame, over all paths (Baum and Welch), 0 in
// other frames and where there is no path; `total`: log of the sum over all paths, or -inf.
RETURNN_KERNEL(automaton_posteriors,
               "scores: real[T, B, F], source: int32[E], target: int32[E], label: int32[E], sequence: int32[E], "
               "weight: real[E], start: real[S], end: real[S], sequence_of_state: int32[S], mask: uint8[T, B] -> "
               "occupied: real[T, B, F], total: real[B]") {
  return is_double(call) ? posteriors<double>(call) : posteriors<float>(call);
}

// The labels of the best path (Viterbi), 0 in other frames, and where there is no path.
RETURNN_KERNEL(automaton_best_paths,
               "scores: real[T, B, F], source: int32[E], target: int32[E], label: int32[E], sequence: int32[E], "
               "weight: real[E], start: real[S], end: real[S], sequence_of_state: int32[S], mask: uint8[T, B] -> "
               "labels: int32[T, B], total: real[B]") {
  return is_double(call) ? best_paths<double>(call) : best_paths<float>(call);
}

}  // namespace
}  // namespace RETURNN_LEVEL
}  // namespace returnn
