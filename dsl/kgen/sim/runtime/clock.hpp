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

void start_clocks(ClockPool& pool, Fiber* fibers, u32 threads);
// All threads know all that any of them did before, and start a new time.
void synchronise_block(ClockPool& pool, Fiber* fibers, u32 threads);
void synchronise_warp(ClockPool& pool, Fiber* lanes, u32 threads);

}  // namespace kg
