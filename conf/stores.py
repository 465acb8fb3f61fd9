"""Where the runs of a configuration are kept, and when they run."""

from collections.abc import Iterator
from typing import Literal

from pydantic import ConfigDict, Field, ValidationError

from conf.base import Contradiction, Location, Section, Text


class TrackingSection(Section):
    """The MLflow tracking store."""

    # pydantic's metaclass already defines `register`.
    model_config = ConfigDict(serialize_by_alias=True)

    uri: Location = "sqlite:///mlruns/mlflow.db"
    """MLflow tracking URI; ${NAME} is replaced by an environment variable when used"""
    artifacts: Location = "mlruns/artifacts"
    """Folder or URL for the artifacts of a new experiment"""
    experiment: Text = "swarm"
    """MLflow experiment"""
    register_model: bool | Literal["auto"] = Field(default=False, alias="register")
    """Register the model that `serve` names under the name of the run; auto does so unless all
    features are better than it, or it has no clear gain over guessing; a refresh always registers
    its own"""

    @property
    def register(self) -> bool:
        """Whether the model may be registered: the key ``tracking.register``."""
        return self.register_model is not False

    @property
    def registers_always(self) -> bool:
        """Whether the model is registered even if all features are better."""
        return self.register_model is True


class ArchiveSection(Section):
    """The cache of evaluations."""

    url: Location = "sqlite:///mlruns/archive.db"
    """SQLAlchemy URL of the archive; ${NAME} is replaced by an environment variable when used"""


class ScheduleSection(Section):
    """When `swarm serve` runs this configuration; null for no schedule."""

    cron: Text
    """Cron expression: minute, hour, day of month, month and day of week; '0 4 * * 1' is every
    Monday at 4"""
    timezone: Text = "UTC"
    """Time zone of the cron expression, such as Europe/Berlin"""

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield what Prefect cannot schedule."""
        # The import is slow, and only schedules need it.
        from prefect.client.schemas.schedules import CronSchedule

        # A sixth field would be seconds.
        if len(self.cron.split()) != 5:
            text = "must be five fields such as '0 4 * * 1', Mondays at 4"
            yield "cron", f"{text}, got {self.cron!r}"
        try:
            CronSchedule(cron=self.cron, timezone=self.timezone)
        except ValidationError as error:
            for detail in error.errors():
                yield str(detail["loc"][0]), f"is refused: {detail['ctx']['error']}; correct it"
