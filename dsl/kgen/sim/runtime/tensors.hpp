// Guarded copies of the tensors of a launch.
#pragma once

#include "launch.hpp"

namespace kg {

constexpr u32 max_rank = 64;

struct TensorRequest {
    const char* name;
    u64 bytes;         // from the first to the last element of the view
    u64 misalignment;  // the address modulo 256
    u32 item, role, rank;
    const i64* sizes;
    const i64* strides;  // in elements, not negative
    u64 address;         // out: where the copy lies
};

// Lays the tensors out in slots of equal size, far apart, with inaccessible memory between. False: no memory.
bool place_tensors(Launch& launch, TensorRequest* requests, u32 count);
void free_tensors(Launch& launch);

// Calls f(offset in elements) for every element of the view.
template <class F>
void each_element(u32 rank, const i64* sizes, const i64* strides, F f) {
    i64 index[max_rank] = {}, offset = 0;
    for (u32 d = 0; d < rank; ++d) {
        if (sizes[d] == 0) return;
    }
    for (;;) {
        f(static_cast<u64>(offset));
        u32 d = rank;
        while (d-- > 0) {
            offset += strides[d];
            if (++index[d] < sizes[d]) break;
            offset -= sizes[d] * strides[d];
            index[d] = 0;
        }
        if (d == ~0u) return;
    }
}

}  // namespace kg
