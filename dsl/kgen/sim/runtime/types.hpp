// Element types of the simulator, with the conversions the hardware performs.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <math.h>
#include <type_traits>

#define KG_DEVICE inline __attribute__((always_inline))

using i8 = signed char;
using u8 = unsigned char;
using i16 = short;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;
using f32 = float;
using f64 = double;

struct bf16 {
    u16 bits;
};

struct f16 {
    u16 bits;
};

template <class T, int N>
struct alignas(sizeof(T) * N) vec {
    T data[N];
    T& operator[](int i) { return data[i]; }
    const T& operator[](int i) const { return data[i]; }
};

namespace kg {

template <class A, class B> constexpr bool same = std::is_same_v<A, B>;
template <class T> constexpr bool is_half = same<T, bf16> || same<T, f16>;
template <class T> constexpr bool is_float = same<T, f32> || same<T, f64>;
template <class T> constexpr bool one_access = std::has_single_bit(sizeof(T)) && sizeof(T) <= 16;
template <class T> using just = std::type_identity_t<T>;

template <class To, class From>
KG_DEVICE To float_to_int(From x) {
    using Wide = std::conditional_t<(sizeof(To) < 4), i32, To>;
    if (x != x) return To(0);
    if (x <= static_cast<From>(std::numeric_limits<Wide>::min())) return static_cast<To>(std::numeric_limits<Wide>::min());
    if (x >= static_cast<From>(std::numeric_limits<Wide>::max())) return static_cast<To>(std::numeric_limits<Wide>::max());
    return static_cast<To>(static_cast<Wide>(x));
}

constexpr u16 nan16 = 0x7fff;  // what the hardware's cvt writes for any NaN, in both 16-bit formats

}  // namespace kg

KG_DEVICE f32 to_f32(bf16 x) { return std::bit_cast<f32>(static_cast<u32>(x.bits) << 16); }

inline f32 to_f32(f16 x) {
    u32 sign = static_cast<u32>(x.bits & 0x8000) << 16, magnitude = x.bits & 0x7fff;
    if (magnitude < 0x0400) {  // zero and subnormal: multiples of 2^-24
        f32 value = static_cast<f32>(magnitude) * 0x1p-24f;
        return sign ? -value : value;
    }
    u32 rebias = magnitude >= 0x7c00 ? 0x70000000u : 0x38000000u;
    return std::bit_cast<f32>(sign | ((magnitude << 13) + rebias));
}

template <class T> KG_DEVICE f32 to_f32(T x) { return static_cast<f32>(x); }

template <class T> KG_DEVICE T from_f32(f32 x) { return static_cast<T>(x); }

template <>
KG_DEVICE bf16 from_f32<bf16>(f32 x) {
    u32 bits = std::bit_cast<u32>(x);
    if (x != x) return {kg::nan16};
    return {static_cast<u16>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}

template <>
inline f16 from_f32<f16>(f32 x) {
    u32 bits = std::bit_cast<u32>(x), sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return {kg::nan16};
    if (magnitude >= 0x477ff000) return {static_cast<u16>(sign | 0x7c00)};  // 65520 and above round to infinity
    if (magnitude < 0x38800000) {  // below 2^-14: adding 0.5, whose last place is 2^-24, rounds to a multiple of 2^-24
        f32 rounded = std::bit_cast<f32>(magnitude) + 0.5f;
        return {static_cast<u16>(sign | (std::bit_cast<u32>(rounded) - 0x3f000000))};
    }
    u32 rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
    return {static_cast<u16>(sign | ((rounded - 0x38000000) >> 13))};
}
