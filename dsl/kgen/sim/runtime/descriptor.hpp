// Matrix descriptors of wgmma: where in shared memory the 16-byte chunks of an operand lie.
#pragma once

#include "types.hpp"

namespace kg {

struct Descriptor {
    u32 start, leading, stride, span;  // bytes; span: of the swizzle, or 0
    bool offset_free;                  // the base offset, which the simulator does not know, is 0

    explicit Descriptor(u64 bits)
        : start(field(bits)), leading(field(bits >> 16)), stride(field(bits >> 32)), span(bits >> 62 ? 256u >> (bits >> 62) : 0),
          offset_free((bits >> 49 & 7) == 0) {}

    // Eight elements along the contiguous dimension. K-major (not transposed): (mn, 8 * part + 0..7) for mn of the
    // rows of A or columns of B; transposed: (8 * part + 0..7, k), elements along mn.
    u32 k_major(u32 mn, u32 part) const {
        if (span) return swizzle(start + mn % 8 * span + mn / 8 * stride + 16 * part);
        return start + mn % 8 * 16 + mn / 8 * stride + part * leading;
    }

    u32 mn_major(u32 part, u32 k) const {
        u32 mn = 8 * part, wide = span / 2;
        if (span) return swizzle(start + 2 * (mn % wide) + mn / wide * leading + k % 8 * span + k / 8 * stride);
        return start + part * stride + k % 8 * 16 + k / 8 * leading;
    }

  private:
    static u32 field(u64 bits) { return static_cast<u32>(bits & 0x3fff) << 4; }
    u32 swizzle(u32 address) const { return address ^ (address >> 3 & (span - 16)); }
};

}  // namespace kg
