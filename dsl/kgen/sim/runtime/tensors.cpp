#include "tensors.hpp"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>

namespace kg {

namespace {

constexpr u64 page = 4096;

u64 slot_bits(const TensorRequest* requests, u32 count) {
    u64 largest = 0;
    for (u32 i = 0; i < count; ++i) largest = std::max(largest, requests[i].bytes);
    return std::max<u64>(20, static_cast<u64>(std::bit_width(4 * (largest + page))));
}

// Elements of the view belong to nobody yet; what lies between them belongs to no one ever.
u32* block_marks(const TensorRequest& request) {
    u64 elements = request.bytes / request.item;
    u32* marks = new u32[elements];
    std::fill(marks, marks + elements, not_in_view);
    each_element(request.rank, request.sizes, request.strides, [&](u64 offset) { marks[offset] = nobody; });
    return marks;
}

bool open_pages(u64 address, u64 bytes) {
    u64 begin = address / page * page, end = (address + bytes + page - 1) / page * page;
    return bytes == 0 || mprotect(reinterpret_cast<void*>(begin), end - begin, PROT_READ | PROT_WRITE) == 0;
}

void add_tensor(Launch& launch, const TensorRequest& request) {
    Allocation tensor = {request.address, request.bytes, request.item, static_cast<Role>(request.role), nullptr, nullptr, nullptr, nullptr};
    bool marked = launch.options.check_outputs && request.bytes > 0 && tensor.role != Role::in;
    if (marked) tensor.writer = block_marks(request);
    if (marked && tensor.role == Role::inout) tensor.reader = new u32[request.bytes / request.item]{};
    if (launch.options.count_sectors) {
        tensor.loaded = new u8[request.bytes / request.item + 1]{};
        tensor.stored = new u8[request.bytes / request.item + 1]{};
    }
    launch.allocations.push_back(tensor);
    launch.names.emplace_back(request.name);
}

}  // namespace

bool place_tensors(Launch& launch, TensorRequest* requests, u32 count) {
    launch.slot_shift = static_cast<u32>(slot_bits(requests, count));
    u64 slot = u64{1} << launch.slot_shift;
    launch.arena_bytes = std::max<u64>(count, 1) * slot;
    void* memory = mmap(nullptr, launch.arena_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    launch.arena = reinterpret_cast<u64>(memory);
    for (u32 i = 0; i < count; ++i) {
        requests[i].address = launch.arena + i * slot + slot / 4 + requests[i].misalignment;
        if (!open_pages(requests[i].address, requests[i].bytes)) return false;
        add_tensor(launch, requests[i]);
    }
    return true;
}

void free_tensors(Launch& launch) {
    for (Allocation& tensor : launch.allocations) {
        delete[] tensor.writer;
        delete[] tensor.reader;
        delete[] tensor.loaded;
        delete[] tensor.stored;
    }
    if (launch.arena) munmap(reinterpret_cast<void*>(launch.arena), launch.arena_bytes);
}

// Every element of an output must have been written.
void check_coverage(Launch& launch) {
    for (std::size_t i = 0; i < launch.allocations.size(); ++i) {
        const Allocation& tensor = launch.allocations[i];
        if (tensor.role != Role::out || !tensor.writer) continue;
        u64 elements = tensor.bytes / tensor.item, missing = 0, first = 0;
        for (u64 e = elements; e-- > 0;) {
            if (tensor.writer[e] != nobody) continue;
            ++missing;
            first = e;
        }
        if (missing == 0) continue;
        record(launch, Fault{"coverage",
                             std::to_string(missing) + " elements of tensor '" + launch.names[i] + "' were not written, the first at element " +
                                 std::to_string(first) + " (byte offset " + std::to_string(first * tensor.item) + ")",
                             -1, -1, 0, 0});
    }
}

}  // namespace kg
