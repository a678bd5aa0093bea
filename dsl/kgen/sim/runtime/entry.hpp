// Calls a kernel through an array of argument addresses, typed by the kernel's own signature.
#pragma once

#include <utility>

#include "state.hpp"

namespace kg {

// One letter per parameter, so that a caller can compare its arguments with the signature.
template <class T>
constexpr char letter() {
    if constexpr (std::is_pointer_v<T>) return 'p';
    else if constexpr (same<T, f32>) return 'f';
    else if constexpr (same<T, f64>) return 'd';
    else if constexpr (same<T, bool>) return 'b';
    else if constexpr (std::is_integral_v<T> && sizeof(T) == 4) return 'i';
    else if constexpr (std::is_integral_v<T> && sizeof(T) == 8) return 'l';
    else if constexpr (same<T, tensor_map>) return 'm';
    else return '?';
}

template <class... P>
const char* signature(void (*)(P...)) {
    static const char letters[] = {letter<P>()..., '\0'};
    return letters;
}

template <class T>
T argument(const void* address) {  // which may be aligned less than T
    std::remove_cv_t<T> value;
    std::memcpy(&value, address, sizeof(T));
    return value;
}

template <class... P, std::size_t... I>
void call_with(void (*kernel)(P...), void** arguments, std::index_sequence<I...>) {
    kernel(argument<P>(arguments[I])...);
}

template <class... P>
void call(void (*kernel)(P...), void** arguments) {
    call_with(kernel, arguments, std::index_sequence_for<P...>{});
}

}  // namespace kg
