// Mathematical functions under their CUDA names. C's own (expf, tanhf, fmaf, ...) come from <math.h>.
#pragma once

#include "state.hpp"

namespace kg {

// A call that needs the special-function unit.
KG_DEVICE f32 special(f32 value) {
    ++worker->special;
    return value;
}

}  // namespace kg

// CUDA's names of such functions, counted. Macros, because the names belong to <math.h>.
KG_DEVICE f32 kg_expf(f32 x) { return kg::special(expf(x)); }
KG_DEVICE f32 kg_exp2f(f32 x) { return kg::special(exp2f(x)); }
KG_DEVICE f32 kg_logf(f32 x) { return kg::special(logf(x)); }
KG_DEVICE f32 kg_log2f(f32 x) { return kg::special(log2f(x)); }
KG_DEVICE f32 kg_sqrtf(f32 x) { return kg::special(sqrtf(x)); }
KG_DEVICE f32 kg_sinf(f32 x) { return kg::special(sinf(x)); }
KG_DEVICE f32 kg_cosf(f32 x) { return kg::special(cosf(x)); }
KG_DEVICE f32 kg_tanhf(f32 x) { return kg::special(tanhf(x)); }
KG_DEVICE f32 rsqrtf(f32 x) { return kg::special(1.0f / sqrtf(x)); }
KG_DEVICE f64 rsqrt(f64 x) { return 1.0 / sqrt(x); }

namespace kg {

KG_DEVICE f32 flush_subnormal(f32 x) { return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x; }

}  // namespace kg

// ex2.approx.ftz and lg2.approx.ftz: subnormal inputs and results are zero. The hardware's last bits differ (1.4e-7).
KG_DEVICE f32 ex2(f32 x) { return kg::special(kg::flush_subnormal(exp2f(kg::flush_subnormal(x)))); }
KG_DEVICE f32 lg2(f32 x) { return kg::special(log2f(kg::flush_subnormal(x))); }

// max_nan, min_nan: NaN if either operand is NaN (torch.maximum). max_num, min_num: the other operand (IEEE maxNum).
template <class T>
KG_DEVICE T max_nan(T a, kg::just<T> b) {
    return a != a ? a : b != b ? b : (a > b ? a : b);
}

template <class T>
KG_DEVICE T min_nan(T a, kg::just<T> b) {
    return a != a ? a : b != b ? b : (a < b ? a : b);
}

template <class T>
KG_DEVICE T max_num(T a, kg::just<T> b) {
    return a != a ? b : b != b ? a : (a > b ? a : b);
}

template <class T>
KG_DEVICE T min_num(T a, kg::just<T> b) {
    return a != a ? b : b != b ? a : (a < b ? a : b);
}

// CUDA's overloaded min and max of equal or mixed arithmetic types.
template <class A, class B>
KG_DEVICE std::common_type_t<A, B> min(A a, B b) {
    using T = std::common_type_t<A, B>;
    return min_num<T>(a, b);
}

template <class A, class B>
KG_DEVICE std::common_type_t<A, B> max(A a, B b) {
    using T = std::common_type_t<A, B>;
    return max_num<T>(a, b);
}

#define expf(x) kg_expf(x)
#define exp2f(x) kg_exp2f(x)
#define logf(x) kg_logf(x)
#define log2f(x) kg_log2f(x)
#define sqrtf(x) kg_sqrtf(x)
#define sinf(x) kg_sinf(x)
#define cosf(x) kg_cosf(x)
#define tanhf(x) kg_tanhf(x)
