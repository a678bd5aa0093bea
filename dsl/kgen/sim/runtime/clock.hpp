// Vector clocks: which accesses of other agents a thread is known to come after.
//
// An agent is whoever accesses shared memory at times of its own: a thread; the cp.async engine of a thread; the TMA
// stores and the wgmma of a warp; the TMA loads that complete one mbarrier. A stamp is agent << 20 | time; 0 is none.
#pragma once

#include <algorithm>
#include <vector>

#include "state.hpp"

namespace kg {

constexpr u32 time_bits = 20;
constexpr u32 time_mask = (1u << time_bits) - 1;
constexpr u32 max_mbarriers = 64;

KG_DEVICE u32 agent_of(u32 stamp) { return stamp >> time_bits; }
KG_DEVICE u32 time_of(u32 stamp) { return stamp & time_mask; }
KG_DEVICE u32 make_stamp(u32 agent, u32 time) { return agent << time_bits | std::min(time, time_mask); }
KG_DEVICE u32 first_stamp(u32 thread) { return make_stamp(thread + 1, 1); }

// The agents of a block of `threads` threads, numbered from 1.
struct Agents {
    u32 threads;
    u32 warps() const { return threads / warp_size; }
    u32 copies(u32 thread) const { return 1 + threads + thread; }
    u32 stores(u32 warp) const { return 1 + 2 * threads + warp; }
    u32 products(u32 warp) const { return stores(warps()) + warp; }
    u32 mbarrier(u32 slot) const { return products(warps()) + slot; }
    u32 nobody() const { return mbarrier(max_mbarriers); }  // owns the bytes of mbarriers; never known to be done
    u32 count() const { return nobody(); }
    u32 async(Async kind, u32 thread) const {
        u32 warp = thread / warp_size;
        return kind == Async::copy ? copies(thread) : kind == Async::store ? stores(warp) : products(warp);
    }
};

KG_DEVICE bool reaches(u32 known, u32 stamp) { return agent_of(known) == agent_of(stamp) && known >= stamp; }

// True if the access with this stamp happens before whatever `me` does next.
KG_DEVICE bool before(const Fiber& me, u32 stamp) {
    if (me.view->of[agent_of(stamp)] >= time_of(stamp) || agent_of(stamp) == agent_of(me.stamp)) return true;
    return reaches(me.known[0], stamp) || reaches(me.known[1], stamp) || reaches(me.known[2], stamp);
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

// What those knew who arrived at a barrier in its present phase.
struct Gathered {
    Clock* clock = nullptr;
    Clock* last = nullptr;  // the view added last: threads of a group mostly share theirs
};

// The last result of acquire, for the next thread with the same view.
struct Acquired {
    Clock* from = nullptr;
    Clock* result = nullptr;
};

KG_DEVICE void advance(Fiber& fiber) {  // a thread's time stops at the largest: later races may be missed
    if (time_of(fiber.stamp) < time_mask) ++fiber.stamp;
}

KG_DEVICE void raise(Clock& clock, u32 stamp) {
    u32& time = clock.of[agent_of(stamp)];
    time = std::max(time, time_of(stamp));
}

// `reference` counts as a holder of the clock it points to.
void hold(ClockPool& pool, Clock*& reference, Clock* clock);
Clock* joined(ClockPool& pool, const Clock* a, const Clock* b, u32 threads);  // either may be null

// Adds what the thread knows and starts a new time of the thread.
void release(ClockPool& pool, Gathered& into, Fiber& fiber, u32 threads);
// The thread comes after all that `clock` holds.
void acquire(ClockPool& pool, Acquired& memo, Fiber& fiber, const Clock* clock, u32 threads);
void forget(ClockPool& pool, Gathered& gathered);
void forget(ClockPool& pool, Acquired& memo);

void start_clocks(ClockPool& pool, Fiber* fibers, u32 threads);
// All threads know all that any of them did before, and start a new time.
void synchronise_block(ClockPool& pool, Fiber* fibers, u32 threads);
void synchronise_warp(ClockPool& pool, Fiber* lanes, u32 threads);

}  // namespace kg
