// Counting what warp instructions cost in memory: 32-byte sectors, and wavefronts of the 32 banks of shared memory.
#pragma once

#include <vector>

#include "global.hpp"
#include "launch.hpp"

namespace kg {

struct LoggedAccess {
    u64 address;  // 0: predicated off
    u32 line;
    Access access;
    u8 bytes;
};

// What each thread did since its warp last met.
struct TrafficLog {
    std::vector<LoggedAccess> of[max_threads];
};

// Forms warp instructions from the lanes' logs, counts them, and clears the logs.
void count_accesses(Worker& worker, u32 first_thread);

// Counts one instruction whose lanes (null: inactive) access `bytes` each.
void count_instruction(Worker& worker, Access access, u32 line, const u64* lanes, u32 bytes);

// Wavefronts that the lanes' accesses of shared memory take, and the least that accesses of this width could.
struct Wavefronts {
    u32 taken, ideal;
};
Wavefronts wavefronts_of(const u64* lanes, u32 count, u32 bytes);
void add_to_line(Worker& worker, Access access, u32 line, u32 pieces, u32 ideal);

}  // namespace kg
