// The shadow of shared memory: who wrote and read each granule last (a happens-before race detector), and what was
// written at all.
#pragma once

#include <string>

#include "launch.hpp"

namespace kg {

// Who makes an access. An earlier access must come before whatever all `lanes` (1 thread or the 32 of a warp) do next;
// later ones find this access under `stamp`, or, if that is 0, under the stamps of the lanes.
struct Actor {
    const Fiber* lanes;
    const Clock* common;  // the lanes' view if they share one, else null
    u32 count;
    u32 stamp;
    const char* verb;  // for messages
    bool async_proxy = false;  // it reads through the async proxy: writes of the generic proxy must be fenced
};

Actor thread_actor(const Fiber& thread, u32 stamp, const char* verb);
Actor warp_actor(const Fiber* lanes, u32 stamp, const char* verb);

// Neither checks bounds. `lane` is the one that supplied the address, if the actor has no stamp.
void note_read(Worker& w, const Actor& actor, u32 offset, u32 bytes, u32 line, u32 lane = 0);
void note_write(Worker& w, const Actor& actor, u32 offset, u32 bytes, u32 line, u32 lane = 0);

}  // namespace kg
