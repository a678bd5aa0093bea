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
    const void* source;
    u32 address, bytes, time;
    u32 present;  // bytes that come from the source; zeros after them
};

// The cp.async operations of one thread.
struct CopyQueue {
    u32 issued;               // their number so far: the time of the newest
    std::vector<u32> groups;  // of each committed group in flight, the time of its last copy
    std::vector<PendingCopy> pending;
};

struct NamedBarrier {
    u32 count, arrived, line;  // line: of the first arrival
    Gathered gathered;
    std::vector<u32> waiting;  // threads
};

struct MBarrier {
    u32 address, slot, count;
    i64 pending, bytes;  // arrivals and bytes that the present phase lacks
    u32 phase;           // parity of the present phase
    u32 init_stamp;
    bool fenced;         // the async proxy may use it
    u32 loads, loads_done, loads_seen, load_line;  // TMA loads: issued, complete, waited for; line of the last
    Gathered gathered;
    Clock* completed;    // what completed phases gathered
    Acquired acquired;
};

struct PendingTile {
    tensor_map map;
    u32 address, mbarrier, time, line;  // mbarrier: its address, for loads
    i32 at[5];
};

// The TMA stores of one thread.
struct StoreQueue {
    u32 issued, done, line;   // times of the newest and of the newest waited for; line of the newest
    std::vector<u32> groups;  // of each committed group in flight, the time of its last store
    std::vector<PendingTile> pending;
};

// Accumulators of a warp that wgmma is writing: their values; the registers hold a pattern meanwhile.
struct Accumulators {
    f32* registers[warp_size];
    std::vector<f32> values;  // 16 rows
    u32 columns, last;        // last: time of the newest wgmma on them
    u32 line;
};

struct PendingProduct {
    f32* accumulators;  // of lane 0: the name of the set
    u64 a, b;           // descriptors
    std::vector<f32> rows;  // A from registers, 16 x 16; empty: from shared memory
    u32 columns, time, line;
    u8 operand;
    bool a_transposed, b_transposed, accumulate;
};

// The wgmma operations of one warp.
struct ProductQueue {
    u32 issued, done, line;
    bool fenced;  // since the last wait
    std::vector<u32> groups;
    std::vector<Accumulators> open;
    std::vector<PendingProduct> pending;
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
    NamedBarrier barrier[16];
    std::vector<MBarrier> mbarriers;
    std::vector<PendingTile> loads;       // of TMA, not yet executed
    std::vector<StoreQueue> stores;       // by thread
    std::vector<ProductQueue> products;   // by warp
    f32 operand_b[16 * 256];              // of the wgmma being executed
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
void suspend(Worker& worker, Wait wait, u32 line);
void make_ready(Scheduler& scheduler, Fiber& fiber);
void reset_barriers(Worker& worker);
bool progress_tiles(Worker& worker);         // executes one TMA load; false: there is none
void check_finished(Worker& worker);         // the running thread may exit
void check_loads_seen(Worker& worker);       // the block may end
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
