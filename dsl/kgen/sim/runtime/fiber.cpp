#include "fiber.hpp"

#include <cstdint>
#include <cstring>
#include <new>
#include <sys/mman.h>

namespace kg {

#if defined(__x86_64__)

// Only the registers that a call must preserve need saving: the compiler saved the others before calling.
asm(R"(
    .text
    .globl kg_switch_stack
    .type kg_switch_stack, @function
kg_switch_stack:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size kg_switch_stack, .-kg_switch_stack
)");
extern "C" void kg_switch_stack(void** save, void* load);

void prepare(Context& context, unsigned char* stack, std::size_t bytes, void (*entry)()) {
    auto* top = reinterpret_cast<std::uintptr_t*>(stack + bytes);
    *--top = 0;  // entry sees a stack 8 bytes off 16-byte alignment, as after a call
    *--top = reinterpret_cast<std::uintptr_t>(entry);
    for (int saved = 0; saved < 6; ++saved) *--top = 0;
    context.stack_pointer = top;
}

void switch_to(Context& from, Context& to) { kg_switch_stack(&from.stack_pointer, to.stack_pointer); }

#else

void prepare(Context& context, unsigned char* stack, std::size_t bytes, void (*entry)()) {
    getcontext(&context.machine);
    context.machine.uc_stack.ss_sp = stack;
    context.machine.uc_stack.ss_size = bytes;
    context.machine.uc_link = nullptr;
    makecontext(&context.machine, entry, 0);
}

void switch_to(Context& from, Context& to) { swapcontext(&from.machine, &to.machine); }

#endif

Stacks::~Stacks() {
    if (base_) munmap(base_, count_ * pitch());
}

void Stacks::reserve(unsigned count) {
    if (count <= count_) return;
    if (base_) munmap(base_, count_ * pitch());
    base_ = nullptr;
    count_ = 0;
    void* memory = mmap(nullptr, count * pitch(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<unsigned char*>(memory);
    count_ = count;
    for (unsigned fiber = 0; fiber < count; ++fiber) mprotect(at(fiber) - guard, guard, PROT_NONE);
}

// Refills the pages that the last block used: the top ones always, deeper ones only down to two untouched ones.
void Stacks::poison(unsigned fiber) {
    constexpr std::size_t page = 4096, always = 4 * page;
    unsigned char* stack = at(fiber);
    int clean = 0;
    for (std::size_t end = bytes_each; end >= page && clean < 2; end -= page) {
        unsigned char* low = stack + end - page;
        bool uniform = std::memcmp(low, low + 1, page - 1) == 0;
        bool deep = bytes_each - end >= always;
        if (uniform && (low[0] == 0xff || (deep && low[0] == 0))) {
            clean += deep;
        } else {
            std::memset(low, 0xff, page);
            clean = 0;
        }
    }
}

bool Stacks::in_guard(const void* address) const {
    auto* byte = static_cast<const unsigned char*>(address);
    if (!base_ || byte < base_ || byte >= base_ + count_ * pitch()) return false;
    return (byte - base_) % pitch() < guard;
}

}  // namespace kg
