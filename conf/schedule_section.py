"""When a configuration is run by itself."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from conf.base import Section, sentence
from swarm.errors import nearest

__all__ = ["Schedule", "ScheduleSection"]


class ScheduleSection(Section):
    """When ``swarm serve`` runs this configuration."""

    cron: Annotated[str, Field(min_length=1)] = Field(
        description="Minute, hour, day of month, month and day of week, as cron has them:"
        " '0 4 * * 1' is every Monday at 4"
    )
    timezone: Annotated[str, Field(min_length=1)] = Field(
        default="UTC", description="Time zone of the hours in cron, such as Europe/Berlin"
    )

    @field_validator("cron")
    @classmethod
    def _can_be_scheduled(cls, value: str) -> str:
        # Only those who schedule pay for the import.
        from prefect.client.schemas.schedules import CronSchedule

        try:
            # A sixth field would be seconds, and with @reboot there is no time at all.
            if len(value.split()) != 5:
                raise ValueError(value)
            CronSchedule(cron=value)
        except ValueError:
            raise sentence(
                "schedule.cron must be five fields (minute, hour, day of month, month, day of"
                f" week) such as '0 4 * * 1' for Mondays at 4, got {value!r}"
            ) from None
        return value

    @field_validator("timezone")
    @classmethod
    def _is_on_the_map(cls, value: str) -> str:
        from zoneinfo import available_timezones

        known = available_timezones()
        if value not in known:
            hint = nearest(value, sorted(known)) or "; set it to UTC"
            raise sentence(
                "schedule.timezone must be a name of the time zone database, such as"
                f" Europe/Berlin, got {value!r}{hint}"
            )
        return value


Schedule = Annotated[
    ScheduleSection | None,
    Field(description="When `swarm serve` runs it; null for never by itself"),
]
