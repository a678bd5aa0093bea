#include "tma.hpp"

#include "global.hpp"
#include "mbarrier.hpp"
#include "shadow.hpp"
#include "shared.hpp"

namespace kg {

namespace {

constexpr u32 piece_bytes = 16;

// With a swizzle, rows lie as far apart as its span, even if the box is narrower.
u32 row_pitch(const tensor_map& map) { return map.swizzle ? map.swizzle : map.box[0] * map.item; }

u32 row_count(const tensor_map& map) {
    u32 rows = 1;
    for (u32 d = 1; d < map.rank; ++d) rows *= map.box[d];
    return rows;
}

u32 swizzled(u32 address, u32 span) { return span ? address ^ (address >> 3 & (span - 16)) : address; }

// Calls f(shared address, global address, bytes inside the tensor, row's index) for every 16 bytes of the tile.
template <class F>
void each_piece(const PendingTile& tile, F f) {
    const tensor_map& map = tile.map;
    u32 width = map.box[0] * map.item;
    for (u32 row = 0; row < row_count(map); ++row) {
        i64 global = 0;
        bool inside = true;
        for (u32 d = 1, rest = row; d < map.rank; rest /= map.box[d++]) {
            i64 index = static_cast<i64>(tile.at[d]) + rest % map.box[d];
            inside = inside && index >= 0 && index < map.sizes[d];
            global += index * static_cast<i64>(map.strides[d]);
        }
        for (u32 byte = 0; byte < width; byte += piece_bytes) {
            i64 column = static_cast<i64>(tile.at[0]) * map.item + byte, end = static_cast<i64>(map.sizes[0]) * map.item;
            i64 bytes = inside && column >= 0 ? std::clamp<i64>(end - column, 0, piece_bytes) : 0;
            f(swizzled(tile.address + row * row_pitch(map) + byte, map.swizzle), map.base + static_cast<u64>(global + column),
              static_cast<u32>(bytes));
        }
    }
}

void check_tile(const Worker& w, const PendingTile& tile, u32 rank, bool store) {
    const tensor_map& map = tile.map;
    const char* name = store ? "TMA store" : "TMA load";
    if (map.rank != rank) {
        fail("tma", tile.line, std::string(name) + " of " + std::to_string(rank) + " dimensions by a map of " + std::to_string(map.rank));
    }
    if (tile.address % 128 != 0) {
        fail("misaligned", tile.line, std::string(name) + " at shared address " + std::to_string(tile.address) + ", which is not a multiple of 128");
    }
    i64 column = static_cast<i64>(tile.at[0]) * map.item;
    if (column % piece_bytes != 0) {
        fail("tma", tile.line, std::string(name) + " starts at byte " + std::to_string(column) +
                                   " of the innermost dimension, which is not a multiple of 16");
    }
    u32 offset = tile.address - shared_base, bytes = row_count(map) * row_pitch(map);
    if (offset >= w.shared_bytes || bytes > w.shared_bytes - offset) bad_shared(tile.address, bytes, !store, tile.line);
}

const Allocation& tensor_of(const Worker& w, u64 address) { return w.allocations[(address - w.arena) >> w.slot_shift]; }

Traffic& traffic_of(const Worker& w, u64 address) { return w.traffic[(address - w.arena) >> w.slot_shift]; }

void execute_load(Worker& w, const PendingTile& tile) {
    each_piece(tile, [&](u32 address, u64 global, u32 bytes) {
        unsigned char* target = w.shared + (address - shared_base);
        std::memset(target + bytes, 0, piece_bytes - bytes);
        if (bytes == 0) return;
        const Allocation& tensor = tensor_of(w, tile.map.base);
        std::memcpy(target, reinterpret_cast<const void*>(global), bytes);
        traffic_of(w, tile.map.base).loaded += bytes;
        mark_elements(tensor.loaded, tensor, global - tensor.base, bytes);
        if (tensor.writer) note_load(tensor, global - tensor.base, bytes, tile.line);
    });
    complete_bytes(w, tile.mbarrier, row_count(tile.map) * tile.map.box[0] * tile.map.item, tile.time, tile.line);
}

// The hardware cuts a row only at a multiple of 16 bytes: what lies between is overwritten.
void execute_store(Worker& w, const PendingTile& tile) {
    each_piece(tile, [&](u32 address, u64 global, u32 bytes) {
        if (bytes == 0) return;
        const Allocation& tensor = tensor_of(w, tile.map.base);
        u64 offset = global - tensor.base;
        if (offset + piece_bytes > tensor.bytes) bad_global(reinterpret_cast<void*>(global), piece_bytes, Access::store, tile.line);
        note_store(tensor, offset, piece_bytes, tile.line);
        std::memcpy(reinterpret_cast<void*>(global), w.shared + (address - shared_base), piece_bytes);
        traffic_of(w, tile.map.base).stored += piece_bytes;
        mark_elements(tensor.stored, tensor, offset, piece_bytes);
    });
}

}  // namespace

void load_tile(u32 target, const tensor_map& map, u32 mbarrier, const i32* at, u32 rank, u32 line) {
    Worker& w = *worker;
    PendingTile tile = {map, target, mbarrier, 0, line, {}};
    std::copy(at, at + rank, tile.at);
    check_tile(w, tile, rank, false);
    MBarrier& m = mbarrier_at(w, mbarrier, "TMA load", line);
    if (!m.fenced) {
        fail("missing_fence", line, "a TMA load uses the mbarrier at shared address " + std::to_string(mbarrier) +
                                        " without fence_mbar_init after its mbar_init by the same thread");
    }
    tile.time = ++m.loads;
    m.load_line = line;
    ++w.scheduler->instructions[static_cast<u32>(Op::tma_load)];
    if (w.cells) {
        Actor actor = thread_actor(*w.self, make_stamp(Agents{w.threads}.mbarrier(m.slot), tile.time), "TMA load");
        each_piece(tile, [&](u32 address, u64, u32) { note_write(w, actor, address - shared_base, piece_bytes, line); });
    }
    if (defer(w)) w.scheduler->loads.push_back(tile);
    else execute_load(w, tile);
}

bool progress_tiles(Worker& w) {
    Scheduler& s = *w.scheduler;
    if (s.loads.empty()) return false;
    std::size_t pick = s.random ? next_random(s.random) % s.loads.size() : 0;
    PendingTile tile = s.loads[pick];
    s.loads.erase(s.loads.begin() + static_cast<std::ptrdiff_t>(pick));
    execute_load(w, tile);
    return true;
}

void store_tile(const tensor_map& map, u32 source, const i32* at, u32 rank, u32 line) {
    Worker& w = *worker;
    PendingTile tile = {map, source, 0, ++w.self->warp->stores, line, {}};
    std::copy(at, at + rank, tile.at);
    check_tile(w, tile, rank, true);
    StoreQueue& queue = w.scheduler->stores[w.self->index];
    queue.issued = tile.time;
    queue.line = line;
    ++w.scheduler->instructions[static_cast<u32>(Op::tma_store)];
    if (w.cells) {
        Actor actor = thread_actor(*w.self, make_stamp(Agents{w.threads}.stores(w.self->index / warp_size), tile.time), "TMA store");
        actor.async_proxy = true;
        each_piece(tile, [&](u32 address, u64, u32 bytes) {
            if (bytes) note_read(w, actor, address - shared_base, piece_bytes, line);
        });
    }
    if (defer(w)) queue.pending.push_back(tile);
    else execute_store(w, tile);
}

void commit_tiles() {
    Worker& w = *worker;
    StoreQueue& queue = w.scheduler->stores[w.self->index];
    queue.groups.push_back(queue.issued);
}

void wait_for_tiles(u32 groups_in_flight) {
    Worker& w = *worker;
    StoreQueue& queue = w.scheduler->stores[w.self->index];
    if (queue.groups.size() <= groups_in_flight) return;
    std::size_t done = queue.groups.size() - groups_in_flight;
    u32 time = queue.done = queue.groups[done - 1];
    queue.groups.erase(queue.groups.begin(), queue.groups.begin() + static_cast<std::ptrdiff_t>(done));
    u32& known = w.self->known[static_cast<u32>(Async::store)];
    known = std::max(known, make_stamp(Agents{w.threads}.stores(w.self->index / warp_size), time));
    auto first_open = std::find_if(queue.pending.begin(), queue.pending.end(), [time](const PendingTile& t) { return t.time > time; });
    for (auto tile = queue.pending.begin(); tile != first_open; ++tile) execute_store(w, *tile);
    queue.pending.erase(queue.pending.begin(), first_open);
}

}  // namespace kg
