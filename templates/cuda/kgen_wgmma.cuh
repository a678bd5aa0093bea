// kgen_wgmma.cuh: the instructions m64nNk16 of kgen_hopper.cuh, for every width N. Include kgen.cuh, not this file.
//
// An instruction's operands are counted: N / 2 accumulators, then A and B, the predicate and the transpositions; so its
// text needs the accumulators' list (KG_LIST_N), and P0, P1, ...: the operands after them.
#pragma once

#define KG_LIST_8 "%0, %1, %2, %3"
#define KG_BIND_8 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define KG_LIST_16 KG_LIST_8 ", %4, %5, %6, %7"
#define KG_BIND_16 KG_BIND_8, "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define KG_LIST_24 KG_LIST_16 ", %8, %9, %10, %11"
#define KG_BIND_24 KG_BIND_16, "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
#define KG_LIST_32 KG_LIST_24 ", %12, %13, %14, %15"
#define KG_BIND_32 KG_BIND_24, "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define KG_LIST_40 KG_LIST_32 ", %16, %17, %18, %19"
#define KG_BIND_40 KG_BIND_32, "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19])
#define KG_LIST_48 KG_LIST_40 ", %20, %21, %22, %23"
#define KG_BIND_48 KG_BIND_40, "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define KG_LIST_56 KG_LIST_48 ", %24, %25, %26, %27"
#define KG_BIND_56 KG_BIND_48, "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27])
#define KG_LIST_64 KG_LIST_56 ", %28, %29, %30, %31"
#define KG_BIND_64 KG_BIND_56, "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define KG_LIST_72 KG_LIST_64 ", %32, %33, %34, %35"
#define KG_BIND_72 KG_BIND_64, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35])
#define KG_LIST_80 KG_LIST_72 ", %36, %37, %38, %39"
#define KG_BIND_80 KG_BIND_72, "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define KG_LIST_88 KG_LIST_80 ", %40, %41, %42, %43"
#define KG_BIND_88 KG_BIND_80, "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43])
#define KG_LIST_96 KG_LIST_88 ", %44, %45, %46, %47"
#define KG_BIND_96 KG_BIND_88, "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define KG_LIST_104 KG_LIST_96 ", %48, %49, %50, %51"
#define KG_BIND_104 KG_BIND_96, "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51])
#define KG_LIST_112 KG_LIST_104 ", %52, %53, %54, %55"
#define KG_BIND_112 KG_BIND_104, "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define KG_LIST_120 KG_LIST_112 ", %56, %57, %58, %59"
#define KG_BIND_120 KG_BIND_112, "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59])
#define KG_LIST_128 KG_LIST_120 ", %60, %61, %62, %63"
#define KG_BIND_128 KG_BIND_120, "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define KG_LIST_136 KG_LIST_128 ", %64, %65, %66, %67"
#define KG_BIND_136 KG_BIND_128, "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67])
#define KG_LIST_144 KG_LIST_136 ", %68, %69, %70, %71"
#define KG_BIND_144 KG_BIND_136, "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define KG_LIST_152 KG_LIST_144 ", %72, %73, %74, %75"
#define KG_BIND_152 KG_BIND_144, "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75])
#define KG_LIST_160 KG_LIST_152 ", %76, %77, %78, %79"
#define KG_BIND_160 KG_BIND_152, "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define KG_LIST_168 KG_LIST_160 ", %80, %81, %82, %83"
#define KG_BIND_168 KG_BIND_160, "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83])
#define KG_LIST_176 KG_LIST_168 ", %84, %85, %86, %87"
#define KG_BIND_176 KG_BIND_168, "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define KG_LIST_184 KG_LIST_176 ", %88, %89, %90, %91"
#define KG_BIND_184 KG_BIND_176, "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91])
#define KG_LIST_192 KG_LIST_184 ", %92, %93, %94, %95"
#define KG_BIND_192 KG_BIND_184, "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define KG_LIST_200 KG_LIST_192 ", %96, %97, %98, %99"
#define KG_BIND_200 KG_BIND_192, "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99])
#define KG_LIST_208 KG_LIST_200 ", %100, %101, %102, %103"
#define KG_BIND_208 KG_BIND_200, "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103])
#define KG_LIST_216 KG_LIST_208 ", %104, %105, %106, %107"
#define KG_BIND_216 KG_BIND_208, "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107])
#define KG_LIST_224 KG_LIST_216 ", %108, %109, %110, %111"
#define KG_BIND_224 KG_BIND_216, "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
#define KG_LIST_232 KG_LIST_224 ", %112, %113, %114, %115"
#define KG_BIND_232 KG_BIND_224, "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115])
#define KG_LIST_240 KG_LIST_232 ", %116, %117, %118, %119"
#define KG_BIND_240 KG_BIND_232, "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119])
#define KG_LIST_248 KG_LIST_240 ", %120, %121, %122, %123"
#define KG_BIND_248 KG_BIND_240, "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123])
#define KG_LIST_256 KG_LIST_248 ", %124, %125, %126, %127"
#define KG_BIND_256 KG_BIND_248, "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])

#define KG_WGMMA_TEXT(N, type, a, b, predicate, transposed)                                                          \
    "{\n.reg .pred p;\nsetp.ne.b32 p, " predicate ", 0;\n"                                                           \
    "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type " {" KG_LIST_##N "}, " a ", " b ", p, 1, 1, "     \
    transposed ";\n}"

#define KG_WGMMA(N, P0, P1, P2, P3, P4, P5, P6)                                                                      \
    template <>                                                                                                      \
    struct wgmma<N> {                                                                                                \
        template <class T, int TA, int TB>                                                                           \
        static KG_DEVICE void ss(f32* d, u64 a, u64 b, int accumulate) {                                             \
            if constexpr (same<T, bf16>) {                                                                           \
                asm volatile(KG_WGMMA_TEXT(N, "bf16", P0, P1, P2, P3 ", " P4)                                        \
                             : KG_BIND_##N : "l"(a), "l"(b), "r"(accumulate), "n"(TA), "n"(TB));                     \
            } else {                                                                                                 \
                asm volatile(KG_WGMMA_TEXT(N, "f16", P0, P1, P2, P3 ", " P4)                                         \
                             : KG_BIND_##N : "l"(a), "l"(b), "r"(accumulate), "n"(TA), "n"(TB));                     \
            }                                                                                                        \
        }                                                                                                            \
        template <class T, int TB>                                                                                   \
        static KG_DEVICE void rs(f32* d, const u32* a, u64 b, int accumulate) {                                      \
            if constexpr (same<T, bf16>) {                                                                           \
                asm volatile(KG_WGMMA_TEXT(N, "bf16", "{" P0 ", " P1 ", " P2 ", " P3 "}", P4, P5, P6)                \
                             : KG_BIND_##N                                                                           \
                             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(TB));        \
            } else {                                                                                                 \
                asm volatile(KG_WGMMA_TEXT(N, "f16", "{" P0 ", " P1 ", " P2 ", " P3 "}", P4, P5, P6)                 \
                             : KG_BIND_##N                                                                           \
                             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(TB));        \
            }                                                                                                        \
        }                                                                                                            \
    };

namespace kg {

template <int N> struct wgmma;

KG_WGMMA(8, "%4", "%5", "%6", "%7", "%8", "%9", "%10")
KG_WGMMA(16, "%8", "%9", "%10", "%11", "%12", "%13", "%14")
KG_WGMMA(24, "%12", "%13", "%14", "%15", "%16", "%17", "%18")
KG_WGMMA(32, "%16", "%17", "%18", "%19", "%20", "%21", "%22")
KG_WGMMA(40, "%20", "%21", "%22", "%23", "%24", "%25", "%26")
KG_WGMMA(48, "%24", "%25", "%26", "%27", "%28", "%29", "%30")
KG_WGMMA(56, "%28", "%29", "%30", "%31", "%32", "%33", "%34")
KG_WGMMA(64, "%32", "%33", "%34", "%35", "%36", "%37", "%38")
KG_WGMMA(72, "%36", "%37", "%38", "%39", "%40", "%41", "%42")
KG_WGMMA(80, "%40", "%41", "%42", "%43", "%44", "%45", "%46")
KG_WGMMA(88, "%44", "%45", "%46", "%47", "%48", "%49", "%50")
KG_WGMMA(96, "%48", "%49", "%50", "%51", "%52", "%53", "%54")
KG_WGMMA(104, "%52", "%53", "%54", "%55", "%56", "%57", "%58")
KG_WGMMA(112, "%56", "%57", "%58", "%59", "%60", "%61", "%62")
KG_WGMMA(120, "%60", "%61", "%62", "%63", "%64", "%65", "%66")
KG_WGMMA(128, "%64", "%65", "%66", "%67", "%68", "%69", "%70")
KG_WGMMA(136, "%68", "%69", "%70", "%71", "%72", "%73", "%74")
KG_WGMMA(144, "%72", "%73", "%74", "%75", "%76", "%77", "%78")
KG_WGMMA(152, "%76", "%77", "%78", "%79", "%80", "%81", "%82")
KG_WGMMA(160, "%80", "%81", "%82", "%83", "%84", "%85", "%86")
KG_WGMMA(168, "%84", "%85", "%86", "%87", "%88", "%89", "%90")
KG_WGMMA(176, "%88", "%89", "%90", "%91", "%92", "%93", "%94")
KG_WGMMA(184, "%92", "%93", "%94", "%95", "%96", "%97", "%98")
KG_WGMMA(192, "%96", "%97", "%98", "%99", "%100", "%101", "%102")
KG_WGMMA(200, "%100", "%101", "%102", "%103", "%104", "%105", "%106")
KG_WGMMA(208, "%104", "%105", "%106", "%107", "%108", "%109", "%110")
KG_WGMMA(216, "%108", "%109", "%110", "%111", "%112", "%113", "%114")
KG_WGMMA(224, "%112", "%113", "%114", "%115", "%116", "%117", "%118")
KG_WGMMA(232, "%116", "%117", "%118", "%119", "%120", "%121", "%122")
KG_WGMMA(240, "%120", "%121", "%122", "%123", "%124", "%125", "%126")
KG_WGMMA(248, "%124", "%125", "%126", "%127", "%128", "%129", "%130")
KG_WGMMA(256, "%128", "%129", "%130", "%131", "%132", "%133", "%134")

}  // namespace kg

#undef KG_WGMMA
#undef KG_WGMMA_TEXT
