#include "accumulate.hpp"

#include <algorithm>

namespace kg {

namespace {

constexpr int fraction_bits = 25;

f32 toward_zero(i64 sum, int exponent) {
    u64 magnitude = static_cast<u64>(sum < 0 ? -sum : sum);
    int excess = static_cast<int>(std::bit_width(magnitude)) - 24;
    if (excess > 0) magnitude = magnitude >> excess << excess;
    f64 value = std::ldexp(static_cast<f64>(magnitude), exponent - fraction_bits);
    return static_cast<f32>(sum < 0 ? -value : value);
}

// The 16 products and c are aligned to the largest of their exponents, truncated, added as integers, and truncated.
// A product's exponent is the sum of its factors', not normalised.
f32 sum_of_products(const f32* a, const f32* b, u32 stride, f32 c) {
    int exponents[17], largest = -10000;
    f64 terms[17];
    for (u32 k = 0; k <= 16; ++k) {
        f32 x = k < 16 ? a[k] : c, y = k < 16 ? b[k * stride] : 1.0f;
        terms[k] = static_cast<f64>(x) * y;
        exponents[k] = x != 0 && y != 0 ? std::ilogb(x) + std::ilogb(y) : -10000;
        largest = std::max(largest, exponents[k]);
    }
    if (!std::all_of(terms, terms + 17, [](f64 t) { return std::isfinite(t); })) {
        f32 sum = c;
        for (u32 k = 0; k < 16; ++k) sum += static_cast<f32>(terms[k]);
        return sum;
    }
    if (largest == -10000) return c + static_cast<f32>(terms[0]);  // zeros only
    i64 sum = 0;
    for (f64 term : terms) sum += static_cast<i64>(std::ldexp(term, fraction_bits - largest));
    return toward_zero(sum, largest);
}

}  // namespace

void accumulate_as_hopper(const f32* a, const f32* b, f32* d, u32 columns) {
    for (u32 row = 0; row < 16; ++row) {
        for (u32 column = 0; column < columns; ++column) {
            f32& target = d[row * columns + column];
            target = sum_of_products(a + row * 16, b + column, columns, target);
        }
    }
}

}  // namespace kg
