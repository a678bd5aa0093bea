// What other parts of the runtime need of mbarriers.
#pragma once

#include "launch.hpp"

namespace kg {

// The mbarrier at a shared address, whose initialisation the running thread must know of.
MBarrier& mbarrier_at(Worker& w, u32 address, const char* user, u32 line);
// `bytes` of TMA loads have landed; the newest of them has this time.
void complete_bytes(Worker& w, u32 address, u32 bytes, u32 time, u32 line);

}  // namespace kg
