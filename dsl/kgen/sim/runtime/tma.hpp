// TMA: tiles of 2 to 5 dimensions between global and shared memory, and the groups that stores are waited for in.
#pragma once

#include "state.hpp"

namespace kg {

// In tma.cpp. `at`: the tile's first element, innermost dimension first.
void load_tile(u32 target, const tensor_map& map, u32 mbarrier, const i32* at, u32 rank, u32 line);
void store_tile(const tensor_map& map, u32 source, const i32* at, u32 rank, u32 line);
void commit_tiles();
void wait_for_tiles(u32 groups_in_flight);

template <class... C>
KG_DEVICE void tma_load(u32 target, const tensor_map& map, u32 mbarrier, u32 line, C... coordinates) {
    i32 at[5] = {coordinates...};
    load_tile(target, map, mbarrier, at, sizeof...(C), line);
}

template <class... C>
KG_DEVICE void tma_store(const tensor_map& map, u32 source, u32 line, C... coordinates) {
    i32 at[5] = {coordinates...};
    store_tile(map, source, at, sizeof...(C), line);
}

}  // namespace kg

KG_DEVICE void tma_load_2d(u32 dst, const tensor_map& map, u32 bar, i32 x, i32 y, u32 line = __builtin_LINE()) {
    kg::tma_load(dst, map, bar, line, x, y);
}

KG_DEVICE void tma_load_3d(u32 dst, const tensor_map& map, u32 bar, i32 x, i32 y, i32 z, u32 line = __builtin_LINE()) {
    kg::tma_load(dst, map, bar, line, x, y, z);
}

KG_DEVICE void tma_load_4d(u32 dst, const tensor_map& map, u32 bar, i32 x, i32 y, i32 z, i32 u, u32 line = __builtin_LINE()) {
    kg::tma_load(dst, map, bar, line, x, y, z, u);
}

KG_DEVICE void tma_load_5d(u32 dst, const tensor_map& map, u32 bar, i32 x, i32 y, i32 z, i32 u, i32 v, u32 line = __builtin_LINE()) {
    kg::tma_load(dst, map, bar, line, x, y, z, u, v);
}

KG_DEVICE void tma_store_2d(const tensor_map& map, u32 src, i32 x, i32 y, u32 line = __builtin_LINE()) {
    kg::tma_store(map, src, line, x, y);
}

KG_DEVICE void tma_store_3d(const tensor_map& map, u32 src, i32 x, i32 y, i32 z, u32 line = __builtin_LINE()) {
    kg::tma_store(map, src, line, x, y, z);
}

KG_DEVICE void tma_store_4d(const tensor_map& map, u32 src, i32 x, i32 y, i32 z, i32 u, u32 line = __builtin_LINE()) {
    kg::tma_store(map, src, line, x, y, z, u);
}

KG_DEVICE void tma_store_5d(const tensor_map& map, u32 src, i32 x, i32 y, i32 z, i32 u, i32 v, u32 line = __builtin_LINE()) {
    kg::tma_store(map, src, line, x, y, z, u, v);
}

KG_DEVICE void tma_commit() { kg::commit_tiles(); }
template <int N> KG_DEVICE void tma_wait() { kg::wait_for_tiles(N); }
template <int N> KG_DEVICE void tma_wait_read() { kg::wait_for_tiles(N); }
