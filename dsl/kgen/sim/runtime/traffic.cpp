#include "traffic.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "launch.hpp"

namespace kg {

namespace {

using Key = std::tuple<u32, Access, u32>;  // line, kind, occurrence

void add_instruction(Worker& w, Access access, u64* addresses, u32 count) {
    for (u32 i = 0; i < count; ++i) addresses[i] /= 32;
    std::sort(addresses, addresses + count);
    u64* end = std::unique(addresses, addresses + count);
    for (u64* sector = addresses; sector != end; ++sector) {
        Traffic& traffic = w.traffic[(*sector * 32 - w.arena) >> w.slot_shift];
        if (access == Access::load || access == Access::copy) ++traffic.load_sectors;
        else ++traffic.store_sectors;
    }
}

bool same_sequence(const std::vector<LoggedAccess>& a, const std::vector<LoggedAccess>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const LoggedAccess& x, const LoggedAccess& y) {
        return x.line == y.line && x.access == y.access;
    });
}

void count_uniform(Worker& w, const std::vector<LoggedAccess>* lanes) {
    for (std::size_t i = 0; i < lanes[0].size(); ++i) {
        u64 addresses[warp_size];
        u32 count = 0;
        for (u32 lane = 0; lane < warp_size; ++lane) {
            if (u64 address = lanes[lane][i].address) addresses[count++] = address;
        }
        add_instruction(w, lanes[0][i].access, addresses, count);
    }
}

// Lanes that took different paths: the k-th access at a line is taken to be one instruction.
void count_divergent(Worker& w, const std::vector<LoggedAccess>* lanes) {
    std::map<Key, std::vector<u64>> instructions;
    for (u32 lane = 0; lane < warp_size; ++lane) {
        std::map<std::pair<u32, Access>, u32> seen;
        for (const LoggedAccess& entry : lanes[lane]) {
            u32 occurrence = seen[{entry.line, entry.access}]++;
            if (entry.address) instructions[{entry.line, entry.access, occurrence}].push_back(entry.address);
        }
    }
    for (auto& [key, addresses] : instructions) {
        add_instruction(w, std::get<1>(key), addresses.data(), static_cast<u32>(addresses.size()));
    }
}

// Logs are of bounded length: in a long loop without collectives, lanes wait for one another here.
constexpr std::size_t longest_log = 4096;

bool warp_is_here(const Worker& w) {
    u32 first = w.self->index - w.self->lane;
    for (u32 i = first; i < first + warp_size; ++i) {
        if (w.scheduler->fibers[i].wait == Wait::running && w.log->of[i].size() < longest_log) return false;
    }
    return true;
}

}  // namespace

void log_access(const void* p, Access access, u32 line) {
    Worker& w = *worker;
    std::vector<LoggedAccess>& mine = w.log->of[w.self->index];
    mine.push_back({reinterpret_cast<u64>(p), line, access});
    while (mine.size() >= longest_log) [[unlikely]] {
        if (warp_is_here(w)) count_sectors(w, w.self->index - w.self->lane);
        else pass_turn(w);
    }
}

void count_sectors(Worker& w, u32 first_thread) {
    std::vector<LoggedAccess>* lanes = w.log->of + first_thread;
    bool uniform = true;
    for (u32 lane = 1; lane < warp_size && uniform; ++lane) uniform = same_sequence(lanes[0], lanes[lane]);
    if (uniform) count_uniform(w, lanes);
    else count_divergent(w, lanes);
    for (u32 lane = 0; lane < warp_size; ++lane) lanes[lane].clear();
}

}  // namespace kg
