#include "async.hpp"

#include "launch.hpp"
#include "shadow.hpp"

namespace kg {

namespace {

void execute(Worker& w, const PendingCopy& copy) {
    unsigned char* target = w.shared + (copy.address - shared_base);
    if (copy.present) std::memcpy(target, copy.source, copy.present);
    std::memset(target + copy.present, 0, copy.bytes - copy.present);
}

u32 copy_stamp(const Worker& w, u32 time) { return make_stamp(Agents{w.threads}.copies(w.self->index), time); }

}  // namespace

// Lazy operations run at the last legal moment; with a seed, chance decides for each.
bool defer(Worker& w) {
    Scheduler& s = *w.scheduler;
    if (!w.launch->options.lazy) return false;
    return !s.random || next_random(s.random) % 2 == 0;
}

void start_copy(u32 address, const void* p, u32 bytes, u32 present, u32 line) {
    Worker& w = *worker;
    CopyQueue& queue = w.scheduler->copies[w.self->index];
    ++queue.issued;
    if (w.cells) {
        Actor actor = thread_actor(*w.self, copy_stamp(w, queue.issued), "cp.async");
        note_write(w, actor, address - shared_base, bytes, line);
    }
    PendingCopy copy = {p, address, bytes, queue.issued, present};
    if (defer(w)) queue.pending.push_back(copy);
    else execute(w, copy);
}

void commit_copies() {
    Worker& w = *worker;
    CopyQueue& queue = w.scheduler->copies[w.self->index];
    queue.groups.push_back(queue.issued);
}

// Copies that no group holds are not waited for.
void wait_for_copies(u32 groups_in_flight, u32) {
    Worker& w = *worker;
    CopyQueue& queue = w.scheduler->copies[w.self->index];
    if (queue.groups.size() <= groups_in_flight) return;
    std::size_t done = queue.groups.size() - groups_in_flight;
    u32 time = queue.groups[done - 1];
    queue.groups.erase(queue.groups.begin(), queue.groups.begin() + static_cast<std::ptrdiff_t>(done));
    u32& known = w.self->known[static_cast<u32>(Async::copy)];
    known = std::max(known, copy_stamp(w, time));
    auto first_open = std::find_if(queue.pending.begin(), queue.pending.end(), [time](const PendingCopy& c) { return c.time > time; });
    for (auto copy = queue.pending.begin(); copy != first_open; ++copy) execute(w, *copy);
    queue.pending.erase(queue.pending.begin(), first_open);
}

}  // namespace kg
