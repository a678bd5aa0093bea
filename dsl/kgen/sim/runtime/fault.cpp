// How a launch ends early: recording a fault, and what a deadlock report says.
#include <string>

#include "launch.hpp"

namespace kg {

const char* name_of(Op op) {
    static const char* const names[op_count] = {"sync_warp",   "shfl_xor",   "shfl_down",    "shfl_idx",    "ballot",    "any_sync",
                                                "all_sync",    "ldmatrix",   "stmatrix",     "mma_m16n8k16", "mma_m16n8k8", "elect_one",
                                                "setmaxnreg",  "wgmma_fence", "wgmma",       "wgmma_commit", "wgmma_wait", "bar_sync",
                                                "bar_arrive",  "tma_load",   "tma_store"};
    return names[static_cast<u32>(op)];
}

void record(Launch& launch, Fault fault) {
    std::lock_guard<std::mutex> guard(launch.mutex);
    launch.faults.push_back(std::move(fault));
    launch.stop = true;
}

// The abandoned fibers need no unwinding: kernel text owns nothing.
void fail(const char* kind, u32 line, const std::string& message, u64 code_offset) {
    Worker& w = *worker;
    record(*w.launch, Fault{kind, message, w.block, w.self->index, line, code_offset});
    switch_to(w.self->context, w.scheduler->main);
    __builtin_unreachable();
}

namespace {

std::string named_text(const Scheduler& s, const Fiber& fiber) {
    const NamedBarrier& barrier = s.barrier[fiber.wait_on];
    return "wait in bar_sync for barrier " + std::to_string(fiber.wait_on) + " (" + std::to_string(barrier.arrived) + " of " +
           std::to_string(barrier.count) + " have arrived) at line " + std::to_string(fiber.line);
}

std::string mbarrier_text(const Scheduler& s, const Fiber& fiber) {
    std::string text = "wait in mbar_wait for the end of parity " + std::to_string(fiber.parity) + " of the mbarrier at shared address " +
                       std::to_string(fiber.wait_on);
    for (const MBarrier& m : s.mbarriers) {
        if (m.address != fiber.wait_on) continue;
        text += " (in its phase of parity " + std::to_string(m.phase) + ", " + std::to_string(m.pending) + " of " + std::to_string(m.count) +
                " arrivals and " + std::to_string(m.bytes) + " bytes are missing)";
    }
    return text + " at line " + std::to_string(fiber.line);
}

std::string wait_text(const Scheduler& s, const Fiber& fiber) {
    switch (fiber.wait) {
        case Wait::exited: return "have exited";
        case Wait::block_barrier: return "wait in sync_threads at line " + std::to_string(fiber.line);
        case Wait::warp_collective:
            return std::string("wait in ") + name_of(fiber.warp->op) + " at line " + std::to_string(fiber.line);
        case Wait::named_barrier: return named_text(s, fiber);
        case Wait::mbarrier: return mbarrier_text(s, fiber);
        case Wait::running: return "run";
    }
    return "";
}

}  // namespace

std::string deadlock_text(const Scheduler& scheduler, u32 threads) {
    std::string text = "no thread can continue:";
    for (u32 first = 0, end = 0; first < threads; first = end) {
        std::string state = wait_text(scheduler, scheduler.fibers[first]);
        for (end = first + 1; end < threads && wait_text(scheduler, scheduler.fibers[end]) == state;) ++end;
        text += (first ? ", threads " : " threads ") + std::to_string(first);
        if (end - first > 1) text += "-" + std::to_string(end - 1);
        text += " " + state;
    }
    return text + " (" + std::to_string(scheduler.at_barrier) + " of " + std::to_string(threads) + " threads have arrived at the barrier)";
}

}  // namespace kg
