// Shared memory's shadow: who wrote and read each granule last (a happens-before race detector), and what was written.
#include <string>

#include "launch.hpp"
#include "shared.hpp"

namespace kg {

namespace {

std::string place(u32 offset) {
    return "shared address " + std::to_string(shared_base + offset) + " (byte " + std::to_string(offset) + " of the block's)";
}

[[noreturn, gnu::cold]] void race(const char* now, const char* earlier, u32 stamp, u32 earlier_line, u32 offset, u32 line) {
    fail("race", line,
         std::string(now) + " of " + place(offset) + " is not ordered after the " + earlier + " by thread " +
             std::to_string(agent_of(stamp) - 1) + " at line " + std::to_string(earlier_line));
}

// Splits every cell so that one granule is `bytes` wide; each part inherits the history of the whole.
[[gnu::cold]] void refine(Worker& w, u32 bytes) {
    u32 shift = static_cast<u32>(std::countr_zero(bytes)), parts = 1u << (w.granule_shift - shift);
    for (u32 i = (w.shared_bytes + (1u << w.granule_shift) - 1) >> w.granule_shift; i-- > 0;) {
        Cell whole = w.cells[i];
        for (u32 part = parts; part-- > 0;) w.cells[i * parts + part] = whole;
    }
    w.granule_shift = shift;
}

u32 warp_of(u32 stamp) { return (agent_of(stamp) - 1) / warp_size; }

void put_reader(Cell& cell, u32 slot, u32 stamp, u32 line) {
    cell.reader[slot] = stamp;
    cell.reader_line[slot] = line;
}

// A reader that came before me adds nothing to what I stand for, so its slot is mine. If all three are concurrent
// with me, slots of different warps are worth most: a later writer is ordered after at most one of them by chance.
void note_reader(Cell& cell, const Fiber& me, u32 line) {
    for (u32 slot = 0; slot < 3; ++slot) {
        if (cell.reader[slot] == 0 || before(me, cell.reader[slot])) return put_reader(cell, slot, me.stamp, line);
    }
    u32 first = warp_of(cell.reader[0]), second = warp_of(cell.reader[1]), third = warp_of(cell.reader[2]);
    u32 mine = warp_of(me.stamp);
    if (mine == first || mine == second || mine == third) return;
    if (first == second) put_reader(cell, 1, me.stamp, line);
    else if (first == third || second == third) put_reader(cell, 2, me.stamp, line);
}

}  // namespace

void bad_shared(u32 address, u32 bytes, bool store, u32 line) {
    const Worker& w = *worker;
    std::string access = std::string(store ? "store of " : "load of ") + std::to_string(bytes) + " bytes at shared address " +
                         std::to_string(address) + " (byte " + std::to_string(static_cast<i64>(address) - shared_base) +
                         " of the block's " + std::to_string(w.shared_bytes) + ")";
    u32 offset = address - shared_base;
    bool inside = offset < w.shared_bytes && bytes <= w.shared_bytes - offset;
    if (inside) fail("misaligned", line, access + " is not a multiple of " + std::to_string(bytes));
    fail("out_of_bounds", line, access + " is out of bounds");
}

void shadow_read(u32 offset, u32 bytes, u32 line) {
    Worker& w = *worker;
    if (bytes >> w.granule_shift == 0) refine(w, bytes);
    const Fiber& me = *w.self;
    u32 begin = offset >> w.granule_shift, end = begin + (bytes >> w.granule_shift);
    for (u32 i = begin; i < end; ++i) {
        Cell& cell = w.cells[i];
        if (cell.reader[0] == me.stamp) continue;
        if (cell.writer == 0) [[unlikely]] {
            fail("uninitialised", line, "load of " + place(i << w.granule_shift) + ", which no thread of the block has written yet");
        }
        if (!before(me, cell.writer)) [[unlikely]] {
            race("load", "store", cell.writer, cell.writer_line, i << w.granule_shift, line);
        }
        note_reader(cell, me, line);
    }
}

void shadow_write(u32 offset, u32 bytes, u32 line) {
    Worker& w = *worker;
    if (bytes >> w.granule_shift == 0) refine(w, bytes);
    const Fiber& me = *w.self;
    u32 begin = offset >> w.granule_shift, end = begin + (bytes >> w.granule_shift);
    for (u32 i = begin; i < end; ++i) {
        Cell& cell = w.cells[i];
        if (cell.writer != 0 && !before(me, cell.writer)) [[unlikely]] {
            race("store", "store", cell.writer, cell.writer_line, i << w.granule_shift, line);
        }
        for (u32 slot = 0; slot < 3; ++slot) {
            u32 reader = cell.reader[slot];
            if (reader != 0 && !before(me, reader)) [[unlikely]] {
                race("store", "load", reader, cell.reader_line[slot], i << w.granule_shift, line);
            }
        }
        cell = Cell{me.stamp, {0, 0, 0}, line, {0, 0, 0}};
    }
}

}  // namespace kg
