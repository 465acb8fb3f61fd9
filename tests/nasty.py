"""A table as people export it: semicolons, decimal commas, a date, an ID, free text, a leak."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd


def nasty_table(n_rows: int = 1200, seed: int = 5) -> pd.DataFrame:
    """Return contracts of which 3 % end, with columns that should not be features."""
    rng = np.random.default_rng(seed)
    amounts = rng.normal(size=(n_rows, 6)).round(3)
    risk = amounts[:, 0] - amounts[:, 1] + 0.5 * amounts[:, 2] + rng.normal(scale=0.5, size=n_rows)
    ended = risk >= np.quantile(risk, 0.97)
    words = np.array(["Kunde", "rief", "an", "wegen", "Rechnung", "später", "Größe", "keine"])
    frame = pd.DataFrame({"kundennr": np.arange(n_rows) + 50_001})
    frame["vertrag_seit"] = [
        day.strftime("%d.%m.%Y")
        for day in pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 3000, n_rows), "D")
    ]
    for i in range(6):
        frame[f"betrag_{i}"] = amounts[:, i]
    frame["betrag_5_kopie"] = frame["betrag_5"]
    frame["tarif"] = rng.choice(["Basis", "Plus", "Größe L"], n_rows)
    frame["notiz"] = [" ".join(rng.choice(words, 6)) for _ in range(n_rows)]
    frame["land"] = "DE"
    frame["erstattung"] = np.where(ended, rng.normal(40, 5, n_rows).round(2), 0.0)
    frame["gekuendigt"] = np.where(ended, "ja", "nein")
    frame.loc[rng.random(n_rows) < 0.05, "betrag_3"] = np.nan
    return frame


def write_nasty(folder: Path, n_rows: int = 1200) -> Path:
    """Write the table with semicolons, decimal commas, cp1252 and ``k.A.`` for missing values."""
    path = folder / "vertraege.csv"
    nasty_table(n_rows).to_csv(
        path, index=False, sep=";", decimal=",", encoding="cp1252", na_rep="k.A."
    )
    return path
