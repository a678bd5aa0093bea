#include "clock.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace kg {

namespace {

// A thread's time stops at the largest value: later races may then be missed, but none is invented.
void advance(Fiber& fiber) {
    if (time_of(fiber.stamp) < time_mask) ++fiber.stamp;
}

void point_to(ClockPool& pool, Fiber& fiber, Clock* clock) {
    if (fiber.view) pool.drop(fiber.view);
    fiber.view = clock;
    ++clock->references;
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

void start_clocks(ClockPool& pool, Fiber* fibers, u32 threads) {
    Clock* clock = nullptr;
    for (u32 i = 0; i < threads; ++i) {
        fibers[i].stamp = first_stamp(i);
        if (fibers[i].view) pool.drop(fibers[i].view);
        fibers[i].view = nullptr;
    }
    clock = pool.take();
    for (u32 i = 0; i < threads; ++i) point_to(pool, fibers[i], clock);
}

void synchronise_block(ClockPool& pool, Fiber* fibers, u32 threads) {
    Clock* joint = pool.take();
    for (u32 i = 0; i < threads; ++i) joint->of[i + 1] = time_of(fibers[i].stamp);
    for (u32 i = 0; i < threads; ++i) {
        point_to(pool, fibers[i], joint);
        advance(fibers[i]);
    }
}

void synchronise_warp(ClockPool& pool, Fiber* lanes, u32 threads) {
    Clock* joint = pool.take();
    const Clock* seen = nullptr;
    for (u32 i = 0; i < warp_size; ++i) {
        if (lanes[i].view == seen) continue;
        seen = lanes[i].view;
        for (u32 agent = 1; agent <= threads; ++agent) joint->of[agent] = std::max(joint->of[agent], seen->of[agent]);
    }
    for (u32 i = 0; i < warp_size; ++i) {
        u32& mine = joint->of[agent_of(lanes[i].stamp)];
        mine = std::max(mine, time_of(lanes[i].stamp));
    }
    for (u32 i = 0; i < warp_size; ++i) {
        point_to(pool, lanes[i], joint);
        advance(lanes[i]);
    }
}

}  // namespace kg
