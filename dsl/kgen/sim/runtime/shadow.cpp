#include "shadow.hpp"

#include "shared.hpp"

namespace kg {

namespace {

std::string place(u32 offset) {
    return "shared address " + std::to_string(shared_base + offset) + " (byte " + std::to_string(offset) + " of the block's)";
}

std::string doer(const Worker& w, const char* verb, u32 stamp) {
    Agents agents = {w.threads};
    u32 agent = agent_of(stamp);
    if (agent < agents.copies(0)) return std::string(verb) + " by thread " + std::to_string(agent - 1);
    if (agent < agents.stores(0)) return "cp.async by thread " + std::to_string(agent - agents.copies(0));
    if (agent < agents.products(0)) return "TMA store by warp " + std::to_string(agent - agents.stores(0));
    if (agent < agents.mbarrier(0)) return "wgmma by warp " + std::to_string(agent - agents.products(0));
    return agent < agents.nobody() ? "TMA load" : "mbar_init";
}

[[noreturn, gnu::cold]] void race(const Worker& w, const char* now, const char* earlier, u32 stamp, u32 earlier_line, u32 offset, u32 line) {
    fail("race", line,
         std::string(now) + " of " + place(offset) + " is not ordered after the " + doer(w, earlier, stamp) + " at line " +
             std::to_string(earlier_line));
}

[[noreturn, gnu::cold]] void unwritten(const char* verb, u32 offset, u32 line) {
    fail("uninitialised", line, std::string(verb) + " of " + place(offset) + ", which no thread of the block has written yet");
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

// A reader that came before the new one adds nothing to what that stands for, so its slot is free. If all three are
// concurrent, slots of different warps are worth most: a later writer is ordered after at most one of them by chance.
template <class Before>
void note_reader(Cell& cell, u32 stamp, u32 line, Before ordered) {
    for (u32 slot = 0; slot < 3; ++slot) {
        if (cell.reader[slot] == stamp) return;
        if (cell.reader[slot] == 0 || ordered(cell.reader[slot])) return put_reader(cell, slot, stamp, line);
    }
    u32 first = warp_of(cell.reader[0]), second = warp_of(cell.reader[1]), third = warp_of(cell.reader[2]);
    u32 mine = warp_of(stamp);
    if (mine == first || mine == second || mine == third) return;
    if (first == second) put_reader(cell, 1, stamp, line);
    else if (first == third || second == third) put_reader(cell, 2, stamp, line);
}

template <class Before>
void check_writer(const Worker& w, const Cell& cell, u32 i, const char* verb, u32 line, Before ordered) {
    if (cell.writer == 0) [[unlikely]] unwritten(verb, i << w.granule_shift, line);
    if (!ordered(cell.writer)) [[unlikely]] race(w, verb, "store", cell.writer, cell.writer_line, i << w.granule_shift, line);
}

template <class Before>
void overwrite(const Worker& w, Cell& cell, u32 i, u32 stamp, const char* verb, u32 line, Before ordered) {
    if (cell.writer != 0 && !ordered(cell.writer)) [[unlikely]] {
        race(w, verb, "store", cell.writer, cell.writer_line, i << w.granule_shift, line);
    }
    for (u32 slot = 0; slot < 3; ++slot) {
        u32 reader = cell.reader[slot];
        if (reader != 0 && !ordered(reader)) [[unlikely]] {
            race(w, verb, "load", reader, cell.reader_line[slot], i << w.granule_shift, line);
        }
    }
    cell = Cell{stamp, {0, 0, 0}, line, {0, 0, 0}};
}

bool all_after(const Actor& actor, u32 stamp) {
    if (actor.common && actor.common->of[agent_of(stamp)] >= time_of(stamp)) return true;
    for (u32 lane = 0; lane < actor.count; ++lane) {
        if (!before(actor.lanes[lane], stamp)) return false;
    }
    return true;
}

// A write of the generic proxy reaches the async proxy by a fence of the writer, or by one of the reader who knew of it.
bool reaches_async_proxy(const Worker& w, const Actor& actor, u32 stamp) {
    Agents agents = {w.threads};
    u32 agent = agent_of(stamp);
    if (agent >= agents.stores(0)) return true;
    const Fiber* fibers = w.scheduler->fibers;
    bool copied = agent >= agents.copies(0);
    const Fiber& writer = fibers[copied ? agent - agents.copies(0) : agent - 1];
    if (time_of(stamp) <= (copied ? writer.fenced_copies : writer.fenced)) return true;
    const Clock* view = actor.lanes[0].fence_view;
    return view && view->of[agent] >= time_of(stamp);
}

[[noreturn, gnu::cold]] void unfenced(const Worker& w, const Actor& actor, const Cell& cell, u32 offset, u32 line) {
    fail("missing_fence", line,
         std::string(actor.verb) + " reads " + place(offset) + " through the async proxy: no fence_proxy_async follows the " +
             doer(w, "store", cell.writer) + " at line " + std::to_string(cell.writer_line));
}

struct Range {
    u32 begin, end;  // cells
};

Range cells_of(Worker& w, u32 offset, u32 bytes) {
    u32 width = std::min(bytes & -bytes, 16u);
    if (width >> w.granule_shift == 0) refine(w, width);
    return {offset >> w.granule_shift, (offset + bytes) >> w.granule_shift};
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
    const Fiber& me = *w.self;
    auto ordered = [&me](u32 stamp) { return before(me, stamp); };
    auto [begin, end] = cells_of(w, offset, bytes);
    for (u32 i = begin; i < end; ++i) {
        Cell& cell = w.cells[i];
        if (cell.reader[0] == me.stamp) continue;
        check_writer(w, cell, i, "load", line, ordered);
        note_reader(cell, me.stamp, line, ordered);
    }
}

void shadow_write(u32 offset, u32 bytes, u32 line) {
    Worker& w = *worker;
    const Fiber& me = *w.self;
    auto [begin, end] = cells_of(w, offset, bytes);
    for (u32 i = begin; i < end; ++i) {
        overwrite(w, w.cells[i], i, me.stamp, "store", line, [&me](u32 stamp) { return before(me, stamp); });
    }
}

Actor thread_actor(const Fiber& thread, u32 stamp, const char* verb) { return {&thread, thread.view, 1, stamp, verb}; }

Actor warp_actor(const Fiber* lanes, u32 stamp, const char* verb) {
    const Clock* common = lanes[0].view;
    for (u32 lane = 1; lane < warp_size; ++lane) {
        if (lanes[lane].view != common) common = nullptr;
    }
    return {lanes, common, warp_size, stamp, verb};
}

// A read by a warp stands under the stamps of two lanes, so that no lane can overwrite unnoticed what others read.
void note_read(Worker& w, const Actor& actor, u32 offset, u32 bytes, u32 line, u32 lane) {
    auto ordered = [&actor](u32 stamp) { return all_after(actor, stamp); };
    u32 first = actor.stamp ? actor.stamp : actor.lanes[lane].stamp;
    u32 second = actor.stamp ? 0 : actor.lanes[lane ^ 1].stamp;
    auto [begin, end] = cells_of(w, offset, bytes);
    for (u32 i = begin; i < end; ++i) {
        Cell& cell = w.cells[i];
        check_writer(w, cell, i, actor.verb, line, ordered);
        if (actor.async_proxy && !reaches_async_proxy(w, actor, cell.writer)) [[unlikely]] {
            unfenced(w, actor, cell, i << w.granule_shift, line);
        }
        note_reader(cell, first, line, ordered);
        if (second) note_reader(cell, second, line, ordered);
    }
}

void note_write(Worker& w, const Actor& actor, u32 offset, u32 bytes, u32 line, u32 lane) {
    u32 stamp = actor.stamp ? actor.stamp : actor.lanes[lane].stamp;
    auto [begin, end] = cells_of(w, offset, bytes);
    for (u32 i = begin; i < end; ++i) {
        overwrite(w, w.cells[i], i, stamp, actor.verb, line, [&actor](u32 earlier) { return all_after(actor, earlier); });
    }
}

}  // namespace kg
