// Named barriers, mbarriers, fences between the generic and the async proxy, and what only Hopper's warps do.
#pragma once

#include "collective.hpp"

namespace kg {

// In barrier.cpp.
void bar_meet(u32 id, u32 count, bool wait, u32 line);
void mbar_start(u32 address, u32 count, u32 line);
void mbar_arrival(u32 address, u32 bytes, u32 line);
void mbar_await(u32 address, u32 parity, u32 line);
void fence_mbarriers();
void fence_async_proxy();

}  // namespace kg

KG_DEVICE void bar_sync(u32 id, u32 count, u32 line = __builtin_LINE()) { kg::bar_meet(id, count, true, line); }
KG_DEVICE void bar_arrive(u32 id, u32 count, u32 line = __builtin_LINE()) { kg::bar_meet(id, count, false, line); }

KG_DEVICE void mbar_init(u32 a, u32 count, u32 line = __builtin_LINE()) { kg::mbar_start(a, count, line); }
KG_DEVICE void mbar_arrive(u32 a, u32 line = __builtin_LINE()) { kg::mbar_arrival(a, 0, line); }
KG_DEVICE void mbar_arrive_tx(u32 a, u32 bytes, u32 line = __builtin_LINE()) { kg::mbar_arrival(a, bytes, line); }
KG_DEVICE void mbar_wait(u32 a, u32 parity, u32 line = __builtin_LINE()) { kg::mbar_await(a, parity, line); }
KG_DEVICE void fence_mbar_init() { kg::fence_mbarriers(); }
KG_DEVICE void fence_proxy_async() { kg::fence_async_proxy(); }

KG_DEVICE bool elect_one(u32 line = __builtin_LINE()) {
    kg::meet(kg::Op::elect_one, 0, line);
    return kg::worker->self->lane == 0;
}

template <int REGISTERS>
KG_DEVICE void setmaxnreg_inc(u32 line = __builtin_LINE()) {
    static_assert(REGISTERS % 8 == 0 && REGISTERS >= 24 && REGISTERS <= 256);
    kg::meet(kg::Op::setmaxnreg, REGISTERS, line);
}

template <int REGISTERS>
KG_DEVICE void setmaxnreg_dec(u32 line = __builtin_LINE()) {
    setmaxnreg_inc<REGISTERS>(line);
}
