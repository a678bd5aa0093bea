#include "wgmma.hpp"

#include "accumulate.hpp"
#include "descriptor.hpp"
#include "shadow.hpp"
#include "shared.hpp"

namespace kg {

namespace {

constexpr u32 depth = 16, rows = 16, chunk = 16;
constexpr u32 in_flight_bits = 0xffdead5a;  // a NaN that stands in the accumulators until the wait

const ProductArguments& arguments_of(const u64* lanes, u32 lane) { return *reinterpret_cast<const ProductArguments*>(lanes[lane]); }

u32 warp_index(const Worker& w) { return w.self->index / warp_size; }
ProductQueue& queue_of(Worker& w) { return w.scheduler->products[warp_index(w)]; }
u32 product_stamp(const Worker& w, u32 time) { return make_stamp(Agents{w.threads}.products(warp_index(w)), time); }

// Calls f(address, first row or column, first k, k-major) for the chunks of `count` rows or columns from `first` on.
template <class F>
void each_chunk(const Descriptor& descriptor, bool transposed, u32 first, u32 count, F f) {
    if (transposed) {
        for (u32 mn = first; mn < first + count; mn += 8) {
            for (u32 k = 0; k < depth; ++k) f(descriptor.mn_major(mn / 8, k), mn - first, k);
        }
    } else {
        for (u32 mn = first; mn < first + count; ++mn) {
            for (u32 part = 0; part < depth / 8; ++part) f(descriptor.k_major(mn, part), mn - first, 8 * part);
        }
    }
}

void check_operand(Worker& w, u64 bits, bool transposed, u32 first, u32 count, u32 time, u32 line) {
    Descriptor descriptor(bits);
    if (!descriptor.offset_free) fail("wgmma", line, "a descriptor's base offset (bits 49 to 51) must be 0: align tiles to 1024 bytes");
    Actor actor = warp_actor(w.self - w.self->lane, product_stamp(w, time), "wgmma");
    actor.async_proxy = true;
    each_chunk(descriptor, transposed, first, count, [&](u32 address, u32, u32) {
        u32 offset = address - shared_base;
        if (offset >= w.shared_bytes || chunk > w.shared_bytes - offset) [[unlikely]] bad_shared(address, chunk, false, line);
        if (w.cells) note_read(w, actor, offset, chunk, line);
    });
}

template <Operand KIND>
void fetch(const Worker& w, u64 bits, bool transposed, u32 first, u32 count, f32* out, u32 mn_pitch, u32 k_pitch) {
    each_chunk(Descriptor(bits), transposed, first, count, [&](u32 address, u32 mn, u32 k) {
        u32 words[4];
        std::memcpy(words, w.shared + (address - shared_base), chunk);
        f32* at = out + mn * mn_pitch + k * k_pitch;
        u32 step = transposed ? mn_pitch : k_pitch;
        for (u32 i = 0; i < 4; ++i) {
            at[2 * i * step] = low_value<KIND>(words[i]);
            at[(2 * i + 1) * step] = high_value<KIND>(words[i]);
        }
    });
}

// The values of a set of accumulators: row-major, 16 x columns. Lane l holds, with g = l / 4 and t = l % 4, as element
// 4j + i the one at (g + 8 * (i / 2), 8j + 2t + i % 2).
template <class F>
void each_accumulator(u32 columns, F f) {
    for (u32 lane = 0; lane < warp_size; ++lane) {
        for (u32 e = 0; e < columns / 2; ++e) {
            u32 i = e % 4;
            f(lane, e, (lane / 4 + 8 * (i / 2)) * columns + e / 4 * 8 + 2 * (lane % 4) + i % 2);
        }
    }
}

Accumulators& open_accumulators(ProductQueue& queue, const u64* lanes, u32 columns) {
    const ProductArguments& first = arguments_of(lanes, 0);
    for (Accumulators& set : queue.open) {
        if (set.registers[0] == first.d && set.columns == columns) return set;
    }
    Accumulators set = {};
    set.columns = columns;
    set.values.resize(rows * columns);
    for (u32 lane = 0; lane < warp_size; ++lane) set.registers[lane] = arguments_of(lanes, lane).d;
    each_accumulator(columns, [&set](u32 lane, u32 e, u32 at) {
        set.values[at] = set.registers[lane][e];
        std::memcpy(set.registers[lane] + e, &in_flight_bits, 4);
    });
    queue.open.push_back(std::move(set));
    return queue.open.back();
}

void close_accumulators(const Accumulators& set, u32 line) {
    each_accumulator(set.columns, [&](u32 lane, u32 e, u32 at) {
        if (std::memcmp(set.registers[lane] + e, &in_flight_bits, 4) != 0) [[unlikely]] {
            fail("in_flight", line, "accumulator " + std::to_string(e) + " of lane " + std::to_string(lane) +
                                        " was changed while the wgmma at line " + std::to_string(set.line) + " was writing it");
        }
        set.registers[lane][e] = set.values[at];
    });
}

template <Operand KIND>
void execute(Worker& w, ProductQueue& queue, const PendingProduct& product) {
    f32 a[rows * depth];
    f32* b = w.scheduler->operand_b;
    auto set = std::find_if(queue.open.begin(), queue.open.end(), [&](const Accumulators& s) {
        return s.registers[0] == product.accumulators && s.columns == product.columns;
    });
    if (product.rows.empty()) fetch<KIND>(w, product.a, product.a_transposed, warp_index(w) % 4 * rows, rows, a, depth, 1);
    else std::copy(product.rows.begin(), product.rows.end(), a);
    fetch<KIND>(w, product.b, product.b_transposed, 0, product.columns, b, 1, product.columns);
    if (!product.accumulate) std::fill(set->values.begin(), set->values.end(), 0.0f);
    if (w.launch->options.hopper) accumulate_as_hopper(a, b, set->values.data(), product.columns);
    else accumulate<depth>(a, b, set->values.data(), product.columns);
}

void execute_product(Worker& w, ProductQueue& queue, const PendingProduct& product) {
    if (product.operand == static_cast<u8>(Operand::bf16)) execute<Operand::bf16>(w, queue, product);
    else execute<Operand::f16>(w, queue, product);
}

void check_uniform(const u64* lanes, u32 line) {
    const ProductArguments& first = arguments_of(lanes, 0);
    for (u32 lane = 1; lane < warp_size; ++lane) {
        const ProductArguments& other = arguments_of(lanes, lane);
        bool same_call = other.a_descriptor == first.a_descriptor && other.b_descriptor == first.b_descriptor &&
                         other.accumulate == first.accumulate;
        if (!same_call) fail("wgmma", line, "lanes 0 and " + std::to_string(lane) + " of a warp pass different descriptors");
    }
}

std::vector<f32> rows_from_registers(const u64* lanes) {
    std::vector<f32> values(rows * depth);
    bool half = arguments_of(lanes, 0).operand == Operand::f16;
    for (u32 lane = 0; lane < warp_size; ++lane) {
        const u32* a = arguments_of(lanes, lane).a;
        if (half) spread_a<Operand::f16>(a, lane, values.data());
        else spread_a<Operand::bf16>(a, lane, values.data());
    }
    return values;
}

}  // namespace

void start_product(Worker& w, const u64* lanes, u32 line) {
    const ProductArguments& given = arguments_of(lanes, 0);
    ProductQueue& queue = queue_of(w);
    if (w.threads % 128 != 0) fail("wgmma", line, "wgmma takes whole warpgroups of 128 threads");
    if (!queue.fenced) fail("missing_fence", line, "wgmma without wgmma_fence since the warp's start or last wgmma_wait");
    check_uniform(lanes, line);
    u32 time = ++queue.issued;
    queue.line = line;
    if (!given.a) check_operand(w, given.a_descriptor, given.a_transposed, warp_index(w) % 4 * rows, rows, time, line);
    check_operand(w, given.b_descriptor, given.b_transposed, 0, given.columns, time, line);
    Accumulators& set = open_accumulators(queue, lanes, given.columns);
    set.last = time;
    set.line = line;
    PendingProduct product = {given.d, given.a_descriptor, given.b_descriptor, {}, given.columns, time, line,
                              static_cast<u8>(given.operand), given.a_transposed, given.b_transposed, given.accumulate};
    if (given.a) product.rows = rows_from_registers(lanes);
    bool waits = !queue.pending.empty();  // wgmma of one warp complete in order
    if (waits || defer(w)) queue.pending.push_back(std::move(product));
    else execute_product(w, queue, product);
}

void fence_products(Worker& w, const u64*, u32) { queue_of(w).fenced = true; }

void commit_products(Worker& w, const u64*, u32) {
    ProductQueue& queue = queue_of(w);
    queue.groups.push_back(queue.issued);
}

void wait_for_products(Worker& w, const u64* lanes, u32 line) {
    ProductQueue& queue = queue_of(w);
    queue.fenced = false;
    if (queue.groups.size() <= lanes[0]) return;
    std::size_t done = queue.groups.size() - lanes[0];
    u32 time = queue.done = queue.groups[done - 1];
    queue.groups.erase(queue.groups.begin(), queue.groups.begin() + static_cast<std::ptrdiff_t>(done));
    while (!queue.pending.empty() && queue.pending.front().time <= time) {
        execute_product(w, queue, queue.pending.front());
        queue.pending.erase(queue.pending.begin());
    }
    for (std::size_t i = queue.open.size(); i-- > 0;) {
        if (queue.open[i].last > time) continue;
        close_accumulators(queue.open[i], line);
        queue.open.erase(queue.open.begin() + static_cast<std::ptrdiff_t>(i));
    }
    Fiber* fibers = w.self - w.self->lane;
    for (u32 lane = 0; lane < warp_size; ++lane) {
        u32& known = fibers[lane].known[static_cast<u32>(Async::product)];
        known = std::max(known, product_stamp(w, time));
    }
}

void check_finished(Worker& w) {
    const StoreQueue& stores = w.scheduler->stores[w.self->index];
    if (stores.issued > stores.done) fail("in_flight", stores.line, "the thread ends without tma_commit and tma_wait for this TMA store");
    const ProductQueue& products = queue_of(w);
    if (products.issued > products.done) fail("in_flight", products.line, "the warp ends without wgmma_commit and wgmma_wait for this wgmma");
}

}  // namespace kg
