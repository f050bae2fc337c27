#include "threads.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

namespace returnn {
namespace {

constexpr int MAX_PARTS = 256;
constexpr int SPINS = 2000;  // before a waiting thread lets others run

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

class Waiting {
 public:
  void once_more() {
    if (++spins_ < SPINS)
      pause();
    else
      sched_yield();
  }

 private:
  int spins_ = 0;
};

}  // namespace

class Team {
 public:
  explicit Team(int size) : size_(size) {
    for (auto &round : taken_) round.store(0, std::memory_order_relaxed);
  }

  int size() const { return size_; }

  // In the calling thread.
  void run(int num, void (*work)(void *, int), void *data) {
    work_ = work;
    data_ = data;
    done_.store(0, std::memory_order_relaxed);
    const uint32_t round = round_.load(std::memory_order_relaxed) + 1;
    // Also parts that there were not in the round before: a thread that is late must not take one of them for that round.
    num_used_ = std::max(num_used_, num);
    for (int part = 0; part < num_used_; ++part) taken_[part].store(round - 1, std::memory_order_relaxed);
    num_.store(num, std::memory_order_release);
    round_.store(round, std::memory_order_release);
    take_parts(0, round);
    for (Waiting waiting; done_.load(std::memory_order_acquire) < num;) waiting.once_more();
  }

  void end() { ended_.store(true, std::memory_order_release); }

  // In the others.
  void help(int thread) {
    uint32_t seen = 0;
    for (Waiting waiting; !ended_.load(std::memory_order_acquire);) {
      const uint32_t round = round_.load(std::memory_order_acquire);
      if (round == seen) {
        waiting.once_more();
        continue;
      }
      seen = round;
      take_parts(thread, round);
      waiting = Waiting();
    }
  }

 private:
  // A part that is taken keeps the round from ending, so what belongs to the round does not change meanwhile.
  void take_parts(int thread, uint32_t round) {
    const int num = num_.load(std::memory_order_acquire);
    const int first = num * thread / size_;
    for (int i = 0; i < num; ++i) {
      const int part = first + i < num ? first + i : first + i - num;
      uint32_t before = round - 1;
      if (!taken_[part].compare_exchange_strong(before, round, std::memory_order_acq_rel)) continue;
      work_(data_, part);
      done_.fetch_add(1, std::memory_order_release);
    }
  }

  const int size_;
  void (*work_)(void *, int) = nullptr;
  void *data_ = nullptr;
  int num_used_ = 0;
  std::atomic<int> num_{0};
  std::atomic<int> done_{0};
  std::atomic<uint32_t> round_{0};
  std::atomic<bool> ended_{false};
  std::atomic<uint32_t> taken_[MAX_PARTS];
};

namespace {

// Threads that wait for a team that wants help. After a fork there are none, so the child makes its own.
class Pool {
 public:
  static Pool &get() {
    static std::atomic<Pool *> current{nullptr};
    Pool *pool = current.load();
    while (pool == nullptr || pool->process_ != getpid()) {
      Pool *made = new Pool;  // never deleted: its threads run until the process ends
      if (current.compare_exchange_strong(pool, made)) return *made;
      delete made;
    }
    return *pool;
  }

  void ask_for_help(const std::shared_ptr<Team> &team) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (int thread = 1; thread < team->size(); ++thread) asked_.push_back({team, thread});
    for (; num_threads_ < team->size() - 1; ++num_threads_) std::thread([this] { work(); }).detach();
    wanted_.notify_all();
  }

  // Who has not come by now is not needed.
  void withdraw(const std::shared_ptr<Team> &team) {
    const std::lock_guard<std::mutex> lock(mutex_);
    asked_.erase(std::remove_if(asked_.begin(), asked_.end(), [&](const Request &r) { return r.team == team; }),
                 asked_.end());
  }

 private:
  struct Request {
    std::shared_ptr<Team> team;
    int thread;
  };

  void work() {
    for (;;) {
      Request request;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        wanted_.wait(lock, [this] { return !asked_.empty(); });
        request = asked_.front();
        asked_.pop_front();
      }
      request.team->help(request.thread);
    }
  }

  const pid_t process_ = getpid();
  std::mutex mutex_;
  std::condition_variable wanted_;
  std::deque<Request> asked_;
  int num_threads_ = 0;
};

}  // namespace

void with_team(int threads, void (*work)(void *, Team &), void *data) {
  const auto team = std::make_shared<Team>(std::max(1, std::min(threads, MAX_PARTS)));
  if (team->size() > 1) Pool::get().ask_for_help(team);
  work(data, *team);
  team->end();
  if (team->size() > 1) Pool::get().withdraw(team);
}

void for_each_part(Team &team, int num, void (*work)(void *, int), void *data) {
  if (num == 1 || team.size() == 1) {
    for (int part = 0; part < num; ++part) work(data, part);
    return;
  }
  for (int begin = 0; begin < num; begin += MAX_PARTS) {
    struct Shifted {
      void (*work)(void *, int);
      void *data;
      int begin;
    } shifted{work, data, begin};
    team.run(std::min(num - begin, MAX_PARTS), [](void *of, int part) {
      const Shifted *s = static_cast<Shifted *>(of);
      s->work(s->data, s->begin + part);
    }, &shifted);
  }
}

int team_size(const Team &team) { return team.size(); }

}  // namespace returnn
