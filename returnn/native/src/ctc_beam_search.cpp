// The labels that CTC finds by prefix beam search (Graves et al. 2006; Hannun et al. 2014, "First-pass large vocabulary
// continuous speech recognition using bi-directional recurrent DNNs").
//
// A prefix is what is left of a path without blanks and repetitions. In each frame, those prefixes stay whose paths are most
// likely together. Only labels are looked at which lead to one of them: their scores are asked for from the highest one on.
#include "kernel.h"
#include "log_space.h"
#include "simd.h"
#include "threads.h"

namespace returnn {
namespace RETURNN_LEVEL {
namespace {

constexpr int32_t NONE = -1;

// A heap in an array: its first entry is before all others.
template <class Entry, class IsBefore>
class Heap {
 public:
  Heap(Entry *entries, int64_t size, IsBefore is_before) : num(size), entries_(entries), is_before_(is_before) {
    for (int64_t i = num / 2; i-- > 0;) move_down(i);
  }

  const Entry &first() const { return entries_[0]; }

  void replace_first(const Entry &entry) {
    entries_[0] = entry;
    move_down(0);
  }

  void add(const Entry &entry) {
    int64_t i = num++;
    for (; i > 0 && is_before_(entry, entries_[(i - 1) / 2]); i = (i - 1) / 2) entries_[i] = entries_[(i - 1) / 2];
    entries_[i] = entry;
  }

  Entry take_first() {
    const Entry entry = entries_[0];
    if (--num > 0) replace_first(entries_[num]);
    return entry;
  }

  int64_t num;

 private:
  void move_down(int64_t i) {
    const Entry entry = entries_[i];
    for (int64_t child = 2 * i + 1; child < num; child = 2 * i + 1) {
      if (child + 1 < num && is_before_(entries_[child + 1], entries_[child])) ++child;
      if (!is_before_(entries_[child], entry)) break;
      entries_[i] = entries_[child];
      i = child;
    }
    entries_[i] = entry;
  }

  Entry *entries_;
  const IsBefore is_before_;
};

// All prefixes that were in the beam, as a tree.
class Prefixes {
 public:
  struct Node {
    int32_t parent, label, first_child, next_sibling;
    int32_t place;  // in the beam, or NONE
  };

  explicit Prefixes(int64_t most) : nodes_(most), num_(1) { nodes_[0] = {NONE, NONE, NONE, NONE, 0}; }

  Node &operator[](int32_t node) const { return nodes_[node]; }

  int32_t child(int32_t parent, int32_t label) {
    for (int32_t node = nodes_[parent].first_child; node != NONE; node = nodes_[node].next_sibling)
      if (nodes_[node].label == label) return node;
    nodes_[num_] = {parent, label, NONE, nodes_[parent].first_child, NONE};
    return nodes_[parent].first_child = num_++;
  }

 private:
  const Buffer<Node> nodes_;
  int32_t num_;
};

// Labels by their scores in a frame, the highest one first, sorted as far as they are asked for.
template <class T>
class LabelOrder {
 public:
  LabelOrder(const T *scores, int32_t *labels, int64_t num) : heap_(labels, num, IsHigher{scores}), all_(labels), num_(num) {}

  int64_t num() const { return num_; }

  int32_t operator[](int64_t i) {
    for (; sorted_ <= i; ++sorted_) {
      const int32_t label = heap_.take_first();  // which makes a place behind the heap free
      all_[num_ - 1 - sorted_] = label;
    }
    return all_[num_ - 1 - i];
  }

 private:
  struct IsHigher {
    const T *scores;
    bool operator()(int32_t a, int32_t b) const { return scores[a] > scores[b] || (scores[a] == scores[b] && a < b); }
  };

  Heap<int32_t, IsHigher> heap_;
  int32_t *all_;
  const int64_t num_;
  int64_t sorted_ = 0;
};

RETURNN_INLINE double log_add(double a, double b) {
  const double larger = a > b ? a : b, smaller = a > b ? b : a;
  return is_possible(smaller) ? larger + __builtin_log1p(__builtin_exp(smaller - larger)) : larger;
}

// Log probabilities of the paths of a prefix: of those that end with blank, with its last label, and of all.
struct Paths {
  double blank, label, total;
};

template <class T>
class Search {
 public:
  Search(int64_t num_frames, int64_t num_classes, int64_t blank, int64_t beam_size)
      : num_classes_(num_classes), blank_(blank), beam_size_(beam_size), prefixes_(num_frames * beam_size + 1),
        beam_(beam_size), next_(beam_size), first_child_(beam_size), sibling_(beam_size), labels_(num_classes),
        is_child_of_(num_classes) {
    for (int64_t c = 0; c < num_classes; ++c) is_child_of_[c] = 0;
    beam_[0] = {{0, NEVER, 0}, 0, NONE, NONE};
  }

  void go_on(const T *logits) {
    const double normalizer = log_normalizer(logits, num_classes_);
    for (int64_t k = 0; k < size_; ++k) next_[k] = stayed(k, logits, normalizer);
    Heap<Candidate, IsWorse> next(next_.data(), size_, IsWorse());
    link_children();
    LabelOrder<T> order(logits, labels_.data(), select_labels(logits, normalizer, next));
    for (int64_t k = 0; k < size_ && is_wanted(beam_[k].paths.total, next); ++k) extend(k, logits, normalizer, order, next);
    for (int64_t k = 0; k < size_; ++k) prefixes_[beam_[k].node].place = NONE;
    size_ = next.num;
    for (int64_t k = size_; k-- > 0;) enter(k, next.take_first());
  }

  // Of the prefix at a place in the beam, the best one is at 0.
  double score(int64_t k) const { return k < size_ ? beam_[k].paths.total : NEVER; }

  int32_t write(int64_t k, int32_t *labels) const {
    if (k >= size_) return 0;
    int32_t num = 0;
    for (int32_t node = beam_[k].node; node != 0; node = prefixes_[node].parent) ++num;
    int32_t i = num;
    for (int32_t node = beam_[k].node; node != 0; node = prefixes_[node].parent) labels[--i] = prefixes_[node].label;
    return num;
  }

 private:
  // A prefix that may be in the beam: a node, or what comes from one by a label.
  struct Candidate {
    Paths paths;
    int32_t node, parent, label;
  };

  struct IsWorse {
    bool operator()(const Candidate &a, const Candidate &b) const { return a.paths.total < b.paths.total; }
  };

  bool is_wanted(double total, const Heap<Candidate, IsWorse> &next) const {
    return is_possible(total) && (next.num < beam_size_ || total > next.first().paths.total);
  }

  // Before a repeated label, there has to be a blank.
  double before_label(const Candidate &prefix, int32_t label) const {
    return prefixes_[prefix.node].label == label ? prefix.paths.blank : prefix.paths.total;
  }

  // The same prefix one frame later, also by its last label.
  Candidate stayed(int64_t k, const T *logits, double normalizer) const {
    const Candidate &prefix = beam_[k];
    const Prefixes::Node &node = prefixes_[prefix.node];
    Paths paths = {at_least_never(prefix.paths.total + logits[blank_] - normalizer), NEVER, NEVER};
    if (node.parent != NONE) {
      const int32_t place = prefixes_[node.parent].place;
      const double begun = place == NONE ? NEVER : before_label(beam_[place], node.label);
      paths.label = at_least_never(log_add(prefix.paths.label, begun) + logits[node.label] - normalizer);
    }
    paths.total = log_add(paths.blank, paths.label);
    return {paths, prefix.node, NONE, NONE};
  }

  // Which prefixes in the beam come from which by a label.
  void link_children() {
    for (int64_t k = 0; k < size_; ++k) first_child_[k] = NONE;
    for (int64_t k = 0; k < size_; ++k) {
      const int32_t parent = prefixes_[beam_[k].node].parent, place = parent == NONE ? NONE : prefixes_[parent].place;
      if (place == NONE) continue;
      sibling_[k] = first_child_[place];
      first_child_[place] = static_cast<int32_t>(k);
    }
  }

  // Those that lead into the beam from its best prefix. Returns how many.
  int64_t select_labels(const T *logits, double normalizer, const Heap<Candidate, IsWorse> &next) {
    const double least = next.num < beam_size_ ? NEVER : next.first().paths.total - beam_[0].paths.total + normalizer;
    int64_t num = 0;
    for (int64_t c = 0; c < num_classes_; ++c) {
      labels_[num] = static_cast<int32_t>(c);
      num += logits[c] > least && c != blank_;
    }
    return num;
  }

  void extend(int64_t k, const T *logits, double normalizer, LabelOrder<T> &order, Heap<Candidate, IsWorse> &next) {
    const Candidate prefix = beam_[k];
    ++current_;
    for (int32_t child = first_child_[k]; child != NONE; child = sibling_[child])
      is_child_of_[prefixes_[beam_[child].node].label] = current_;
    for (int64_t i = 0; i < order.num(); ++i) {
      const int32_t label = order[i];
      const double score = logits[label] - normalizer;
      if (!is_wanted(at_least_never(prefix.paths.total + score), next)) break;  // nor are those behind it
      const double total = at_least_never(before_label(prefix, label) + score);
      if (is_child_of_[label] == current_ || !is_wanted(total, next)) continue;
      const Candidate longer = {{NEVER, total, total}, NONE, prefix.node, label};
      if (next.num < beam_size_)
        next.add(longer);
      else
        next.replace_first(longer);
    }
  }

  void enter(int64_t k, const Candidate &candidate) {
    beam_[k] = candidate;
    if (candidate.node == NONE) beam_[k].node = prefixes_.child(candidate.parent, candidate.label);
    prefixes_[beam_[k].node].place = static_cast<int32_t>(k);
  }

  const int64_t num_classes_, blank_, beam_size_;
  Prefixes prefixes_;
  const Buffer<Candidate> beam_, next_;  // the beam is sorted, the best prefix first
  const Buffer<int32_t> first_child_, sibling_, labels_;
  const Buffer<int64_t> is_child_of_;
  int64_t size_ = 1, current_ = 0;
};

template <class T>
const char *search(const returnn_call *call) {
  const returnn_array &logits = call->inputs[0];
  const int32_t *num_frames = static_cast<const int32_t *>(call->inputs[1].data);
  const int64_t blank = static_cast<int64_t>(call->options[0]), beam_size = static_cast<int64_t>(call->options[1]);
  const int64_t num = logits.sizes[0], max_frames = logits.sizes[1], num_classes = logits.sizes[2];
  const int64_t num_best = call->inputs[2].sizes[0];
  if (blank < 0 || blank >= num_classes) return "blank is not one of the classes";
  if (beam_size < 1) return "the beam has no place";
  for (int64_t n = 0; n < num; ++n) {
    if (num_frames[n] < 0 || num_frames[n] > max_frames) return "a number of frames is below 0, or above that of the logits";
    if (num_frames[n] > (int64_t(1) << 30) / beam_size) return "there are too many frames for a beam of this size";
  }
  int32_t *labels = static_cast<int32_t *>(call->outputs[0].data), *lengths = static_cast<int32_t *>(call->outputs[1].data);
  T *scores = static_cast<T *>(call->outputs[2].data);
  with_team(call->threads, [&](Team &team) {
    for_each_part(team, static_cast<int>(num), [&](int n) {
      Search<T> search(num_frames[n], num_classes, blank, beam_size);
      const T *frames = static_cast<const T *>(logits.data) + n * logits.strides[0];
      for (int64_t t = 0; t < num_frames[n]; ++t) search.go_on(frames + t * logits.strides[1]);
      std::memset(labels + n * num_best * max_frames, 0, num_best * max_frames * sizeof(int32_t));
      for (int64_t k = 0; k < num_best; ++k) {
        const int64_t place = n * num_best + k;
        lengths[place] = search.write(k, labels + place * max_frames);
        scores[place] = static_cast<T>(search.score(k));
      }
    });
  });
  return nullptr;
}

// The best prefixes, as many as `wanted` has entries, the best one first. `labels` are 0 behind the ends. `score` is the log
// probability of all paths that stayed in the beam; it is impossible where the beam has fewer prefixes.
RETURNN_KERNEL(ctc_beam_search,
               "logits: real[B, T, C], num_frames: int32[B], wanted: int32[K]; blank: int, beam_size: int -> "
               "labels: int32[B, K, T], lengths: int32[B, K], score: real[B, K]") {
  return call->inputs[0].type == RETURNN_FLOAT64 ? search<double>(call) : search<float>(call);
}

}  // namespace
}  // namespace RETURNN_LEVEL
}  // namespace returnn
