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

std::string traffic_text(const std::string& name, const Traffic& t) {
    return quoted(name) + ":{" + field("loaded", static_cast<i64>(t.loaded)) + "," + field("stored", static_cast<i64>(t.stored)) + "," +
           field("atomics", static_cast<i64>(t.atomics)) + "," + field("load_sectors", static_cast<i64>(t.load_sectors)) + "," +
           field("store_sectors", static_cast<i64>(t.store_sectors)) + "}";
}

}  // namespace

std::string report_text(const Launch& launch) {
    std::string faults, tensors, instructions;
    for (const Fault& fault : launch.faults) faults += (faults.empty() ? "" : ",") + fault_text(fault);
    for (std::size_t i = 0; i < launch.names.size(); ++i) {
        tensors += (i ? "," : "") + traffic_text(launch.names[i], launch.traffic[i]);
    }
    for (u32 op = 0; op < op_count; ++op) {
        instructions += (op ? "," : "") + field(name_of(static_cast<Op>(op)), static_cast<i64>(launch.instructions[op]));
    }
    return "{\"faults\":[" + faults + "],\"tensors\":{" + tensors + "}," + field("barriers", static_cast<i64>(launch.barriers)) + "," +
           field("collectives", static_cast<i64>(launch.collectives)) + "," + field("blocks", static_cast<i64>(launch.blocks)) +
           ",\"instructions\":{" + instructions + "}}";
}

}  // namespace kg
