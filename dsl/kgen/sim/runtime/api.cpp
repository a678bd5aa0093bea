// The C interface that the Python side calls.
#include <cstring>

#include "tensors.hpp"

using kg::Launch;

extern "C" {

// Returns a launch whose tensors have addresses (written into `tensors`), or null if there is no memory.
Launch* kgs_open(const kg::Options* options, kg::TensorRequest* tensors, u32 count) {
    auto* launch = new Launch;
    launch->options = *options;
    if (kg::place_tensors(*launch, tensors, count)) return launch;
    kg::free_tensors(*launch);
    delete launch;
    return nullptr;
}

// Runs all blocks; `arguments` holds the address of each kernel argument. One run per launch, one launch at a time.
void kgs_run(Launch* launch, void (*entry)(void**), void** arguments) {
    launch->entry = entry;
    launch->arguments = arguments;
    kg::run_launch(*launch);
    launch->report = kg::report_text(*launch);
}

// Faults and counters as JSON; valid until the launch is closed.
const char* kgs_report(const Launch* launch) { return launch->report.c_str(); }

// Executed tiles as rows of (block, loop, start, masked); returns their number.
u64 kgs_tiles(const Launch* launch, const i64** rows) {
    static_assert(sizeof(kg::Tile) == 4 * sizeof(i64));
    *rows = reinterpret_cast<const i64*>(launch->tiles.data());
    return launch->tiles.size();
}

void kgs_close(Launch* launch) {
    kg::free_tensors(*launch);
    delete launch;
}

}
