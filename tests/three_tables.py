"""Three tables as people have them, with planted faults: customers, wages, genes."""

from __future__ import annotations

import numpy as np
import pandas as pd


def churn() -> pd.DataFrame:
    """Return customers, some of whom leave, with identifiers, equal columns and two leaks."""
    rng = np.random.default_rng(7)
    n = 600
    fee = rng.lognormal(7, 0.8, n).round(2)
    balance = rng.normal(0, 2000, n).round(0)
    months = rng.integers(1, 72, n)
    churned = fee / 3000 - months / 40 + rng.normal(scale=0.7, size=n) > 0.3
    accounts = rng.integers(10**18, 9 * 10**18, 40)[rng.integers(0, 40, n)]
    contract = rng.choice(["monthly", "yearly", "two years"], n)
    return pd.DataFrame(
        {
            "customer": rng.permutation(n) + 10_000,
            "fee": [f"${x:,.2f}" for x in fee],
            "paid": [f"{x:,.2f} €".translate(str.maketrans(",.", ".,")) for x in fee * 0.7],
            "points": [f"{x:,.0f}" for x in rng.lognormal(7, 1, n)],
            "balance": [f"({-x:,.0f})" if x < 0 else f"{x:,.0f}" for x in balance],
            "used": [f"{x:.1f}%" for x in rng.uniform(0, 100, n)],
            "data": [f"{x} {rng.choice(['MB', 'GB'])}" for x in rng.integers(1, 900, n)],
            "account": pd.Series(accounts).astype(str).where(rng.random(n) < 0.9, ""),
            "months": months,
            "years": (months / 12).round(2),
            "contract": contract,
            "contract_no": pd.Series(contract).map({"monthly": 3, "yearly": 1, "two years": 2}),
            "paperless": rng.integers(0, 2, n),
            "country": "DE",
            "version": rng.choice(["1", "01", "1.0"], n),
            "sensor": np.where(rng.random(n) < 0.1, -999, rng.normal(20, 5, n).round(1)),
            "calls": rng.poisson(np.where(churned, 3.0, 0.5)),
            "reason": np.where(churned, rng.choice(["price", "service"], n), ""),
            "churned": np.where(churned, "yes", "no"),
        }
    ).assign(mail=lambda frame: np.where(frame["paperless"] == 1, "N", "Y"))


def wages() -> pd.DataFrame:
    """Return people in the order of the years, over which their wages rise."""
    rng = np.random.default_rng(3)
    n_people = 90
    n_years = 7
    person = np.tile(np.arange(n_people), n_years)
    year = np.repeat(np.arange(n_years), n_people)
    ability = rng.normal(size=n_people)
    age = rng.integers(20, 55, n_people)
    school = rng.integers(8, 18, n_people)
    married = rng.integers(0, 2, len(person))
    frame = pd.DataFrame(
        {
            "person": person + 1,
            "card_no": 7 * (person + 1) + 13,
            "badge": rng.permutation(n_people)[person] + 5000,
            "year": year + 1976,
            "age": age[person] + year,
            "age_months": 12 * (age[person] + year),
            "school": school[person],
            "female": rng.integers(0, 2, n_people)[person],
            "married": married,
            "is_married": np.where(married == 1, "Y", "N"),
            "hours": rng.normal(40, 6, len(person)).round(1),
        }
    )
    frame["free"] = (100 - frame["hours"]).round(1)
    wage = 5 + 0.06 * school[person] + 0.3 * ability[person] + 0.1 * year + 0.01 * frame["hours"]
    return frame.assign(lwage=(wage + rng.normal(scale=0.1, size=len(frame))).round(5))


def genes() -> pd.DataFrame:
    """Return many more columns than rows, five of which predict the class."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(83, 2308)).round(4)
    tumour = rng.integers(0, 4, 83)
    values[:, :5] += tumour[:, None] * np.array([1, -1, 1, -1, 1])
    frame = pd.DataFrame(values, columns=[f"g{i}" for i in range(2308)])
    return frame.assign(tumour=np.array(["BL", "EWS", "NB", "RMS"])[tumour])
