// Global memory: what bounds failures say, which block may touch which element of an output, and coverage.
#include "global.hpp"

#include <string>

#include "launch.hpp"

namespace kg {

namespace {

const char* verb(Access access) {
    static const char* const verbs[] = {"load", "store", "atomic update", "cp.async"};
    return verbs[static_cast<u32>(access)];
}

std::string element(const Allocation& tensor, u64 offset) {
    const Launch& launch = *worker->launch;
    const std::string& name = launch.names[static_cast<u64>(&tensor - launch.allocations.data())];
    return "element " + std::to_string(offset / tensor.item) + " (byte offset " + std::to_string(offset) + ") of tensor '" + name + "'";
}

[[noreturn, gnu::cold]] void cross_block(const Allocation& tensor, u64 offset, Access access, u32 other, u32 line) {
    std::string text = std::string(verb(access)) + " of " + element(tensor, offset);
    if (other == not_in_view) fail("out_of_bounds", line, text + ", which lies between the elements of the view");
    if (other == by_atomics) fail("cross_block", line, text + ", which atomics update in this launch");
    if (other == several_blocks) fail("cross_block", line, text + ", which other blocks read in this launch");
    fail("cross_block", line, text + ", which block " + std::to_string(other - 1) + " accesses in this launch");
}

u32 peek(const u32& mark) { return __atomic_load_n(&mark, __ATOMIC_RELAXED); }
u32 exchange(u32& mark, u32 value) { return __atomic_exchange_n(&mark, value, __ATOMIC_RELAXED); }

u32 elements(const Allocation& tensor, u64 offset, u32 bytes) {
    return static_cast<u32>((offset + bytes - 1) / tensor.item - offset / tensor.item + 1);
}

}  // namespace

void bad_global(const void* p, u32 bytes, Access access, u32 line) {
    const Worker& w = *worker;
    u64 address = reinterpret_cast<u64>(p), slot = (address - w.arena) >> w.slot_shift;
    std::string what = std::string(verb(access)) + " of " + std::to_string(bytes) + " bytes";
    if (slot >= w.tensors) fail("out_of_bounds", line, what + " at an address outside every tensor");
    const Allocation& tensor = w.allocations[slot];
    i64 offset = static_cast<i64>(address - tensor.base);
    what += " at byte offset " + std::to_string(offset) + " of tensor '" + w.launch->names[slot] + "' (" +
            std::to_string(tensor.bytes) + " bytes)";
    bool inside = offset >= 0 && static_cast<u64>(offset) + bytes <= tensor.bytes;
    if (inside) fail("misaligned", line, what + " is not aligned to " + std::to_string(bytes) + " bytes");
    fail("out_of_bounds", line, what + " is out of bounds");
}

void note_load(const Allocation& tensor, u64 offset, u32 bytes, u32 line) {
    u64 first = offset / tensor.item;
    u32 count = elements(tensor, offset, bytes), me = worker->block + 1;
    for (u32 i = 0; i < count; ++i) {
        u32 owner = peek(tensor.writer[first + i]);
        if (owner == not_in_view) continue;
        if (owner == nobody && tensor.role == Role::out) [[unlikely]] {
            fail("uninitialised", line, "load of " + element(tensor, (first + i) * tensor.item) + ", which is not yet written");
        }
        if (owner != nobody && owner != me) [[unlikely]] {
            cross_block(tensor, (first + i) * tensor.item, Access::load, owner, line);
        }
        if (!tensor.reader) continue;
        u32 reader = exchange(tensor.reader[first + i], me);
        if (reader != nobody && reader != me) exchange(tensor.reader[first + i], several_blocks);
    }
}

void note_store(const Allocation& tensor, u64 offset, u32 bytes, u32 line) {
    if (tensor.role == Role::in) [[unlikely]] {
        fail("out_of_bounds", line, "store to " + element(tensor, offset) + ", which is an input");
    }
    if (!tensor.writer) return;
    u64 first = offset / tensor.item;
    u32 count = elements(tensor, offset, bytes), me = worker->block + 1;
    for (u32 i = 0; i < count; ++i) {
        u32 owner = exchange(tensor.writer[first + i], me);
        if (owner != nobody && owner != me) [[unlikely]] {
            cross_block(tensor, (first + i) * tensor.item, Access::store, owner, line);
        }
        if (!tensor.reader) continue;
        u32 reader = peek(tensor.reader[first + i]);
        if (reader != nobody && reader != me) [[unlikely]] {
            cross_block(tensor, (first + i) * tensor.item, Access::store, reader, line);
        }
    }
}

void note_atomic(const Allocation& tensor, u64 offset, u32 bytes, u32 line) {
    if (tensor.role == Role::in) [[unlikely]] {
        fail("out_of_bounds", line, "atomic update of " + element(tensor, offset) + ", which is an input");
    }
    if (!tensor.writer) return;
    u64 first = offset / tensor.item;
    u32 count = elements(tensor, offset, bytes);
    for (u32 i = 0; i < count; ++i) {
        u32 owner = exchange(tensor.writer[first + i], by_atomics);
        if (owner == nobody && tensor.role == Role::out) [[unlikely]] {
            fail("uninitialised", line,
                 "atomic update of " + element(tensor, (first + i) * tensor.item) + ", which has no initial value (role inout has one)");
        }
        if (owner != nobody && owner != by_atomics && owner != worker->block + 1) [[unlikely]] {
            cross_block(tensor, (first + i) * tensor.item, Access::atomic, owner, line);
        }
    }
}

}  // namespace kg
