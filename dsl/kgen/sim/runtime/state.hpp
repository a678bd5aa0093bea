// What the simulated machine knows. Kernel text reaches it through one thread-local pointer, kg::worker.
//
//   Launch      one kernel launch: the tensors, the options, the first fault; shared by all workers
//   Worker      one OS thread that executes blocks one after another
//   Fiber       one thread of the block, with its own stack
//   Warp        32 fibers and their current collective
#pragma once

#include "fiber.hpp"
#include "types.hpp"

// What TMA needs to know of a tensor. Innermost dimension first; sizes and boxes in elements, strides in bytes.
struct alignas(64) tensor_map {
    u64 base, strides[5];
    u32 rank, item, swizzle;  // item: bytes per element; swizzle: span in bytes, or 0
    u32 sizes[5], box[5];
};

namespace kg {

constexpr u32 shared_base = 1024;  // shared addresses start here, as on Hopper (1 KB is reserved)
constexpr u32 warp_size = 32;
constexpr u32 max_threads = 1024;

struct Index3 {
    u32 x, y = 0, z = 0;
};

// Who last touched an element of an output, by block. Other values are block + 1.
constexpr u32 nobody = 0;
constexpr u32 by_atomics = 0xffffffff;
constexpr u32 several_blocks = 0xfffffffe;
constexpr u32 not_in_view = 0xfffffffd;

enum class Role : u32 { in, out, inout };

// Ways to access memory. copy: cp.async, whose global side is a load.
enum class Access : u8 { load, store, atomic, copy, shared_load, shared_store, ldmatrix, stmatrix };
constexpr u32 access_kinds = static_cast<u32>(Access::stmatrix) + 1;

// A registered tensor: the bytes from its first to its last element.
struct Allocation {
    u64 base, bytes;
    u32 item;     // bytes per element
    Role role;
    u32* writer;  // per element, for out and inout; else null. Shared by workers: read and written atomically
    u32* reader;  // per element, for inout; else null
    u8* loaded;   // per element: 1 once loaded; null if not counted
    u8* stored;   // per element: 1 once stored or updated; null if not counted
};

struct Traffic {
    u64 loaded = 0, stored = 0, atomics = 0;          // bytes requested
    u64 load_sectors = 0, store_sectors = 0;          // distinct 32-byte pieces per warp instruction
};

// Of one way of access at one line: warp instructions, the sectors or wavefronts they took, and the least possible.
struct LineCount {
    u64 instructions, pieces, ideal;
};

// Vector clock of every agent, shared between the threads that know the same. Copy on write, counted references.
struct Clock {
    u32 references;
    u32 of[];  // by agent, 1-based
};

// Last accesses of one granule of shared memory. A stamp is agent << 20 | time; 0 is none.
struct Cell {
    u32 writer;
    u32 reader[3];
    u32 writer_line;
    u32 reader_line[3];
};

// Kinds of asynchronous operation whose completion a thread waits for by counting groups.
enum class Async : u8 { copy, store, product };  // cp.async, TMA store, wgmma
constexpr u32 async_kinds = 3;

enum class Wait : u8 { running, block_barrier, warp_collective, named_barrier, mbarrier, exited };
enum class Op : u8 {
    sync_warp, shfl_xor, shfl_down, shfl_idx, ballot, any_sync, all_sync,
    ldmatrix, stmatrix, mma_m16n8k16, mma_m16n8k8, elect_one, setmaxnreg,
    wgmma_fence, wgmma, wgmma_commit, wgmma_wait,
    bar_sync, bar_arrive, tma_load, tma_store,  // by thread: no collectives
};
constexpr u32 op_count = static_cast<u32>(Op::tma_store) + 1;

struct Warp {
    u64 deposit[2][warp_size];  // lanes may be one collective apart, so two sets
    u32 arrived, generation;
    u32 line;
    u32 stores;  // TMA stores issued so far: the time of the newest
    Op op;
};

struct Fiber {
    Context context;
    u32 index, lane;
    u32 stamp;    // my agent and my present time, as written into cells
    u32 known[async_kinds];  // stamps: how far I know my own asynchronous operations to be done
    Clock* view;  // what I know of the others
    u32 fenced, fenced_copies;  // times up to which my stores and copies are visible to the async proxy
    Clock* fence_view;          // what I knew of the others at my last fence_proxy_async, or null
    Warp* warp;
    Wait wait;
    u32 line;     // of the wait
    u32 wait_on;  // barrier number or mbarrier address
    u32 parity;   // of the phase waited for
};

struct Launch;
struct Scheduler;
struct TrafficLog;

struct Worker {
    Fiber* self;
    u64 arena;       // tensors lie in slots of 1 << slot_shift bytes from here
    u32 slot_shift, tensors;
    const Allocation* allocations;
    Traffic* traffic;
    TrafficLog* log;  // null: accesses are not counted
    u64 special;      // calls of special functions
    unsigned char* shared;
    u32 shared_bytes;
    u32 granule_shift;  // log2 of the bytes per cell
    Cell* cells;        // null: races are not checked
    u32 block, threads, grid;
    volatile bool in_block;
    Scheduler* scheduler;
    Launch* launch;
};

extern thread_local Worker* worker __attribute__((tls_model("initial-exec")));

// Notes an access of the running thread at a global or shared address; null: the thread is predicated off.
void log_access(const void* p, Access access, u32 line, u32 bytes);

KG_DEVICE Index3 thread_index() { return {worker->self->index}; }
KG_DEVICE Index3 block_index() { return {worker->block}; }
KG_DEVICE Index3 block_dim() { return {worker->threads, 1, 1}; }
KG_DEVICE Index3 grid_dim() { return {worker->grid, 1, 1}; }

}  // namespace kg
