#include "tensor.hpp"

#include "accumulate.hpp"
#include "shadow.hpp"
#include "shared.hpp"
#include "traffic.hpp"

namespace kg {

namespace {

constexpr u32 rows_each = 8, row_bytes = 16;  // of an 8x8 matrix of 16-bit elements

const MatrixRow& row_of(const u64* lanes, u32 lane) { return *reinterpret_cast<const MatrixRow*>(lanes[lane]); }

unsigned char* checked_row(const Worker& w, u32 address, bool store, u32 line) {
    u32 offset = address - shared_base;
    bool inside = offset < w.shared_bytes && row_bytes <= w.shared_bytes - offset;
    if (!inside || address % row_bytes != 0) [[unlikely]] bad_shared(address, row_bytes, store, line);
    return w.shared + offset;
}

// Where lane l's two elements of a matrix lie: (row, column) of the first; the other is one to the right, or, if
// transposed, one below.
struct Pair {
    u32 row, column;
};

template <bool TRANS>
Pair pair_of(u32 lane) {
    u32 group = lane / 4, twice = 2 * (lane % 4);
    return TRANS ? Pair{twice, group} : Pair{group, twice};
}

u16 element(const unsigned char* row, u32 column) {
    u16 bits;
    std::memcpy(&bits, row + 2 * column, 2);
    return bits;
}

void set_element(unsigned char* row, u32 column, u32 bits) {
    u16 narrow = static_cast<u16>(bits);
    std::memcpy(row + 2 * column, &narrow, 2);
}

void count_rows(Worker& w, Access access, const u64* lanes, u32 count, u32 line) {
    if (!w.log) return;
    u64 addresses[warp_size];
    for (u32 i = 0; i < count * rows_each; ++i) addresses[i] = row_of(lanes, i).address;
    Wavefronts found = wavefronts_of(addresses, count * rows_each, row_bytes);
    add_to_line(w, access, line, found.taken, found.ideal);
}

}  // namespace

template <int COUNT, bool TRANS>
void load_matrices(Worker& w, const u64* lanes, u32 line) {
    const unsigned char* rows[COUNT * rows_each];
    count_rows(w, Access::ldmatrix, lanes, COUNT, line);
    Actor actor = warp_actor(w.self - w.self->lane, 0, "ldmatrix");
    for (u32 i = 0; i < COUNT * rows_each; ++i) {
        u32 address = row_of(lanes, i).address;
        rows[i] = checked_row(w, address, false, line);
        if (w.cells) note_read(w, actor, address - shared_base, row_bytes, line, i);
    }
    for (u32 lane = 0; lane < warp_size; ++lane) {
        auto [row, column] = pair_of<TRANS>(lane);
        for (u32 m = 0; m < COUNT; ++m) {
            const unsigned char* const* matrix = rows + m * rows_each;
            u32 low = element(matrix[row], column);
            u32 high = TRANS ? element(matrix[row + 1], column) : element(matrix[row], column + 1);
            row_of(lanes, lane).registers[m] = low | high << 16;
        }
    }
}

template <int COUNT, bool TRANS>
void store_matrices(Worker& w, const u64* lanes, u32 line) {
    unsigned char* rows[COUNT * rows_each];
    count_rows(w, Access::stmatrix, lanes, COUNT, line);
    Actor actor = warp_actor(w.self - w.self->lane, 0, "stmatrix");
    for (u32 i = 0; i < COUNT * rows_each; ++i) {
        u32 address = row_of(lanes, i).address;
        rows[i] = checked_row(w, address, true, line);
        if (w.cells) note_write(w, actor, address - shared_base, row_bytes, line, i);
    }
    for (u32 lane = 0; lane < warp_size; ++lane) {
        auto [row, column] = pair_of<TRANS>(lane);
        for (u32 m = 0; m < COUNT; ++m) {
            unsigned char* const* matrix = rows + m * rows_each;
            u32 both = row_of(lanes, lane).registers[m];
            set_element(matrix[row], column, both);
            set_element(TRANS ? matrix[row + 1] : matrix[row], TRANS ? column : column + 1, both >> 16);
        }
    }
}

template void load_matrices<1, false>(Worker&, const u64*, u32);
template void load_matrices<2, false>(Worker&, const u64*, u32);
template void load_matrices<4, false>(Worker&, const u64*, u32);
template void load_matrices<1, true>(Worker&, const u64*, u32);
template void load_matrices<2, true>(Worker&, const u64*, u32);
template void load_matrices<4, true>(Worker&, const u64*, u32);
template void store_matrices<4, false>(Worker&, const u64*, u32);
template void store_matrices<4, true>(Worker&, const u64*, u32);

// Lane l holds, with g = l / 4 and t = l % 4, of D (16x8) the elements (g + 8 * (i / 2), 2t + i % 2).
template <Operand KIND>
void multiply(Worker& w, const u64* lanes, u32) {
    constexpr u32 depth = KIND == Operand::tf32 ? 8 : 16;
    f32 a[16 * depth], b[depth * 8], d[16 * 8];
    for (u32 lane = 0; lane < warp_size; ++lane) {
        const Fragments& mine = *reinterpret_cast<const Fragments*>(lanes[lane]);
        u32 group = lane / 4, column = 2 * (lane % 4);
        spread_a<KIND>(mine.a, lane, a);
        for (u32 i = 0; i < 2; ++i) {
            if constexpr (KIND == Operand::tf32) {
                b[(lane % 4 + 4 * i) * 8 + group] = low_value<KIND>(mine.b[i]);
            } else {
                b[(column + 8 * i) * 8 + group] = low_value<KIND>(mine.b[i]);
                b[(column + 8 * i + 1) * 8 + group] = high_value<KIND>(mine.b[i]);
            }
        }
        for (u32 i = 0; i < 4; ++i) d[(group + 8 * (i / 2)) * 8 + column + i % 2] = mine.d[i];
    }
    if (w.launch->options.hopper && KIND != Operand::tf32) accumulate_as_hopper(a, b, d, 8);
    else accumulate<depth>(a, b, d, 8);
    for (u32 lane = 0; lane < warp_size; ++lane) {
        const Fragments& mine = *reinterpret_cast<const Fragments*>(lanes[lane]);
        for (u32 i = 0; i < 4; ++i) mine.d[i] = d[(lane / 4 + 8 * (i / 2)) * 8 + 2 * (lane % 4) + i % 2];
    }
}

template void multiply<Operand::bf16>(Worker&, const u64*, u32);
template void multiply<Operand::f16>(Worker&, const u64*, u32);
template void multiply<Operand::tf32>(Worker&, const u64*, u32);

}  // namespace kg
