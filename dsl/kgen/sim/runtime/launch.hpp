// One kernel launch, as all workers see it, and the faults it can end in.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "clock.hpp"
#include "state.hpp"

namespace kg {

struct Fault {
    std::string kind, message;
    i64 block, thread;  // -1: none
    u32 line;           // 0: unknown
    u64 code_offset;    // of the machine instruction in the kernel's library, for crashes; else 0
};

struct Tile {
    i64 block, loop, start, masked;
};

struct Options {
    u32 grid, block, shared_bytes;
    u32 workers;
    u32 check_races, check_outputs, count_sectors;
    u32 lazy;    // asynchronous operations happen at the last legal moment
    u32 hopper;  // tensor cores round as an H200's
    u64 seed;  // 0: first come, first served; else threads run in this random order
    f64 time_limit;  // seconds
};

struct Launch {
    void (*entry)(void**);
    void** arguments;
    Options options;
    std::vector<std::string> names;
    std::vector<Allocation> allocations;
    u64 arena = 0, arena_bytes = 0;
    u32 slot_shift = 0;
    u64 code_begin = 0, code_end = 0;  // of the kernel's machine code
    std::atomic<u64> next_block{0};
    std::atomic<bool> stop{false}, expired{false};
    std::mutex mutex;  // guards what follows
    std::vector<Fault> faults;
    std::vector<Traffic> traffic;
    std::vector<Tile> tiles;
    u64 barriers = 0, collectives = 0, blocks = 0;
    u64 instructions[op_count] = {};  // of warps
    u64 special = 0;
    std::vector<LineCount> lines;  // by line * access_kinds + access
    std::string report;
};

struct PendingCopy {
    const void* source;  // null: zeros
    u32 address, bytes, time;
};

// The cp.async operations of one thread.
struct CopyQueue {
    u32 issued;               // their number so far: the time of the newest
    std::vector<u32> groups;  // of each committed group in flight, the time of its last copy
    std::vector<PendingCopy> pending;
};

// State of a worker that only the runtime sees.
struct Scheduler {
    Context main;
    Fiber fibers[max_threads];
    Warp warps[max_threads / warp_size];
    u16 ready[max_threads];  // a ring
    u32 ready_head, ready_count;
    u32 at_barrier, barrier_line, exited;
    u64 random;  // 0: no chance
    u64 barriers, collectives, blocks, instructions[op_count];
    Stacks stacks;
    ClockPool clocks;
    unsigned char* shared = nullptr;  // aligned to 1024
    std::vector<unsigned char> shared_memory;
    std::vector<Cell> cells;
    std::vector<CopyQueue> copies;  // by thread
    std::vector<LineCount> lines;   // by line * access_kinds + access
    std::vector<Traffic> traffic;
    std::vector<Tile> tiles;
    std::vector<u32> tile_owner;  // by loop id: the thread whose calls count in this block, plus one
};

// Records a fault of the running thread and ends its block; never returns to kernel text.
[[noreturn]] void fail(const char* kind, u32 line, const std::string& message, u64 code_offset = 0);
void record(Launch& launch, Fault fault);
std::string deadlock_text(const Scheduler& scheduler, u32 threads);
const char* name_of(Op op);

void run_block(Worker& worker, u32 block);
void pass_turn(Worker& worker);  // lets the other ready threads run first
bool defer(Worker& worker);      // decides whether an asynchronous operation happens later
u64 next_random(u64& state);
void run_launch(Launch& launch);
void check_coverage(Launch& launch);

class SignalGuard {  // installs the handlers of crashes and of the watchdog, and restores the old ones
  public:
    SignalGuard();
    ~SignalGuard();
};
int watchdog_signal();

std::string report_text(const Launch& launch);

}  // namespace kg
