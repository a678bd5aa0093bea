// Runs the threads of a block as fibers of one OS thread: ready queue, block barrier, warp collectives, exit.
#include <algorithm>
#include <cstring>

#include "collective.hpp"
#include "launch.hpp"
#include "traffic.hpp"

namespace kg {

thread_local Worker* worker __attribute__((tls_model("initial-exec"))) = nullptr;

u64 next_random(u64& state) {  // xorshift64
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

void make_ready(Scheduler& s, Fiber& fiber) {
    fiber.wait = Wait::running;
    s.ready[(s.ready_head + s.ready_count++) % max_threads] = static_cast<u16>(fiber.index);
}

namespace {

Fiber& take_ready(Scheduler& s) {
    if (s.random) {
        u32 pick = (s.ready_head + next_random(s.random) % s.ready_count) % max_threads;
        std::swap(s.ready[s.ready_head], s.ready[pick]);
    }
    Fiber& fiber = s.fibers[s.ready[s.ready_head]];
    s.ready_head = (s.ready_head + 1) % max_threads;
    --s.ready_count;
    return fiber;
}

[[noreturn, gnu::cold]] void report_deadlock(Worker& w) {
    Scheduler& s = *w.scheduler;
    u32 line = 0;
    for (u32 i = 0; i < w.threads && line == 0; ++i) {
        if (s.fibers[i].wait != Wait::exited) line = s.fibers[i].line;
    }
    fail("deadlock", line, deadlock_text(s, w.threads));
}

// Gives the processor to the next thread that can run; returns when this one is ready again.
void yield(Worker& w) {
    Scheduler& s = *w.scheduler;
    if (w.launch->expired.load(std::memory_order_relaxed)) [[unlikely]] {
        fail("timeout", w.self->line, "the time limit has passed");
    }
    if (s.random && next_random(s.random) % 16 == 0) progress_tiles(w);
    while (s.ready_count == 0 && progress_tiles(w)) {}
    if (s.ready_count == 0) [[unlikely]] report_deadlock(w);
    Fiber& old = *w.self;
    Fiber& next = take_ready(s);
    if (&next == &old) return;
    w.self = &next;
    switch_to(old.context, next.context);
}

void finish_thread(Worker& w) {
    Scheduler& s = *w.scheduler;
    check_finished(w);
    Fiber& self = *w.self;
    self.wait = Wait::exited;
    ++s.exited;
    if (w.log) {
        Fiber* lanes = &s.fibers[self.index - self.lane];
        if (std::all_of(lanes, lanes + warp_size, [](const Fiber& f) { return f.wait == Wait::exited; })) {
            count_accesses(w, lanes->index);
        }
    }
    if (s.exited == w.threads) switch_to(self.context, s.main);
    yield(w);
}

void thread_main() {
    worker->launch->entry(worker->launch->arguments);
    finish_thread(*worker);
}

void prepare_threads(Worker& w) {
    Scheduler& s = *w.scheduler;
    s.ready_head = s.ready_count = s.at_barrier = s.exited = 0;
    std::memset(s.warps, 0, sizeof(s.warps));
    s.copies.assign(w.threads, CopyQueue{});
    s.stores.assign(w.threads, StoreQueue{});
    s.products.assign(w.threads / warp_size, ProductQueue{});
    s.loads.clear();
    for (u32 i = 0; i < w.threads; ++i) {
        Fiber& fiber = s.fibers[i];
        fiber.index = i;
        fiber.lane = i % warp_size;
        fiber.warp = &s.warps[i / warp_size];
        fiber.line = 0;
        s.stacks.poison(i);
        prepare(fiber.context, s.stacks.at(i), Stacks::bytes_each, thread_main);
        make_ready(s, fiber);
    }
}

void prepare_shared(Worker& w) {
    Scheduler& s = *w.scheduler;
    std::memset(w.shared, 0xff, w.shared_bytes);
    reset_barriers(w);
    if (!w.cells) return;
    std::size_t granules = (w.shared_bytes + (1u << w.granule_shift) - 1) >> w.granule_shift;
    std::memset(w.cells, 0, granules * sizeof(Cell));
    start_clocks(s.clocks, s.fibers, w.threads);
}

bool same_call(const Warp& warp, Op op, u32 line) { return warp.op == op && warp.line == line; }

[[noreturn, gnu::cold]] void diverged(const Warp& warp, Op op, u32 line) {
    fail("diverged", line,
         std::string("a lane calls ") + name_of(op) + " at line " + std::to_string(line) + " while other lanes of its warp wait in " +
             name_of(warp.op) + " at line " + std::to_string(warp.line));
}

}  // namespace

void run_block(Worker& w, u32 block) {
    Scheduler& s = *w.scheduler;
    w.block = block;
    ++s.blocks;
    std::fill(s.tile_owner.begin(), s.tile_owner.end(), 0);
    prepare_threads(w);
    prepare_shared(w);
    w.self = &take_ready(s);
    w.in_block = true;
    switch_to(s.main, w.self->context);
    w.in_block = false;
    if (!w.launch->stop) check_loads_seen(w);
}

void suspend(Worker& w, Wait wait, u32 line) {
    w.self->wait = wait;
    w.self->line = line;
    yield(w);
}

void pass_turn(Worker& w) {
    make_ready(*w.scheduler, *w.self);
    yield(w);
}

void wait_for_block(u32 line) {
    Worker& w = *worker;
    Scheduler& s = *w.scheduler;
    if (s.at_barrier == 0) s.barrier_line = line;
    if (s.barrier_line != line) [[unlikely]] {
        fail("diverged", line,
             "a thread calls sync_threads at line " + std::to_string(line) + " while other threads of its block wait in sync_threads at line " +
                 std::to_string(s.barrier_line));
    }
    if (++s.at_barrier < w.threads) return suspend(w, Wait::block_barrier, line);
    s.at_barrier = 0;
    ++s.barriers;
    if (w.cells) synchronise_block(s.clocks, s.fibers, w.threads);
    for (u32 i = 0; i < w.threads; ++i) {
        if (w.log && i % warp_size == 0) count_accesses(w, i);
        if (&s.fibers[i] != w.self) make_ready(s, s.fibers[i]);
    }
}

const u64* meet(Op op, u64 bits, u32 line, Act act) {
    Worker& w = *worker;
    Scheduler& s = *w.scheduler;
    Fiber& self = *w.self;
    Warp& warp = *self.warp;
    u64* deposits = warp.deposit[warp.generation & 1];
    if (warp.arrived == 0) {
        warp.op = op;
        warp.line = line;
    }
    if (!same_call(warp, op, line)) [[unlikely]] diverged(warp, op, line);
    deposits[self.lane] = bits;
    if (++warp.arrived < warp_size) {
        suspend(w, Wait::warp_collective, line);
        return deposits;
    }
    warp.arrived = 0;
    ++warp.generation;
    ++s.collectives;
    ++s.instructions[static_cast<u32>(op)];
    Fiber* lanes = &self - self.lane;
    if (op == Op::sync_warp && w.cells) synchronise_warp(s.clocks, lanes, w.threads);
    if (w.log) count_accesses(w, lanes->index);
    if (act) act(w, deposits, line);
    for (u32 lane = 0; lane < warp_size; ++lane) {
        if (lane != self.lane) make_ready(s, lanes[lane]);
    }
    return deposits;
}

void note_tile(i32 loop_id, i64 start, bool masked) {
    Worker& w = *worker;
    std::vector<u32>& owner = w.scheduler->tile_owner;
    if (loop_id < 0) return;
    if (owner.size() <= static_cast<std::size_t>(loop_id)) owner.resize(static_cast<std::size_t>(loop_id) + 1, 0);
    u32& counted = owner[static_cast<std::size_t>(loop_id)];
    if (counted == 0) counted = w.self->index + 1;
    if (counted == w.self->index + 1) w.scheduler->tiles.push_back({w.block, loop_id, start, masked});
}

}  // namespace kg
