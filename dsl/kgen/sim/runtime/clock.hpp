// Vector clocks: which accesses of other threads a thread is known to come after.
#pragma once

#include <vector>

#include "state.hpp"

namespace kg {

constexpr u32 time_bits = 20;
constexpr u32 time_mask = (1u << time_bits) - 1;

KG_DEVICE u32 agent_of(u32 stamp) { return stamp >> time_bits; }
KG_DEVICE u32 time_of(u32 stamp) { return stamp & time_mask; }
KG_DEVICE u32 first_stamp(u32 thread) { return (thread + 1) << time_bits | 1; }

// True if the access with this stamp happens before whatever `me` does next.
KG_DEVICE bool before(const Fiber& me, u32 stamp) {
    return me.view->of[agent_of(stamp)] >= time_of(stamp) || agent_of(stamp) == agent_of(me.stamp);
}

class ClockPool {
  public:
    ~ClockPool();
    void resize(u32 agents);  // drops all clocks if the number changes
    Clock* take();            // zero, no references
    void drop(Clock* clock);

  private:
    u32 agents_ = 0;
    std::vector<Clock*> free_, all_;
};

void start_clocks(ClockPool& pool, Fiber* fibers, u32 threads);
// All threads know all that any of them did before, and start a new time.
void synchronise_block(ClockPool& pool, Fiber* fibers, u32 threads);
void synchronise_warp(ClockPool& pool, Fiber* lanes, u32 threads);

}  // namespace kg
