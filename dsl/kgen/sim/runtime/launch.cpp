// Runs a launch: workers take blocks from a counter, a watchdog ends what does not end.
#include "launch.hpp"

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <link.h>
#include <memory>
#include <thread>

#include "traffic.hpp"

namespace kg {

namespace {

// Stacks and shadows are costly to make, so workers outlive launches. Launches do not overlap.
std::vector<std::unique_ptr<Scheduler>> schedulers;

struct AlternateStack {  // where signal handlers run: the fiber's own stack may be what failed
    std::vector<char> memory = std::vector<char>(64 * 1024);
    stack_t old = {};
    AlternateStack() {
        stack_t mine = {};
        mine.ss_sp = memory.data();
        mine.ss_size = memory.size();
        sigaltstack(&mine, &old);
    }
    ~AlternateStack() { sigaltstack(&old, nullptr); }
};

void reserve_shared(Scheduler& s, const Options& options) {
    s.shared_memory.resize(options.shared_bytes + 1024);
    u64 address = reinterpret_cast<u64>(s.shared_memory.data());
    s.shared = s.shared_memory.data() + (1024 - address % 1024) % 1024;
    if (options.check_races) s.cells.resize(options.shared_bytes + 16);  // granules of one byte, whole words
}

void reset(Scheduler& s, Launch& launch) {
    const Options& options = launch.options;
    s.stacks.reserve(options.block);
    reserve_shared(s, options);
    for (Fiber& fiber : s.fibers) fiber.view = fiber.fence_view = nullptr;
    for (NamedBarrier& barrier : s.barrier) barrier = {};
    s.mbarriers.clear();
    s.clocks.resize(0);
    s.clocks.resize(Agents{options.block}.count());
    s.random = options.seed;
    s.barriers = s.collectives = s.blocks = 0;
    std::fill(s.instructions, s.instructions + op_count, 0);
    s.traffic.assign(launch.allocations.size(), Traffic{});
    s.lines.clear();
    s.tiles.clear();
    s.tile_owner.clear();
}

Worker make_worker(Scheduler& s, Launch& launch, TrafficLog* log) {
    const Options& options = launch.options;
    Worker w = {};
    w.arena = launch.arena;
    w.slot_shift = launch.slot_shift;
    w.tensors = static_cast<u32>(launch.allocations.size());
    w.allocations = launch.allocations.data();
    w.traffic = s.traffic.data();
    w.log = log;
    w.shared = s.shared;
    w.shared_bytes = options.shared_bytes;
    w.granule_shift = 2;
    w.cells = options.check_races ? s.cells.data() : nullptr;
    w.threads = options.block;
    w.grid = options.grid;
    w.scheduler = &s;
    w.launch = &launch;
    return w;
}

void merge_lines(const std::vector<LineCount>& from, std::vector<LineCount>& sum) {
    sum.resize(std::max(sum.size(), from.size()));
    for (std::size_t i = 0; i < from.size(); ++i) {
        sum[i].instructions += from[i].instructions;
        sum[i].pieces += from[i].pieces;
        sum[i].ideal += from[i].ideal;
    }
}

void merge(Scheduler& s, Launch& launch, u64 special) {
    std::lock_guard<std::mutex> guard(launch.mutex);
    merge_lines(s.lines, launch.lines);
    launch.special += special;
    for (std::size_t i = 0; i < s.traffic.size(); ++i) {
        Traffic& sum = launch.traffic[i];
        sum.loaded += s.traffic[i].loaded;
        sum.stored += s.traffic[i].stored;
        sum.atomics += s.traffic[i].atomics;
        sum.load_sectors += s.traffic[i].load_sectors;
        sum.store_sectors += s.traffic[i].store_sectors;
    }
    launch.tiles.insert(launch.tiles.end(), s.tiles.begin(), s.tiles.end());
    launch.barriers += s.barriers;
    launch.collectives += s.collectives;
    launch.blocks += s.blocks;
    for (u32 op = 0; op < op_count; ++op) launch.instructions[op] += s.instructions[op];
}

void work(Scheduler& s, Launch& launch) {
    AlternateStack alternate;
    std::unique_ptr<TrafficLog> log;
    if (launch.options.count_sectors) log = std::make_unique<TrafficLog>();
    reset(s, launch);
    Worker mine = make_worker(s, launch, log.get());
    worker = &mine;
    while (!launch.stop) {
        u64 block = launch.next_block++;
        if (block >= launch.options.grid) break;
        run_block(mine, static_cast<u32>(block));
    }
    worker = nullptr;
    merge(s, launch, mine.special);
}

// Finds the machine code of the library that holds the kernel.
int find_code(dl_phdr_info* info, std::size_t, void* data) {
    Launch& launch = *static_cast<Launch*>(data);
    u64 entry = reinterpret_cast<u64>(launch.entry);
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto& segment = info->dlpi_phdr[i];
        u64 begin = info->dlpi_addr + segment.p_vaddr;
        if (segment.p_type != PT_LOAD || entry < begin || entry >= begin + segment.p_memsz) continue;
        launch.code_begin = begin;
        launch.code_end = begin + segment.p_memsz;
        return 1;
    }
    return 0;
}

struct Countdown {
    std::mutex mutex;
    std::condition_variable changed;
    u32 left;
};

void watch(Launch& launch, Countdown& countdown, std::vector<std::thread>& threads) {
    std::unique_lock<std::mutex> lock(countdown.mutex);
    auto done = [&] { return countdown.left == 0; };
    auto limit = std::chrono::duration<f64>(launch.options.time_limit);
    if (countdown.changed.wait_for(lock, limit, done)) return;
    launch.expired = true;
    do {
        for (std::thread& thread : threads) pthread_kill(thread.native_handle(), watchdog_signal());
    } while (!countdown.changed.wait_for(lock, std::chrono::milliseconds(5), done));
}

}  // namespace

void run_launch(Launch& launch) {
    SignalGuard signals;
    dl_iterate_phdr(find_code, &launch);
    launch.traffic.assign(launch.allocations.size(), Traffic{});
    u32 count = std::max(1u, std::min(launch.options.workers, launch.options.grid));
    while (schedulers.size() < count) schedulers.push_back(std::make_unique<Scheduler>());
    Countdown countdown;
    countdown.left = count;
    std::vector<std::thread> threads;
    for (u32 i = 0; i < count; ++i) {
        threads.emplace_back([&launch, &countdown, i] {
            work(*schedulers[i], launch);
            std::lock_guard<std::mutex> guard(countdown.mutex);
            if (--countdown.left == 0) countdown.changed.notify_all();
        });
    }
    watch(launch, countdown, threads);
    for (std::thread& thread : threads) thread.join();
    if (launch.faults.empty() && launch.options.check_outputs) check_coverage(launch);
}

}  // namespace kg
