"""What the sections of a configuration are made of: their base class, and types of values."""

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    JsonValue,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from swarm.redaction import holds_secret

# A contradiction is a key, dotted if it is in a section below, and the end of a sentence about it.
Contradiction = tuple[str, str]


class Section(BaseModel):
    """A frozen group of keys: unknown keys are refused, and values are never converted.

    The text below a key is its description, in the JSON schema and in the documentation.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        use_attribute_docstrings=True,
    )

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield the keys that do not agree with others; the key "" is the section itself."""
        return iter(())

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        """Raise all contradictions at once, each at its key."""
        errors = [
            InitErrorDetails(
                type=PydanticCustomError("contradiction", "{text}", {"text": text}),
                loc=tuple(filter(None, key.split("."))),
                input=None,
            )
            for key, text in self.contradictions()
        ]
        if errors:
            raise ValidationError.from_exception_data(type(self).__name__, errors)
        return self


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
ClassPath = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")]
Location = Annotated[str, Field(min_length=1), AfterValidator(_without_secret)]
Params = dict[str, JsonValue]
# Runs, registered models and files have this name, so it has no slashes or spaces.
Name = Annotated[
    str,
    Field(
        max_length=100,
        pattern=r"^[._-]*[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="Name of the configuration, and of a registered model: letters, digits, dots,"
        " underscores and hyphens",
    ),
]
Description = Annotated[
    str | None,
    Field(
        description="Purpose of the run, and what its models must not be used for; stored with both"
    ),
]
Scoring = Annotated[
    Text | None,
    Field(
        description="scikit-learn scorer whose cost is minimised, or the import path of a function"
        " scorer(estimator, X, y) in a package or module of model.allow; null is accuracy for"
        " classifiers and r2 for regressors"
    ),
]
PosLabel = Annotated[
    bool | int | str | None,
    Field(
        description="Label that counts as positive; null takes the label 1 where there is one, else"
        " the rarer class"
    ),
]
Importance = Literal["auto", "fold", "permutation", "mutual_information", "none"]
