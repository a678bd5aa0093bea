"""The keys of a spec and of its schedule, as pydantic models: what may stand where. What it means is resolve's."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from kgen import spec_fields as f

ARCH = re.compile(r"sm_\d+[af]?|gfx\w+")


class Model(BaseModel):
    """Base of the models: unknown keys are errors, values are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


def _one_or_many(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


class SplitModel(Model):
    """`split: {count: S | auto}`: how many parts of the axis are reduced apart and merged afterwards."""

    count: f.Count
    combine: Annotated[Literal["merge"], BeforeValidator(f.one_of("merge", later=("atomic", "last")))] = "merge"
    size: Annotated[Any, f.unbuilt("split by a fixed size")] = None
    balance: Annotated[Any, f.unbuilt("split with balance (stream-K)")] = None
    parts: Annotated[Any, f.unbuilt("split with balance (stream-K)")] = None


class AxisStructure(Model):
    """The fields of an axis that a schedule may override."""

    tile: f.Tile | None = None
    stream: f.Flag | None = None
    split: SplitModel | None = None


class AxisModel(AxisStructure):
    """One axis: its extent and its default structure."""

    extent: f.Extent
    in_: f.Choices | None = Field(default=None, alias="in")
    max: Annotated[Any, f.unbuilt("extents that depend on data ('max')")] = None
    paged: Annotated[Any, f.unbuilt("paged axes")] = None
    ragged: Annotated[Any, f.unbuilt("ragged axes")] = None
    fuse: Annotated[Any, f.unbuilt("fused axes")] = None


class TensorModel(Model):
    """One tensor argument, or an output (`out: true`)."""

    dims: tuple[f.Extent, ...]
    dtype: f.Word
    out: f.Flag = False
    values: f.ValueSets | None = None
    inplace: f.Name | None = None
    fill: f.Number | None = None


class ParamModel(Model):
    """One scalar parameter of the op."""

    dtype: f.Word
    default: f.Formula | None = None
    static: f.Flag = False


class SizeModel(Model):
    """A size: computed (`G: H // HK`) or given by the caller from a list (`GS: {in: [32, 64]}`)."""

    definition: f.Extent | None = None
    in_: f.Choices | None = Field(default=None, alias="in")

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return value if isinstance(value, dict) else {"definition": value}


class UseModel(Model):
    """`accumulate: {name: record}` or `{name: {use: record, operand: expression}}`."""

    use: f.Word
    operands: dict[str, f.Formula] = {}

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return {"use": value}
        operands = {k: v for k, v in value.items() if k != "use"}
        return {**{k: v for k, v in value.items() if k == "use"}, "operands": operands}


class ConventionsModel(Model):
    """Choices of meaning: the result of empty reductions, the precision of f32 products."""

    empty: Annotated[Literal["zero", "nan"] | None, BeforeValidator(f.one_of("zero", "nan"))] = None
    f32_dot: Annotated[Literal["ieee", "tf32"], BeforeValidator(f.one_of("ieee", "tf32", later=("tf32x3",)))] = "ieee"


class MaterializeModel(Model):
    """`materialize: {s: {in: global, dtype: f32}}`: cut the kernel after a named intermediate."""

    in_: Annotated[Literal["global"], BeforeValidator(f.one_of("global", later=("shared",)))] = Field(alias="in")
    dtype: f.Word = "f32"


class KernelFields(Model):
    """Schedule fields of one level that one kernel can have for itself."""

    axes: dict[str, AxisStructure] = {}
    grid: tuple[f.GridItem, ...] | None = None
    grid_swizzle: dict[str, f.Group] | None = None
    loops: tuple[f.Name, ...] | None = None
    skeleton: Annotated[str | None, BeforeValidator(f.one_of("simt", "mma", "wgmma"))] = None
    warps: f.Warps | None = None
    stages: f.Stages | None = None
    threads: f.Threads | None = None
    consumers: f.Small | None = None
    overlap: f.Word | None = None
    thread_tile: Annotated[Any, f.unbuilt("schedule field 'thread_tile'")] = None
    vector: Annotated[Any, f.unbuilt("schedule field 'vector'")] = None
    map: Annotated[Any, f.unbuilt("schedule field 'map'")] = None
    shared: Annotated[Any, f.unbuilt("schedule field 'shared'")] = None
    reduce: Annotated[Any, f.unbuilt("schedule field 'reduce'")] = None
    persistent: Annotated[Any, f.unbuilt("persistent grids")] = None
    state: Annotated[Any, f.unbuilt("schedule field 'state'")] = None
    finish: Annotated[Any, f.unbuilt("schedule field 'finish'")] = None
    warps_along: Annotated[Any, f.unbuilt("schedule field 'warps_along'")] = None


class CaseModel(KernelFields):
    """Fields that hold when a condition on static sizes, dtypes and static params is true."""

    when: f.Formula


class LevelModel(KernelFields):
    """One level of the schedule."""

    materialize: dict[str, MaterializeModel] | None = None
    kernels: dict[str, KernelFields] = {}
    cases: tuple[CaseModel, ...] = ()


class BackendModel(LevelModel):
    """`schedule.triton` or `schedule.cuda`; a key such as sm_80 holds a level for that architecture and newer ones."""

    archs: dict[str, LevelModel] = {}

    @model_validator(mode="before")
    @classmethod
    def _collect_archs(cls, value: Any) -> Any:
        if not isinstance(value, dict) or "archs" in value:
            return value
        archs = {k: v for k, v in value.items() if ARCH.fullmatch(k)}
        return {k: v for k, v in value.items() if k not in archs} | {"archs": archs}


class ScheduleModel(LevelModel):
    """How the kernel is built; the meaning of the spec does not depend on it."""

    triton: BackendModel = BackendModel()
    cuda: BackendModel = BackendModel()


def _key(description: str, **default: Any) -> Any:
    return Field(description=description, **default)


class SpecModel(Model):
    """A whole spec."""

    kernel: f.Name = _key("Name of the op.")
    extends: f.Word | None = _key(
        "A spec beside this one, or a shipped one, that this one changes: `axes`, `sizes`, `tensors`, `params` merge "
        "by name and field (null removes an entry), `require` adds, every other key replaces.",
        default=None,
    )
    doc: f.Prose = _key("What the kernel computes, in a sentence.", default="")
    dtypes: dict[f.Name, f.DTypes] = _key("Type variables and the dtypes each can be.", default={})
    axes: dict[f.Name, AxisModel] = _key("Named axes: extent, and how they are tiled by default.")
    sizes: dict[f.Name, SizeModel] = _key("Computed sizes, and sizes given by the caller from a list.", default={})
    require: Annotated[tuple[f.Formula, ...], BeforeValidator(_one_or_many)] = _key(
        "Conditions on sizes that the op checks at a call.", default=()
    )
    tensors: dict[f.Name, TensorModel] = _key("Tensor arguments and outputs, in the order of the op's signature.")
    params: dict[f.Name, ParamModel] = _key("Scalar parameters of the op.", default={})
    mask: f.Formula | None = _key("Which elements exist; joins every reduction over one of its axes.", default=None)
    compute: f.Statements = _key("The statements, one a line.")
    accumulate: dict[str, UseModel] = _key("Which accumulator record serves a reduction.", default={})
    casts: dict[str, f.Word] = _key("Types of intermediates where they enter a Dot.", default={})
    conventions: ConventionsModel = _key("Choices of meaning.", default=ConventionsModel())
    layouts: dict[str, tuple[f.Extent, ...]] = _key("The dims that may be contiguous (default: the last).", default={})
    variants: tuple[dict[str, f.Literal_], ...] = _key("What is built, verified and written.", default=())
    reference: f.Name | None = _key("A function of references.py, beside the spec or shipped.", default=None)
    schedule: ScheduleModel = _key("How the kernel is built, by backend and architecture.", default=ScheduleModel())
