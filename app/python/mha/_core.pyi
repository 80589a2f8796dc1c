# The native part: app/python/module.cpp.
from typing import Any, Optional

__version__: str

class Error(ValueError): ...

class Memory:
    name: str
    tensors: list[tuple[str, tuple[Any, str]]]
    scalars: list[tuple[str, str]]
    labels: list[tuple[str, list[str]]]
    config: dict[str, str]

class Request:
    sources: list[str]
    memory: list[Memory]
    bound: list[tuple[str, tuple[Any, str]]]
    settings: list[tuple[str, str]]
    layer: str
    dtype: str
    naming: str
    prefix: str
    config: str
    tokens: str
    key_tokens: str
    texts: list[str]
    ids: list[str]
    stages: list[str]
    bos: Optional[bool]
    special: bool
    same_x: bool
    threads: int

def run(request: Request) -> tuple[str, list[tuple[str, str, dict[str, Any], list[tuple[bool, str]]]]]: ...
def layers(sources: list[str]) -> list[str]: ...
def stages() -> list[tuple[str, tuple[str, ...], str, str, str]]: ...
def stage_named(name: str) -> str: ...
def is_setting(name: str) -> bool: ...
