// Global memory: every access is checked for bounds and alignment, and counted.
#pragma once

#include "state.hpp"

namespace kg {

// The slow and the failing halves, in global.cpp.
[[noreturn, gnu::cold]] void bad_global(const void* p, u32 bytes, Access access, u32 line);
void note_load(const Allocation& tensor, u64 offset, u32 bytes, u32 line);
void note_store(const Allocation& tensor, u64 offset, u32 bytes, u32 line);
void note_atomic(const Allocation& tensor, u64 offset, u32 bytes, u32 line);

// Elements that the bytes touch count as accessed; `marks` is null if that is not counted.
KG_DEVICE void mark_elements(u8* marks, const Allocation& tensor, u64 offset, u32 bytes) {
    if (!marks) return;
    u64 first = offset / tensor.item, last = (offset + bytes - 1) / tensor.item;
    if (first == last) marks[first] = 1;
    else __builtin_memset(marks + first, 1, last - first + 1);
}

template <class T>
KG_DEVICE void check_global(const void* p, Access access, u32 line) {
    static_assert(one_access<T>, "an access moves 1, 2, 4, 8 or 16 bytes");
    Worker& w = *worker;
    u64 address = reinterpret_cast<u64>(p), slot = (address - w.arena) >> w.slot_shift;
    if (slot >= w.tensors || address % sizeof(T) != 0) [[unlikely]] bad_global(p, sizeof(T), access, line);
    const Allocation& tensor = w.allocations[slot];
    u64 offset = address - tensor.base;
    if (offset >= tensor.bytes || sizeof(T) > tensor.bytes - offset) [[unlikely]] bad_global(p, sizeof(T), access, line);
    Traffic& traffic = w.traffic[slot];
    if (access == Access::load || access == Access::copy) {
        traffic.loaded += sizeof(T);
        mark_elements(tensor.loaded, tensor, offset, sizeof(T));
        if (tensor.writer) note_load(tensor, offset, sizeof(T), line);
    } else if (access == Access::store) {
        traffic.stored += sizeof(T);
        mark_elements(tensor.stored, tensor, offset, sizeof(T));
        note_store(tensor, offset, sizeof(T), line);
    } else {
        traffic.atomics += sizeof(T);
        mark_elements(tensor.stored, tensor, offset, sizeof(T));
        note_atomic(tensor, offset, sizeof(T), line);
    }
    if (w.log) log_access(p, access, line, sizeof(T));
}

// A copy of which only the first `bytes` are read; its address is aligned as the whole piece must be.
KG_DEVICE void check_head(const void* p, u32 bytes, u32 piece, u32 line) {
    Worker& w = *worker;
    u64 address = reinterpret_cast<u64>(p), slot = (address - w.arena) >> w.slot_shift;
    if (slot >= w.tensors || address % piece != 0) [[unlikely]] bad_global(p, bytes, Access::copy, line);
    const Allocation& tensor = w.allocations[slot];
    u64 offset = address - tensor.base;
    if (offset >= tensor.bytes || bytes > tensor.bytes - offset) [[unlikely]] bad_global(p, bytes, Access::copy, line);
    w.traffic[slot].loaded += bytes;
    mark_elements(tensor.loaded, tensor, offset, bytes);
    if (tensor.writer) note_load(tensor, offset, bytes, line);
    if (w.log) log_access(p, Access::copy, line, piece);
}

template <class T>
KG_DEVICE void skip_access(Access access, u32 line) {
    if (worker->log) log_access(nullptr, access, line, sizeof(T));
}

template <class T>
KG_DEVICE T load(const void* p) {
    T value;
    __builtin_memcpy(&value, p, sizeof(T));
    return value;
}

// Atomic read-modify-write of a float or integer; returns the old value.
template <class T, class F>
KG_DEVICE T atomic_update(T* p, u32 line, F combine) {
    check_global<T>(p, Access::atomic, line);
    T old, updated;  // builtins, because <atomic> would double the time to compile a kernel
    __atomic_load(p, &old, __ATOMIC_RELAXED);
    do {
        updated = combine(old);
    } while (!__atomic_compare_exchange(p, &old, &updated, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    return old;
}

}  // namespace kg

template <class T>
KG_DEVICE T ldg(const T* p, u32 line = __builtin_LINE()) {
    kg::check_global<T>(p, kg::Access::load, line);
    return kg::load<T>(p);
}

template <class T>
KG_DEVICE T ldg_if(const T* p, bool pred, u32 line = __builtin_LINE()) {
    if (pred) return ldg(p, line);
    kg::skip_access<T>(kg::Access::load, line);
    return T{};
}

template <int N, class T>
KG_DEVICE vec<T, N> ldg_vec(const T* p, u32 line = __builtin_LINE()) {
    kg::check_global<vec<T, N>>(p, kg::Access::load, line);
    return kg::load<vec<T, N>>(p);
}

template <int N, class T>
KG_DEVICE vec<T, N> ldg_vec_if(const T* p, bool pred, u32 line = __builtin_LINE()) {
    if (pred) return ldg_vec<N>(p, line);
    kg::skip_access<vec<T, N>>(kg::Access::load, line);
    return vec<T, N>{};
}

template <class T>
KG_DEVICE void stg(T* p, kg::just<T> v, u32 line = __builtin_LINE()) {
    kg::check_global<T>(p, kg::Access::store, line);
    __builtin_memcpy(p, &v, sizeof(T));
}

template <class T>
KG_DEVICE void stg_if(T* p, kg::just<T> v, bool pred, u32 line = __builtin_LINE()) {
    if (pred) return stg(p, v, line);
    kg::skip_access<T>(kg::Access::store, line);
}

template <int N, class T>
KG_DEVICE void stg_vec(T* p, const vec<T, N>& v, u32 line = __builtin_LINE()) {
    kg::check_global<vec<T, N>>(p, kg::Access::store, line);
    __builtin_memcpy(p, &v, sizeof(v));
}

template <int N, class T>
KG_DEVICE void stg_vec_if(T* p, const vec<T, N>& v, bool pred, u32 line = __builtin_LINE()) {
    if (pred) return stg_vec<N>(p, v, line);
    kg::skip_access<vec<T, N>>(kg::Access::store, line);
}

KG_DEVICE f32 atomic_add(f32* p, f32 v, u32 line = __builtin_LINE()) {
    return kg::atomic_update(p, line, [v](f32 old) { return old + v; });
}

KG_DEVICE i32 atomic_add(i32* p, i32 v, u32 line = __builtin_LINE()) {
    return kg::atomic_update(p, line, [v](i32 old) { return static_cast<i32>(static_cast<u32>(old) + static_cast<u32>(v)); });
}

KG_DEVICE i64 atomic_add(i64* p, i64 v, u32 line = __builtin_LINE()) {
    return kg::atomic_update(p, line, [v](i64 old) { return static_cast<i64>(static_cast<u64>(old) + static_cast<u64>(v)); });
}

// f32 and i32 only, as on the GPU; no NaN.
template <class T>
KG_DEVICE void atomic_max(T* p, kg::just<T> v, u32 line = __builtin_LINE()) {
    static_assert(kg::same<T, f32> || kg::same<T, i32>);
    kg::atomic_update(p, line, [v](T old) { return old > v ? old : v; });
}

template <class T>
KG_DEVICE void atomic_min(T* p, kg::just<T> v, u32 line = __builtin_LINE()) {
    static_assert(kg::same<T, f32> || kg::same<T, i32>);
    kg::atomic_update(p, line, [v](T old) { return old < v ? old : v; });
}
