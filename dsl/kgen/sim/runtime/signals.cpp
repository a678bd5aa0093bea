// Crashes and endless loops inside kernel text become faults of the launch.
#include <csignal>
#include <dlfcn.h>
#include <string>
#include <ucontext.h>

#include "launch.hpp"

namespace kg {

namespace {

constexpr int crash_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
struct sigaction old_crash[4], old_watchdog;

u64 program_counter(const void* context) {
    auto* machine = &static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
    return static_cast<u64>(machine->gregs[REG_RIP]);
#else
    return machine->pc;
#endif
}

std::string crash_text(int signal, const siginfo_t* info) {
    const Worker& w = *worker;
    if (signal == SIGFPE) return "integer division by zero";
    if (signal == SIGILL) return "undefined behaviour caught by the sanitizer";
    if (w.scheduler->stacks.in_guard(info->si_addr)) return "stack overflow: the thread's variables take too much memory";
    return "access to invalid memory not through ldg, stg, lds or sts (signal " + std::to_string(signal) + ")";
}

u64 code_offset(u64 address) {
    Dl_info library;
    return dladdr(reinterpret_cast<void*>(address), &library) ? address - reinterpret_cast<u64>(library.dli_fbase) : 0;
}

bool in_kernel_text(u64 address) {
    return address >= worker->launch->code_begin && address < worker->launch->code_end;
}

void on_crash(int signal, siginfo_t* info, void* context) {
    if (!worker || !worker->in_block) {  // not ours: returning repeats the instruction under the old handler
        for (int i = 0; i < 4; ++i) sigaction(crash_signals[i], &old_crash[i], nullptr);
        return;
    }
    fail("crash", 0, crash_text(signal, info), code_offset(program_counter(context)));
}

// Only kernel text may be abandoned at any instruction; the runtime notices the limit at its next switch.
void on_watchdog(int, siginfo_t*, void* context) {
    u64 address = program_counter(context);
    if (!worker || !worker->in_block || !in_kernel_text(address)) return;
    fail("timeout", 0, "the time limit has passed", code_offset(address));
}

}  // namespace

int watchdog_signal() { return SIGRTMIN + 3; }

SignalGuard::SignalGuard() {
    struct sigaction action = {};
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    action.sa_sigaction = on_crash;
    for (int i = 0; i < 4; ++i) sigaction(crash_signals[i], &action, &old_crash[i]);
    action.sa_sigaction = on_watchdog;
    sigaction(watchdog_signal(), &action, &old_watchdog);
}

SignalGuard::~SignalGuard() {
    for (int i = 0; i < 4; ++i) sigaction(crash_signals[i], &old_crash[i], nullptr);
    sigaction(watchdog_signal(), &old_watchdog, nullptr);
}

}  // namespace kg
