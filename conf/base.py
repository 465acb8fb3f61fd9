"""What the sections of a configuration are made of: their base class, and types of values."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat, JsonValue
from pydantic_core import PydanticCustomError

from swarm.redaction import holds_secret


def _unwrapped(schema: dict[str, Any]) -> None:
    """Join the lines of the descriptions of keys."""
    for key in schema.get("properties", {}).values():
        if "description" in key:
            key["description"] = " ".join(key["description"].split())


class Section(BaseModel):
    """A frozen group of keys: unknown keys are refused, and values are never converted.

    The text below a key is its description, in the JSON schema and in the documentation.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        use_attribute_docstrings=True,
        json_schema_extra=_unwrapped,
    )


def sentence(text: str) -> PydanticCustomError:
    """Return a validation error with the complete message for the user."""
    return PydanticCustomError("sentence", "{text}", {"text": text})


def _without_secret(value: str) -> str:
    if holds_secret(value):
        raise ValueError(
            "holds a password or a token; write ${NAME} in its place"
            " and set the environment variable NAME"
        )
    return value


Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
Count = Annotated[int, Field(ge=0, le=10**9)]
PositiveCount = Annotated[int, Field(ge=1, le=10**9)]
Fraction = Annotated[FiniteFloat, Field(gt=0, lt=1)]
Workers = Annotated[int, Field(ge=1, le=1024)] | Literal[-1]
NotNegative = Annotated[FiniteFloat, Field(ge=0)]
Text = Annotated[str, Field(min_length=1)]
Column = Text
FindingCode = Text
# The import path of a class, and a package or module that it may be imported from.
ClassPath = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")]
Prefix = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\.?$")]
Location = Annotated[str, Field(min_length=1), AfterValidator(_without_secret)]
Params = dict[str, JsonValue]
# The name of runs, registered models and files; hence no slashes or spaces.
Name = Annotated[str, Field(max_length=100, pattern=r"^[._-]*[A-Za-z0-9][A-Za-z0-9._-]*$")]
Scoring = Annotated[
    Text | None,
    Field(
        description="scikit-learn scorer whose cost is minimised; null is accuracy for classifiers"
        " and r2 for regressors"
    ),
]
PosLabel = Annotated[
    bool | int | str | None,
    Field(
        description="Label that counts as positive; null takes the label 1 where there is one, else"
        " the rarer class"
    ),
]
Values = Annotated[list[JsonValue], Field(min_length=1)]
Importance = Literal["auto", "fold", "refit", "permutation", "mutual_information", "none"]
