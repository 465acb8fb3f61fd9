"""The schedule of a configuration."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from conf.base import Section, sentence
from swarm.errors import nearest

__all__ = ["Schedule", "ScheduleSection"]


class ScheduleSection(Section):
    """When ``swarm serve`` runs this configuration."""

    cron: Annotated[str, Field(min_length=1)]
    """Cron expression: minute, hour, day of month, month and day of week; '0 4 * * 1' is every
    Monday at 4"""
    timezone: Annotated[str, Field(min_length=1)] = "UTC"
    """Time zone of the cron expression, such as Europe/Berlin"""

    @field_validator("cron")
    @classmethod
    def _can_be_scheduled(cls, value: str) -> str:
        # Imported here, as it is slow and only schedules need it.
        from prefect.client.schemas.schedules import CronSchedule

        try:
            # A sixth field would be seconds, and @reboot is not a time.
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
    Field(description="When `swarm serve` runs this configuration; null for no schedule"),
]
