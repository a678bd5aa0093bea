// Barriers and warp collectives. A thread waits by switching to the next fiber that can run.
#pragma once

#include "state.hpp"

namespace kg {

void wait_for_block(u32 line);

// Deposits `bits`, waits for the other lanes of the warp to call the same operation at the same line, and returns
// what all 32 deposited. The last lane first executes `act` for all.
using Act = void (*)(Worker& w, const u64* deposits, u32 line);
const u64* meet(Op op, u64 bits, u32 line, Act act = nullptr);

template <class T>
KG_DEVICE u64 pack(T value) {
    static_assert(sizeof(T) <= 8);
    u64 bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    return bits;
}

template <class T>
KG_DEVICE T unpack(u64 bits) {
    T value;
    __builtin_memcpy(&value, &bits, sizeof(T));
    return value;
}

inline u32 vote(Op op, bool pred, u32 line) {
    const u64* all = meet(op, pred, line);
    u32 mask = 0;
    for (u32 lane = 0; lane < warp_size; ++lane) mask |= static_cast<u32>(all[lane]) << lane;
    return mask;
}

void note_tile(i32 loop_id, i64 start, bool masked);

}  // namespace kg

KG_DEVICE void sync_threads(u32 line = __builtin_LINE()) { kg::wait_for_block(line); }
KG_DEVICE void sync_warp(u32 line = __builtin_LINE()) { kg::meet(kg::Op::sync_warp, 0, line); }

template <class T>
KG_DEVICE T shfl_xor(T v, int mask, u32 line = __builtin_LINE()) {
    const u64* all = kg::meet(kg::Op::shfl_xor, kg::pack(v), line);
    u32 source = kg::worker->self->lane ^ static_cast<u32>(mask);
    return source < kg::warp_size ? kg::unpack<T>(all[source]) : v;
}

template <class T>
KG_DEVICE T shfl_down(T v, int n, u32 line = __builtin_LINE()) {
    const u64* all = kg::meet(kg::Op::shfl_down, kg::pack(v), line);
    u32 source = kg::worker->self->lane + static_cast<u32>(n);
    return source < kg::warp_size ? kg::unpack<T>(all[source]) : v;
}

template <class T>
KG_DEVICE T shfl_idx(T v, int lane, u32 line = __builtin_LINE()) {
    const u64* all = kg::meet(kg::Op::shfl_idx, kg::pack(v), line);
    return kg::unpack<T>(all[static_cast<u32>(lane) % kg::warp_size]);
}

KG_DEVICE u32 ballot(bool pred, u32 line = __builtin_LINE()) { return kg::vote(kg::Op::ballot, pred, line); }
KG_DEVICE bool any_sync(bool pred, u32 line = __builtin_LINE()) { return kg::vote(kg::Op::any_sync, pred, line) != 0; }
KG_DEVICE bool all_sync(bool pred, u32 line = __builtin_LINE()) { return kg::vote(kg::Op::all_sync, pred, line) == 0xffffffffu; }
