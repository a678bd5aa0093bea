// Switching between the stacks of simulated threads.
#pragma once

#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace kg {

#if defined(__x86_64__)
struct Context {
    void* stack_pointer;
};
#else
struct Context {
    ucontext_t machine;
};
#endif

// Makes `context` start `entry` (which never returns) on the given stack at the next switch to it.
void prepare(Context& context, unsigned char* stack, std::size_t bytes, void (*entry)());

// Saves the running context in `from` and continues `to`.
void switch_to(Context& from, Context& to);

// Stacks for n fibers, each above an inaccessible page, filled with 0xff so that registers start as NaN.
class Stacks {
  public:
    static constexpr std::size_t bytes_each = 256 * 1024;
    ~Stacks();
    void reserve(unsigned count);
    unsigned char* at(unsigned fiber) { return base_ + fiber * pitch() + guard; }
    void poison(unsigned fiber);
    // True if the address lies in the inaccessible page below some stack.
    bool in_guard(const void* address) const;

  private:
    static constexpr std::size_t guard = 4096;
    static constexpr std::size_t pitch() { return bytes_each + guard; }
    unsigned char* base_ = nullptr;
    unsigned count_ = 0;
};

}  // namespace kg
