// Counting 32-byte sectors per warp instruction.
#pragma once

#include <vector>

#include "global.hpp"

namespace kg {

struct LoggedAccess {
    u64 address;  // 0: predicated off
    u32 line;
    Access access;
};

// What each thread did since its warp last met.
struct TrafficLog {
    std::vector<LoggedAccess> of[max_threads];
};

// Forms warp instructions from the lanes' logs, adds their sectors to the worker's traffic, and clears the logs.
void count_sectors(Worker& worker, u32 first_thread);

}  // namespace kg
