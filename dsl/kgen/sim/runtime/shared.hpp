// Shared memory: 32-bit addresses, checked for bounds, alignment, initialisation and races.
#pragma once

#include "state.hpp"

namespace kg {

// The slow and the failing halves, in shadow.cpp.
[[noreturn, gnu::cold]] void bad_shared(u32 address, u32 bytes, bool store, u32 line);
void shadow_read(u32 offset, u32 bytes, u32 line);
void shadow_write(u32 offset, u32 bytes, u32 line);

template <class T>
KG_DEVICE unsigned char* check_shared(Worker& w, u32 address, bool store, u32 line) {
    static_assert(one_access<T>, "an access moves 1, 2, 4, 8 or 16 bytes");
    u32 offset = address - shared_base;
    if (offset >= w.shared_bytes || sizeof(T) > w.shared_bytes - offset || address % sizeof(T) != 0) [[unlikely]] {
        bad_shared(address, sizeof(T), store, line);
    }
    return w.shared + offset;
}

template <class T>
KG_DEVICE void log_shared(const Worker& w, Access access, u32 address, u32 line) {
    if (w.log) log_access(reinterpret_cast<const void*>(static_cast<u64>(address)), access, line, sizeof(T));
}

// True if this thread was the last to note a read of every granule and nobody has written since.
template <class T>
KG_DEVICE bool noted(const Worker& w, u32 offset) {
    if (sizeof(T) >> w.granule_shift != 1) return false;
    const Cell& cell = w.cells[offset >> w.granule_shift];
    return cell.reader[0] == w.self->stamp;
}

}  // namespace kg

template <class T>
KG_DEVICE T lds(u32 address, u32 line = __builtin_LINE()) {
    kg::Worker& w = *kg::worker;
    const unsigned char* p = kg::check_shared<T>(w, address, false, line);
    if (w.cells && !kg::noted<T>(w, address - kg::shared_base)) kg::shadow_read(address - kg::shared_base, sizeof(T), line);
    kg::log_shared<T>(w, kg::Access::shared_load, address, line);
    T value;
    __builtin_memcpy(&value, p, sizeof(T));
    return value;
}

template <class T>
KG_DEVICE void sts(u32 address, kg::just<T> value, u32 line = __builtin_LINE()) {
    kg::Worker& w = *kg::worker;
    unsigned char* p = kg::check_shared<T>(w, address, true, line);
    if (w.cells) kg::shadow_write(address - kg::shared_base, sizeof(T), line);
    kg::log_shared<T>(w, kg::Access::shared_store, address, line);
    __builtin_memcpy(p, &value, sizeof(T));
}

template <class T, int N>
KG_DEVICE vec<T, N> lds_vec(u32 address, u32 line = __builtin_LINE()) {
    return lds<vec<T, N>>(address, line);
}

template <class T, int N>
KG_DEVICE void sts_vec(u32 address, const vec<T, N>& value, u32 line = __builtin_LINE()) {
    sts<vec<T, N>>(address, value, line);
}
