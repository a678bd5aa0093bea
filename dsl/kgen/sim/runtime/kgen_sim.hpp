// kgen_sim.hpp: the CPU half of kgen.cuh. Include kgen.cuh, not this file.
#pragma once

#include "async.hpp"
#include "barrier.hpp"
#include "collective.hpp"
#include "entry.hpp"
#include "global.hpp"
#include "shared.hpp"
#include "tensor.hpp"
#include "tma.hpp"
#include "wgmma.hpp"
#include "math.hpp"  // last: it redefines names of <math.h>

#define KG_GLOBAL
#define KG_GLOBAL_BOUNDS(...)
#define KG_UNROLL
#define KG_TENSOR_MAP(name) const tensor_map name
#define KG_SMEM(name) constexpr u32 name = kg::shared_base
#define KG_TILE(loop_id, tile_start, masked) kg::note_tile(loop_id, tile_start, masked)

#define threadIdx (kg::thread_index())
#define blockIdx (kg::block_index())
#define blockDim (kg::block_dim())
#define gridDim (kg::grid_dim())
