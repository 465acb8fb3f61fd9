"""Tests, in folders that mirror the code; what they share is here."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
