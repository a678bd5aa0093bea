#include "clock.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

namespace kg {

namespace {

// What the thread itself did, and what it knows to be done of its own asynchronous operations.
void add_own(Clock& clock, const Fiber& fiber) {
    raise(clock, fiber.stamp);
    for (u32 known : fiber.known) raise(clock, known);
}

void add_view(Clock& clock, const Clock& view, u32 begin, u32 end) {
    for (u32 agent = begin; agent < end; ++agent) clock.of[agent] = std::max(clock.of[agent], view.of[agent]);
}

// The views of `count` fibers, from agent `begin` on. Neighbours mostly share theirs.
void add_views(Clock& clock, const Fiber* fibers, u32 count, u32 begin, u32 end) {
    const Clock* seen = nullptr;
    for (u32 i = 0; i < count; ++i) {
        if (fibers[i].view == seen) continue;
        seen = fibers[i].view;
        add_view(clock, *seen, begin, end);
    }
}

void share(ClockPool& pool, Clock* joint, Fiber* fibers, u32 count) {
    for (u32 i = 0; i < count; ++i) add_own(*joint, fibers[i]);
    for (u32 i = 0; i < count; ++i) {
        hold(pool, fibers[i].view, joint);
        advance(fibers[i]);
    }
}

}  // namespace

ClockPool::~ClockPool() { resize(0); }

void ClockPool::resize(u32 agents) {
    if (agents == agents_) return;
    for (Clock* clock : all_) std::free(clock);
    all_.clear();
    free_.clear();
    agents_ = agents;
}

Clock* ClockPool::take() {
    std::size_t bytes = sizeof(Clock) + (agents_ + 1) * sizeof(u32);
    if (free_.empty()) {
        auto* clock = static_cast<Clock*>(std::malloc(bytes));
        if (!clock) throw std::bad_alloc();
        all_.push_back(clock);
        free_.push_back(clock);
    }
    Clock* clock = free_.back();
    free_.pop_back();
    std::memset(clock, 0, bytes);
    return clock;
}

void ClockPool::drop(Clock* clock) {
    if (--clock->references == 0) free_.push_back(clock);
}

void hold(ClockPool& pool, Clock*& reference, Clock* clock) {
    if (clock) ++clock->references;
    if (reference) pool.drop(reference);
    reference = clock;
}

Clock* joined(ClockPool& pool, const Clock* a, const Clock* b, u32 threads) {
    Clock* joint = pool.take();
    u32 end = Agents{threads}.nobody();
    if (a) add_view(*joint, *a, 1, end);
    if (b) add_view(*joint, *b, 1, end);
    return joint;
}

void release(ClockPool& pool, Gathered& into, Fiber& fiber, u32 threads) {
    if (!into.clock) hold(pool, into.clock, pool.take());
    if (into.last != fiber.view) {
        add_view(*into.clock, *fiber.view, 1, Agents{threads}.nobody());
        hold(pool, into.last, fiber.view);
    }
    add_own(*into.clock, fiber);
    advance(fiber);
}

void acquire(ClockPool& pool, Acquired& memo, Fiber& fiber, const Clock* clock, u32 threads) {
    if (!clock || fiber.view == memo.result) return;
    if (fiber.view != memo.from) {
        hold(pool, memo.result, joined(pool, fiber.view, clock, threads));
        hold(pool, memo.from, fiber.view);
    }
    hold(pool, fiber.view, memo.result);
}

void forget(ClockPool& pool, Gathered& gathered) {
    hold(pool, gathered.clock, nullptr);
    hold(pool, gathered.last, nullptr);
}

void forget(ClockPool& pool, Acquired& memo) {
    hold(pool, memo.from, nullptr);
    hold(pool, memo.result, nullptr);
}

void start_clocks(ClockPool& pool, Fiber* fibers, u32 threads) {
    Agents agents = {threads};
    Clock* clock = pool.take();
    for (u32 i = 0; i < threads; ++i) {
        hold(pool, fibers[i].view, clock);
        hold(pool, fibers[i].fence_view, nullptr);
        fibers[i].stamp = first_stamp(i);
        fibers[i].fenced = fibers[i].fenced_copies = 0;
        for (u32 kind = 0; kind < async_kinds; ++kind) {
            fibers[i].known[kind] = make_stamp(agents.async(static_cast<Async>(kind), i), 0);
        }
    }
}

// Of the threads and of their asynchronous operations nobody knows more than they do themselves.
void synchronise_block(ClockPool& pool, Fiber* fibers, u32 threads) {
    Agents agents = {threads};
    Clock* joint = pool.take();
    add_views(*joint, fibers, threads, agents.mbarrier(0), agents.nobody());
    share(pool, joint, fibers, threads);
}

void synchronise_warp(ClockPool& pool, Fiber* lanes, u32 threads) {
    Clock* joint = pool.take();
    add_views(*joint, lanes, warp_size, 1, Agents{threads}.nobody());
    share(pool, joint, lanes, warp_size);
}

}  // namespace kg
