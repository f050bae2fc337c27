// Threads of the kernels' own, which wait between calls and are shared by all of them.
//
// Work is cut into parts; which thread does a part makes no difference to its result. The calling thread never waits for
// a thread that has not begun: it does what nobody else has taken. So there can be more calls than threads, and no
// deadlock.
#pragma once

#include <cstdint>

namespace returnn {

class Team;

// Calls work(data, team) in this thread, with up to threads - 1 others that help in `for_each_part`.
void with_team(int threads, void (*work)(void *, Team &), void *data);

// Calls work(data, part) for each part in [0, num), and returns when all are done. A thread prefers the same parts in
// each call, as their data is in its cache.
void for_each_part(Team &team, int num, void (*work)(void *, int), void *data);

int team_size(const Team &team);

// The same with function objects.
template <class Work>
static inline void with_team(int threads, Work &&work) {
  with_team(threads, [](void *data, Team &team) { (*static_cast<Work *>(data))(team); }, &work);
}

template <class Work>
static inline void for_each_part(Team &team, int num, Work &&work) {
  for_each_part(team, num, [](void *data, int part) { (*static_cast<Work *>(data))(part); }, &work);
}

}  // namespace returnn
