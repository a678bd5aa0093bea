#include "traffic.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

namespace kg {

namespace {

using Lanes = std::array<u64, warp_size>;
using Key = std::tuple<u32, Access, u32, u32>;  // line, kind, bytes, occurrence

bool is_load(Access access) { return access == Access::load || access == Access::copy; }

void count_global(Worker& w, Access access, u32 line, const u64* lanes, u32 bytes) {
    u64 sorted[warp_size], sectors = 0, previous = ~u64{0};
    u32 count = 0;
    for (u32 lane = 0; lane < warp_size; ++lane) {
        if (lanes[lane]) sorted[count++] = lanes[lane];
    }
    std::sort(sorted, sorted + count);
    u32 distinct = static_cast<u32>(std::unique(sorted, sorted + count) - sorted);
    for (u32 i = 0; i < distinct; ++i) {
        u64 slot = (sorted[i] - w.arena) >> w.slot_shift, sector = sorted[i] / 32;
        if (sector == previous) continue;
        previous = sector;
        ++sectors;
        ++(is_load(access) ? w.traffic[slot].load_sectors : w.traffic[slot].store_sectors);
    }
    if (count) add_to_line(w, access, line, static_cast<u32>(sectors), (distinct * bytes + 31) / 32);
}

bool same_sequence(const std::vector<LoggedAccess>& a, const std::vector<LoggedAccess>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const LoggedAccess& x, const LoggedAccess& y) {
        return x.line == y.line && x.access == y.access && x.bytes == y.bytes;
    });
}

void count_uniform(Worker& w, const std::vector<LoggedAccess>* logs) {
    for (std::size_t i = 0; i < logs[0].size(); ++i) {
        Lanes lanes;
        for (u32 lane = 0; lane < warp_size; ++lane) lanes[lane] = logs[lane][i].address;
        count_instruction(w, logs[0][i].access, logs[0][i].line, lanes.data(), logs[0][i].bytes);
    }
}

// Lanes that took different paths: the k-th access at a line is taken to be one instruction.
void count_divergent(Worker& w, const std::vector<LoggedAccess>* logs) {
    std::map<Key, Lanes> instructions;
    for (u32 lane = 0; lane < warp_size; ++lane) {
        std::map<std::tuple<u32, Access, u32>, u32> seen;
        for (const LoggedAccess& entry : logs[lane]) {
            u32 occurrence = seen[{entry.line, entry.access, entry.bytes}]++;
            instructions[{entry.line, entry.access, entry.bytes, occurrence}][lane] = entry.address;
        }
    }
    for (auto& [key, lanes] : instructions) {
        count_instruction(w, std::get<1>(key), std::get<0>(key), lanes.data(), std::get<2>(key));
    }
}

// Logs are of bounded length: in a long loop without collectives, lanes wait for one another here.
constexpr std::size_t longest_log = 512;

bool warp_is_here(const Worker& w) {
    u32 first = w.self->index - w.self->lane;
    for (u32 i = first; i < first + warp_size; ++i) {
        if (w.scheduler->fibers[i].wait == Wait::running && w.log->of[i].size() < longest_log) return false;
    }
    return true;
}

}  // namespace

void add_to_line(Worker& w, Access access, u32 line, u32 pieces, u32 ideal) {
    std::vector<LineCount>& lines = w.scheduler->lines;
    std::size_t at = line * access_kinds + static_cast<u32>(access);
    if (lines.size() <= at) lines.resize((line + 1) * access_kinds);
    ++lines[at].instructions;
    lines[at].pieces += pieces;
    lines[at].ideal += ideal;
}

// A wavefront serves 32 lanes of up to 4 bytes, 16 of 8 or 8 of 16, and from each bank one 4-byte word.
Wavefronts wavefronts_of(const u64* lanes, u32 count, u32 bytes) {
    u32 words = std::max(1u, bytes / 4), group = warp_size / words;
    Wavefronts sum = {};
    for (u32 begin = 0; begin < count; begin += group) {
        u64 seen[32][32];
        u32 found[32] = {}, most = 0;
        for (u32 i = begin; i < std::min(count, begin + group); ++i) {
            for (u32 part = 0; lanes[i] && part < words; ++part) {
                u64 word = lanes[i] / 4 + part;
                u32 bank = word % 32;
                if (std::find(seen[bank], seen[bank] + found[bank], word) != seen[bank] + found[bank]) continue;
                seen[bank][found[bank]++] = word;
                most = std::max(most, found[bank]);
            }
        }
        sum.taken += most;
        sum.ideal += most > 0;
    }
    return sum;
}

void count_instruction(Worker& w, Access access, u32 line, const u64* lanes, u32 bytes) {
    if (access < Access::shared_load) return count_global(w, access, line, lanes, bytes);
    Wavefronts found = wavefronts_of(lanes, warp_size, bytes);
    if (found.taken) add_to_line(w, access, line, found.taken, found.ideal);
}

void log_access(const void* p, Access access, u32 line, u32 bytes) {
    Worker& w = *worker;
    std::vector<LoggedAccess>& mine = w.log->of[w.self->index];
    mine.push_back({reinterpret_cast<u64>(p), line, access, static_cast<u8>(bytes)});
    while (mine.size() >= longest_log) [[unlikely]] {
        if (warp_is_here(w)) count_accesses(w, w.self->index - w.self->lane);
        else pass_turn(w);
    }
}

void count_accesses(Worker& w, u32 first_thread) {
    std::vector<LoggedAccess>* logs = w.log->of + first_thread;
    bool uniform = true;
    for (u32 lane = 1; lane < warp_size && uniform; ++lane) uniform = same_sequence(logs[0], logs[lane]);
    if (uniform) count_uniform(w, logs);
    else count_divergent(w, logs);
    for (u32 lane = 0; lane < warp_size; ++lane) logs[lane].clear();
}

}  // namespace kg
