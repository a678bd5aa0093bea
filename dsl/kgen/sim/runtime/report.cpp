// The result of a launch as JSON.
#include <cstdio>
#include <string>

#include "launch.hpp"

namespace kg {

namespace {

std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        if (static_cast<unsigned char>(c) >= 0x20) out += c;
    }
    return out + "\"";
}

std::string field(const char* name, i64 value) { return quoted(name) + ":" + std::to_string(value); }

std::string fault_text(const Fault& fault) {
    return "{\"kind\":" + quoted(fault.kind) + ",\"message\":" + quoted(fault.message) + "," + field("block", fault.block) + "," +
           field("thread", fault.thread) + "," + field("line", fault.line) + "," +
           field("code_offset", static_cast<i64>(fault.code_offset)) + "}";
}

u64 distinct(const u8* elements, const Allocation& tensor) {
    if (!elements) return 0;
    u64 count = 0;
    for (u64 i = 0; i < tensor.bytes / tensor.item; ++i) count += elements[i];
    return count * tensor.item;
}

std::string traffic_text(const std::string& name, const Traffic& t, const Allocation& tensor) {
    return quoted(name) + ":{" + field("loaded", static_cast<i64>(t.loaded)) + "," + field("stored", static_cast<i64>(t.stored)) + "," +
           field("atomics", static_cast<i64>(t.atomics)) + "," + field("load_sectors", static_cast<i64>(t.load_sectors)) + "," +
           field("store_sectors", static_cast<i64>(t.store_sectors)) + "," +
           field("distinct_loaded", static_cast<i64>(distinct(tensor.loaded, tensor))) + "," +
           field("distinct_stored", static_cast<i64>(distinct(tensor.stored, tensor))) + "}";
}

std::string line_text(u32 line, u32 access, const LineCount& count) {
    static const char* const names[access_kinds] = {"load",        "store",        "atomic",   "cp_async",
                                                    "shared_load", "shared_store", "ldmatrix", "stmatrix"};
    return "{" + field("line", line) + ",\"access\":" + quoted(names[access]) + "," + field("instructions", static_cast<i64>(count.instructions)) +
           "," + field("pieces", static_cast<i64>(count.pieces)) + "," + field("ideal", static_cast<i64>(count.ideal)) + "}";
}

}  // namespace

std::string report_text(const Launch& launch) {
    std::string faults, tensors, instructions, lines;
    for (const Fault& fault : launch.faults) faults += (faults.empty() ? "" : ",") + fault_text(fault);
    for (std::size_t i = 0; i < launch.names.size(); ++i) {
        tensors += (i ? "," : "") + traffic_text(launch.names[i], launch.traffic[i], launch.allocations[i]);
    }
    for (u32 op = 0; op < op_count; ++op) {
        instructions += (op ? "," : "") + field(name_of(static_cast<Op>(op)), static_cast<i64>(launch.instructions[op]));
    }
    for (u32 i = 0; i < launch.lines.size(); ++i) {
        if (launch.lines[i].instructions == 0) continue;
        lines += (lines.empty() ? "" : ",") + line_text(i / access_kinds, i % access_kinds, launch.lines[i]);
    }
    return "{\"faults\":[" + faults + "],\"tensors\":{" + tensors + "}," + field("barriers", static_cast<i64>(launch.barriers)) + "," +
           field("collectives", static_cast<i64>(launch.collectives)) + "," + field("blocks", static_cast<i64>(launch.blocks)) +
           ",\"instructions\":{" + instructions + "},\"lines\":[" + lines + "]," + field("special_functions", static_cast<i64>(launch.special)) + "}";
}

}  // namespace kg
