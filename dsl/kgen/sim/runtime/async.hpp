// cp.async: copies from global to shared memory that are done when a wait says so.
#pragma once

#include "global.hpp"
#include "shared.hpp"

namespace kg {

// In async.cpp. Addresses are checked already; of `bytes` the first `present` come from p, the others are zeros.
void start_copy(u32 address, const void* p, u32 bytes, u32 present, u32 line);
void commit_copies();
void wait_for_copies(u32 groups_in_flight, u32 line);

template <int BYTES>
KG_DEVICE void copy_async(u32 address, const void* p, bool pred, u32 line) {
    using Piece = vec<u8, BYTES>;
    check_shared<Piece>(*worker, address, true, line);
    if (pred) check_global<Piece>(p, Access::copy, line);
    else skip_access<Piece>(Access::copy, line);
    start_copy(address, p, BYTES, pred ? BYTES : 0, line);
}

KG_DEVICE void copy_head_async(u32 address, const void* p, i32 bytes, u32 line) {
    using Piece = vec<u8, 16>;
    check_shared<Piece>(*worker, address, true, line);
    u32 present = bytes < 0 ? 0 : bytes > 16 ? 16 : static_cast<u32>(bytes);
    if (present == 16) check_global<Piece>(p, Access::copy, line);
    else if (present == 0) skip_access<Piece>(Access::copy, line);
    else check_head(p, present, sizeof(Piece), line);
    start_copy(address, p, sizeof(Piece), present, line);
}

}  // namespace kg

KG_DEVICE void cp_async4(u32 a, const void* p, bool pred = true, u32 line = __builtin_LINE()) {
    kg::copy_async<4>(a, p, pred, line);
}

KG_DEVICE void cp_async8(u32 a, const void* p, bool pred = true, u32 line = __builtin_LINE()) {
    kg::copy_async<8>(a, p, pred, line);
}

KG_DEVICE void cp_async16(u32 a, const void* p, bool pred = true, u32 line = __builtin_LINE()) {
    kg::copy_async<16>(a, p, pred, line);
}

KG_DEVICE void cp_async16_head(u32 a, const void* p, i32 bytes, u32 line = __builtin_LINE()) {
    kg::copy_head_async(a, p, bytes, line);
}

KG_DEVICE void cp_async_commit() { kg::commit_copies(); }
template <int N> KG_DEVICE void cp_async_wait(u32 line = __builtin_LINE()) { kg::wait_for_copies(N, line); }
