#include "barrier.hpp"

#include "mbarrier.hpp"
#include "shadow.hpp"
#include "shared.hpp"

namespace kg {

namespace {

constexpr u32 mbarrier_bytes = 8;
constexpr i64 most_bytes = (1 << 20) - 1;  // that a phase can wait for

void check_named(const Worker& w, u32 id, u32 count, u32 line) {
    if (id < 1 || id > 15) fail("barrier", line, "there is no named barrier " + std::to_string(id) + ": 1 to 15 exist, and 0 is sync_threads");
    if (count == 0 || count % warp_size != 0 || count > w.threads) {
        fail("barrier", line, "a named barrier takes whole warps of the block's " + std::to_string(w.threads) + " threads, not " + std::to_string(count));
    }
    const NamedBarrier& barrier = w.scheduler->barrier[id];
    if (barrier.arrived && barrier.count != count) {
        fail("barrier", line,
             "barrier " + std::to_string(id) + " is given " + std::to_string(count) + " threads, but " + std::to_string(barrier.count) +
                 " by those who arrived at line " + std::to_string(barrier.line));
    }
}

void open_barrier(Worker& w, NamedBarrier& barrier) {
    Scheduler& s = *w.scheduler;
    std::vector<u32> waiting = std::move(barrier.waiting);
    for (u32 thread : waiting) {
        Fiber& fiber = s.fibers[thread];
        if (w.cells) hold(s.clocks, fiber.view, barrier.gathered.clock);
        if (&fiber != w.self) make_ready(s, fiber);
    }
    forget(s.clocks, barrier.gathered);
    barrier = {};
}

std::string where(u32 address) { return "the mbarrier at shared address " + std::to_string(address); }

void claim_bytes(Worker& w, u32 address, u32 line) {
    if (!w.cells) return;
    Agents agents = {w.threads};
    note_write(w, thread_actor(*w.self, make_stamp(agents.nobody(), 1), "mbar_init"), address - shared_base, mbarrier_bytes, line);
}

// A phase ends when all arrivals and bytes are there.
void end_phase(Worker& w, MBarrier& m) {
    if (m.pending != 0 || m.bytes != 0) return;
    Scheduler& s = *w.scheduler;
    m.phase ^= 1;
    m.pending = m.count;
    if (w.cells) {
        hold(s.clocks, m.completed, joined(s.clocks, m.completed, m.gathered.clock, w.threads));
        forget(s.clocks, m.gathered);
        forget(s.clocks, m.acquired);
    }
    for (u32 i = 0; i < w.threads; ++i) {
        Fiber& fiber = s.fibers[i];
        if (fiber.wait == Wait::mbarrier && fiber.wait_on == m.address && fiber.parity != m.phase) make_ready(s, fiber);
    }
}

void learn(Worker& w, MBarrier& m) {
    m.loads_seen = std::max(m.loads_seen, m.loads_done);
    if (w.cells) acquire(w.scheduler->clocks, m.acquired, *w.self, m.completed, w.threads);
}

void add_bytes(MBarrier& m, i64 bytes, u32 line) {
    m.bytes += bytes;
    if (m.bytes > most_bytes || m.bytes < -most_bytes) [[unlikely]] {
        fail("barrier", line, where(m.address) + " cannot count " + std::to_string(m.bytes) + " bytes: 2^20 - 1 is the most");
    }
}

}  // namespace

void reset_barriers(Worker& w) {
    Scheduler& s = *w.scheduler;
    for (NamedBarrier& barrier : s.barrier) {
        forget(s.clocks, barrier.gathered);
        barrier = {};
    }
    for (MBarrier& m : s.mbarriers) {
        forget(s.clocks, m.gathered);
        forget(s.clocks, m.acquired);
        hold(s.clocks, m.completed, nullptr);
    }
    s.mbarriers.clear();
}

void bar_meet(u32 id, u32 count, bool wait, u32 line) {
    Worker& w = *worker;
    check_named(w, id, count, line);
    NamedBarrier& barrier = w.scheduler->barrier[id];
    if (w.self->lane == 0) ++w.scheduler->instructions[static_cast<u32>(wait ? Op::bar_sync : Op::bar_arrive)];
    if (barrier.arrived == 0) {
        barrier.count = count;
        barrier.line = line;
    }
    if (w.cells) release(w.scheduler->clocks, barrier.gathered, *w.self, w.threads);
    if (wait) barrier.waiting.push_back(w.self->index);
    if (++barrier.arrived == count) return open_barrier(w, barrier);
    if (!wait) return;
    w.self->wait_on = id;
    suspend(w, Wait::named_barrier, line);
}

MBarrier& mbarrier_at(Worker& w, u32 address, const char* user, u32 line) {
    for (MBarrier& m : w.scheduler->mbarriers) {
        if (m.address != address) continue;
        if (w.cells && !before(*w.self, m.init_stamp)) [[unlikely]] {
            fail("race", line, std::string(user) + " of " + where(address) + " is not ordered after its mbar_init by thread " +
                                   std::to_string(agent_of(m.init_stamp) - 1));
        }
        return m;
    }
    fail("barrier", line, std::string(user) + " at shared address " + std::to_string(address) + ", where no mbarrier is initialised");
}

void mbar_start(u32 address, u32 count, u32 line) {
    Worker& w = *worker;
    check_shared<u64>(w, address, true, line);
    std::vector<MBarrier>& all = w.scheduler->mbarriers;
    for (const MBarrier& m : all) {
        if (m.address == address) fail("barrier", line, where(address) + " is initialised twice");
    }
    if (count == 0 || count > most_bytes) fail("barrier", line, "an mbarrier counts 1 to 2^20 - 1 arrivals, not " + std::to_string(count));
    if (all.size() == max_mbarriers) fail("barrier", line, "the simulator has " + std::to_string(max_mbarriers) + " mbarriers per block");
    claim_bytes(w, address, line);
    MBarrier m = {};
    m.address = address;
    m.slot = static_cast<u32>(all.size());
    m.count = count;
    m.pending = count;
    m.init_stamp = w.self->stamp;
    all.push_back(m);
}

void mbar_arrival(u32 address, u32 bytes, u32 line) {
    Worker& w = *worker;
    MBarrier& m = mbarrier_at(w, address, bytes ? "mbar_arrive_tx" : "mbar_arrive", line);
    if (m.pending == 0) {
        fail("barrier", line, where(address) + " gets more than the " + std::to_string(m.count) + " arrivals of a phase (" +
                                  std::to_string(m.bytes) + " bytes are still expected)");
    }
    add_bytes(m, bytes, line);
    if (w.cells) release(w.scheduler->clocks, m.gathered, *w.self, w.threads);
    --m.pending;
    end_phase(w, m);
}

void mbar_await(u32 address, u32 parity, u32 line) {
    Worker& w = *worker;
    u32 slot = mbarrier_at(w, address, "mbar_wait", line).slot;
    if (parity > 1) fail("barrier", line, "the parity of a phase is 0 or 1, not " + std::to_string(parity));
    if (w.scheduler->mbarriers[slot].phase == parity) {
        w.self->wait_on = address;
        w.self->parity = parity;
        suspend(w, Wait::mbarrier, line);
    }
    learn(w, w.scheduler->mbarriers[slot]);
}

void complete_bytes(Worker& w, u32 address, u32 bytes, u32 time, u32 line) {
    for (MBarrier& m : w.scheduler->mbarriers) {
        if (m.address != address) continue;
        add_bytes(m, -static_cast<i64>(bytes), line);
        m.loads_done = std::max(m.loads_done, time);
        if (w.cells) {
            if (!m.gathered.clock) hold(w.scheduler->clocks, m.gathered.clock, w.scheduler->clocks.take());
            raise(*m.gathered.clock, make_stamp(Agents{w.threads}.mbarrier(m.slot), time));
        }
        return end_phase(w, m);
    }
}

void check_loads_seen(Worker& w) {
    for (const MBarrier& m : w.scheduler->mbarriers) {
        if (m.loads_seen >= m.loads) continue;
        record(*w.launch, Fault{"in_flight", "the block ends without having waited for a TMA load into " + where(m.address), w.block, -1,
                                m.load_line, 0});
        return;
    }
}

void fence_mbarriers() {
    Worker& w = *worker;
    for (MBarrier& m : w.scheduler->mbarriers) {
        if (agent_of(m.init_stamp) == agent_of(first_stamp(w.self->index))) m.fenced = true;
    }
}

void fence_async_proxy() {
    Worker& w = *worker;
    fence_mbarriers();
    if (!w.cells) return;
    Fiber& self = *w.self;
    self.fenced = time_of(self.stamp);
    self.fenced_copies = time_of(self.known[static_cast<u32>(Async::copy)]);
    hold(w.scheduler->clocks, self.fence_view, self.view);
    advance(self);
}

}  // namespace kg
